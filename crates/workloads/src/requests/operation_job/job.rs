//! One job as it stands: which of its targets are open, and what became of the others.

use std::collections::BTreeMap;

use hitless_api::operation_job::{OperationError, OperationTarget, OperationTargetStatus, Progress};
use hitless_api::pod::PodView;
use jiff::Timestamp;

use super::{Action, JobBody, replace, restart};
use crate::object::{Body, Object, RequestBody};
use crate::request::RequestContext;
use crate::requests::task;
use crate::requests::token::TOKEN;

/// A job.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(super) object: &'a Object,
    pub(super) body: &'a JobBody,
}

/// In which state one target is.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetState<'a> {
    /// It has ended, and the job says so.
    Recorded,
    /// It is not its turn, because of the partition.
    Later,
    /// Its pod is not known, and may be a moment later.
    Awaited {
        /// From then on it counts as not there.
        until: Timestamp,
    },
    /// It is to be done, or being done.
    Open {
        /// The pod.
        pod: &'a PodView,
        /// It is being done, or has been asked of its workload.
        begun: bool,
        /// What is done to the pod can't be taken back any more, or is about to end by itself.
        committed: bool,
        /// What to record of it.
        extra: BTreeMap<String, String>,
    },
    /// It was done.
    Done {
        /// What to record of it.
        extra: BTreeMap<String, String>,
    },
    /// It can't be done.
    Failed(OperationError),
}

impl Object {
    /// As an OperationJob, if it is one.
    #[must_use]
    pub fn operation_job(&self) -> Option<&JobBody> {
        match &self.body {
            Body::Request(RequestBody::OperationJob(body)) => Some(body),
            _ => None,
        }
    }
}

impl<'a> Job<'a> {
    pub(super) fn of(object: &'a Object) -> Option<Self> {
        Some(Self { object, body: object.operation_job()? })
    }

    /// All jobs, the oldest first.
    pub(crate) fn all<'s>(context: &'s RequestContext<'_, 'a>) -> impl Iterator<Item = Self> + 's {
        context.world.requests().iter().filter_map(|object| Self::of(object)).filter(|job| !job.object.deleting)
    }

    /// The job with this token, unless it is being deleted.
    pub(super) fn of_token(token: &str, context: &RequestContext<'_, 'a>) -> Option<Self> {
        let object = context.world.object(token.strip_prefix(TOKEN)?)?;
        Self::of(object).filter(|job| !job.object.deleting)
    }

    /// What it leaves on a pod.
    pub(crate) fn token(self) -> String {
        super::token(&self.object.id.uid)
    }

    /// It has ended.
    pub(super) fn is_over(self) -> bool {
        self.body.status.progress.is_some_and(Progress::is_final)
    }

    /// What the job says of the target.
    pub(super) fn recorded(self, target: &str) -> Option<&'a OperationTargetStatus> {
        self.body.recorded.get(target).and_then(|index| self.body.status.target_details.get(*index))
    }

    /// Whether the job does not say yet what became of this pod, which it names.
    pub(super) fn is_open(self, pod: &str) -> bool {
        let is_recorded = || self.recorded(pod).is_some_and(|detail| detail.progress.is_final());
        !self.is_over() && !is_recorded() && self.body.targets.iter().any(|target| target.name == pod)
    }

    /// Whether the job says that it has given this pod up.
    pub(super) fn has_given_up(self, pod: &str) -> bool {
        self.recorded(pod).is_some_and(|detail| detail.progress == Progress::Failed)
    }

    /// Whether an operation of this pod, that was ordered for this job, is still wanted.
    pub(super) fn wants(self, pod: &str) -> bool {
        self.is_open(pod) && self.body.invalid.is_none() && self.body.action == Action::Restart
    }

    /// When it was taken on; nothing before its first report.
    pub(super) fn started(self) -> Option<Timestamp> {
        self.body.status.start_time.as_ref().map(|time| time.0)
    }

    /// From when on nothing more is begun.
    pub(super) fn deadline(self) -> Option<Timestamp> {
        self.started()?.checked_add(self.body.active).ok()
    }

    /// Nothing more is begun.
    pub(super) fn is_late(self, now: Timestamp) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The targets, with where each is.
    pub(super) fn targets<'t>(
        self,
        context: &'t RequestContext<'_, 'a>,
    ) -> impl Iterator<Item = (&'a OperationTarget, TargetState<'t>)> + 't
    where
        'a: 't,
    {
        let targets = self.body.targets.iter().enumerate();
        targets.map(move |(index, target)| (target, self.state(index, target, context)))
    }

    fn state<'t>(self, index: usize, target: &OperationTarget, context: &'t RequestContext<'_, 'a>) -> TargetState<'t>
    where
        'a: 't,
    {
        let recorded = self.recorded(&target.name);
        if recorded.is_some_and(|detail| detail.progress.is_final()) {
            return TargetState::Recorded;
        }
        let pod = context.pod(&self.object.id.namespace, &target.name);
        let has_begun = recorded.is_some_and(|detail| detail.progress == Progress::Processing);
        let state = match self.body.action {
            Action::Restart => restart::state(self, &target.name, pod, context),
            Action::Replace => replace::state(self, &target.name, pod, context),
            Action::Unknown(_) => return TargetState::Later,
        };
        let is_begun = has_begun || matches!(state, TargetState::Open { begun: true, .. } | TargetState::Done { .. });
        if index >= self.body.partition && !is_begun {
            return TargetState::Later;
        }
        match state {
            TargetState::Open { committed: false, begun, pod, .. } => {
                if let Some(unknown) = target.containers.iter().find(|name| !begun && pod.container(name).is_none()) {
                    return failed("ContainerNotFound", format!("pod {} has no container {unknown}", target.name));
                }
                if self.is_late(context.now) {
                    let active = self.body.active.as_secs();
                    let what =
                        if begun { "it was taken back: no other pod had taken its place" } else { "it had not begun" };
                    return failed("DeadlineExceeded", format!("{what} {active} s after the job was taken on"));
                }
                state
            }
            other => other,
        }
    }

    /// Of a target whose pod is not there.
    pub(super) fn missing<'s>(self, target: &str, now: Timestamp) -> TargetState<'s> {
        let is_new = self.recorded(target).is_none_or(|detail| detail.start_time.is_none());
        match task::awaited_until(self.object, now).filter(|_| is_new) {
            Some(until) => TargetState::Awaited { until },
            None => {
                failed("PodNotFound", format!("there is no pod {target} in namespace {}", self.object.id.namespace))
            }
        }
    }
}

pub(super) fn failed<'s>(reason: &str, message: String) -> TargetState<'s> {
    TargetState::Failed(OperationError { reason: reason.to_owned(), message })
}
