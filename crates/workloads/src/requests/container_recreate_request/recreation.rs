//! One request as it stands: where its pod is, and what became of each container.
//!
//! The messages [`GONE`] and [`LATE`] are upstream's (`pkg/controller/containerrecreaterequest/crr_controller.go`).

use hitless_api::container_recreate_request::{ContainerRecreateState, FailurePolicy, RecreatePhase};
use hitless_api::names::labels;
use hitless_api::pod::{ContainerView, PodView};
use jiff::Timestamp;

use super::body::RecreateBody;
use crate::object::{Body, Object, RequestBody};
use crate::request::{OperationFailures, RequestContext};
use crate::requests::task;
use crate::requests::token::{TOKEN, token};

/// The pod that the request was made for is not there any more.
const GONE: &str = "pod has gone";
/// The time is over.
const LATE: &str = "recreating has exceeded the activeDeadlineSeconds";

/// A request.
#[derive(Clone, Copy)]
pub(super) struct Recreation<'a> {
    pub(super) object: &'a Object,
    pub(super) body: &'a RecreateBody,
}

/// What a request says of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// What became of it.
    Ended,
    /// That it was stopped. Until then the pod's token is all that tells.
    Stopped,
}

/// Why nothing can be done to the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoPod {
    /// It is not known, and may be a moment later.
    Awaited {
        /// From then on it counts as gone.
        until: Timestamp,
    },
    /// Nothing will be done.
    Never(String),
}

impl<'a> Recreation<'a> {
    fn of(object: &'a Object) -> Option<Self> {
        match &object.body {
            Body::Request(RequestBody::ContainerRecreate(body)) if !object.deleting => Some(Self { object, body }),
            _ => None,
        }
    }

    /// All of them, the oldest first.
    pub(super) fn all<'s>(context: &'s RequestContext<'_, 'a>) -> impl Iterator<Item = Self> + 's {
        context.world.requests().iter().filter_map(|object| Self::of(object))
    }

    /// The request with this token, and the step.
    pub(super) fn of_token(token: &str, context: &RequestContext<'_, 'a>) -> Option<(Self, usize)> {
        let rest = token.strip_prefix(TOKEN)?;
        let (uid, step) = rest.split_once('.').map_or((rest, Some(0)), |(uid, step)| (uid, step.parse().ok()));
        Some((Self::of(context.world.object(uid)?)?, step?))
    }

    /// What a step leaves on the pod.
    pub(super) fn token(self, step: usize) -> String {
        let first = token(&self.object.id.uid);
        if step == 0 { first } else { format!("{first}.{step}") }
    }

    /// The step in which this container is replaced.
    fn step(self, index: usize) -> usize {
        if self.body.is_ordered { index } else { 0 }
    }

    /// It has ended.
    pub(super) fn is_over(self) -> bool {
        self.body.status.phase == Some(RecreatePhase::Completed)
    }

    fn recorded(self, name: &str) -> Option<&'a ContainerRecreateState> {
        self.body.status.container_recreate_states.iter().find(|state| state.name == name)
    }

    /// Whether it does not say that yet of each container of this step.
    pub(super) fn lacks(self, step: usize, record: Record) -> bool {
        let is_told = |state: &ContainerRecreateState| match record {
            Record::Ended => state.phase.is_final(),
            Record::Stopped => state.phase.is_final() || state.is_killed,
        };
        let of_step = self.body.containers.iter().enumerate().filter(|(index, _)| self.step(*index) == step);
        !self.is_over() && of_step.into_iter().any(|(_, name)| !self.recorded(name).is_some_and(is_told))
    }

    /// When it has to have ended.
    pub(super) fn deadline(self) -> Option<Timestamp> {
        self.object.created?.checked_add(self.body.active?).ok()
    }

    /// Its pod, as long as something may be done to it.
    pub(super) fn pod<'s>(self, context: &RequestContext<'s, '_>) -> Result<&'s PodView, NoPod> {
        let Some(pod) = context.pod(&self.object.id.namespace, &self.body.pod) else {
            let until = task::awaited_until(self.object, context.now).filter(|_| !self.has_begun());
            return Err(until.map_or_else(|| NoPod::Never(GONE.to_owned()), |until| NoPod::Awaited { until }));
        };
        if pod.terminating || pod.finished || task::is_newer(pod, self.object) {
            return Err(NoPod::Never(GONE.to_owned()));
        }
        if pod.labels.contains_key(labels::COMPANION) {
            let text = format!("pod {} stands in for a moment only, and is never restarted", pod.id.name);
            return Err(NoPod::Never(text));
        }
        if self.deadline().is_some_and(|deadline| deadline <= context.now) {
            return Err(NoPod::Never(LATE.to_owned()));
        }
        Ok(pod)
    }

    fn has_begun(self) -> bool {
        self.body.status.phase == Some(RecreatePhase::Recreating)
    }

    /// The step that is due, and its containers that are to be replaced; `None`: nothing has to be begun.
    pub(super) fn due(self, pod: &PodView, context: &RequestContext<'_, '_>) -> Option<(usize, Vec<String>)> {
        if self.is_over() {
            return None;
        }
        let states = self.states(pod, context, &OperationFailures::default());
        if self.is_decided(&states) {
            return None;
        }
        let step = self.step(states.iter().position(|state| !state.phase.is_final())?);
        let of_step = states.into_iter().enumerate().filter(|(index, _)| self.step(*index) == step);
        let of_step: Vec<_> = of_step.map(|(_, state)| state).filter(|state| !state.phase.is_final()).collect();
        // What is replaced already is waited for.
        let is_begun = of_step.iter().any(|state| state.is_killed) || task::is_on(pod, &self.token(step));
        let is_to_replace = |state: &ContainerRecreateState| {
            pod.container(&state.name).is_some_and(|container| self.body.is_forced || !self.is_of_later(container))
        };
        let names: Vec<_> = of_step.into_iter().filter(is_to_replace).map(|state| state.name).collect();
        (!is_begun && !names.is_empty()).then_some((step, names))
    }

    /// Nothing of it is begun any more.
    pub(super) fn is_decided(self, states: &[ContainerRecreateState]) -> bool {
        let has_failed = states.iter().any(|state| state.phase == RecreatePhase::Failed);
        let is_open = |phase: RecreatePhase| states.iter().any(|state| state.phase == phase);
        let goes_on = self.body.failure_policy == FailurePolicy::Ignore || !has_failed;
        let has_more = goes_on && is_open(RecreatePhase::Pending);
        !(has_more || is_open(RecreatePhase::Recreating))
    }

    /// What each container is to say of itself.
    pub(super) fn states(
        self,
        pod: &PodView,
        context: &RequestContext<'_, '_>,
        failures: &OperationFailures,
    ) -> Vec<ContainerRecreateState> {
        let containers = self.body.containers.iter().enumerate();
        containers.map(|(index, name)| self.state(index, name, pod, context, failures)).collect()
    }

    fn state(
        self,
        index: usize,
        name: &str,
        pod: &PodView,
        context: &RequestContext<'_, '_>,
        failures: &OperationFailures,
    ) -> ContainerRecreateState {
        let known = self.recorded(name).cloned().unwrap_or_default();
        let known = ContainerRecreateState { name: name.to_owned(), ..known };
        if known.phase.is_final() {
            return known;
        }
        let failed =
            |message: String| ContainerRecreateState { phase: RecreatePhase::Failed, message, ..known.clone() };
        let Some(container) = pod.container(name) else { return failed(format!("the pod has no container {name}")) };
        let token = self.token(self.step(index));
        let is_under_way = task::is_under_way(pod, &token, context);
        let is_killed = known.is_killed || task::is_on(pod, &token);
        let is_other = is_killed || (!self.body.is_forced && self.is_of_later(container));
        if let Some(failure) = failures.failed.get(&(pod.id.uid.clone(), token)) {
            return ContainerRecreateState { is_killed, ..failed(failure.text.clone()) };
        }
        if let Some(failure) = failures.never.get(&pod.id.uid).filter(|_| !is_under_way && !is_other) {
            return failed(failure.text.clone());
        }
        let runs = !is_under_way && self.counts_from(container).is_some_and(|from| from < context.now);
        let phase = match (is_other, runs) {
            (true, true) => RecreatePhase::Succeeded,
            (true, false) => RecreatePhase::Recreating,
            (false, _) if is_under_way => RecreatePhase::Recreating,
            (false, _) => RecreatePhase::Pending,
        };
        ContainerRecreateState { phase, is_killed, ..known }
    }

    /// It was started after the request was made: somebody else has replaced it. Times have whole seconds.
    fn is_of_later(self, container: &ContainerView) -> bool {
        let started = container.status.as_ref().and_then(|status| status.running_since);
        started.zip(self.object.created).is_some_and(|(started, created)| started > created)
    }

    /// From when on a new container counts; `None`: it does not run, or is not Ready.
    pub(super) fn counts_from(self, container: &ContainerView) -> Option<Timestamp> {
        let status = container.status.as_ref().filter(|status| status.ready)?;
        status.running_since?.checked_add(self.body.min_started).ok()
    }
}
