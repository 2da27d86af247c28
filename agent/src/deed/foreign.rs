//! Others operate the pod: an operator says in the pod's labels that it has begun, and that it has finished
//! ([`hitless_api::lifecycle`]). The agent takes the pod out of service, shows that nobody is connected any more, and puts it back.

use hitless_api::lifecycle::{self, Step};
use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode};

use super::{Progress, Reason};

/// The grant by which others operate a pod.
#[derive(Clone, Copy, Debug)]
pub struct Foreign<'a> {
    grant: &'a Grant,
}

impl<'a> Foreign<'a> {
    pub(super) const fn new(grant: &'a Grant) -> Self {
        Self { grant }
    }

    pub(super) fn flaw(self) -> Option<Reason<'static>> {
        let message = || "whoever operates a pod needs it out of service, and one that is held stays in it".to_owned();
        (self.grant.mode == GrantMode::Hold).then(|| ("UnsupportedMode", message()))
    }

    /// `Patched`: the pod shows that it is out of service for this grant, and drained.
    pub(super) fn progress(self, pod: &PodView) -> Progress {
        let condition = pod.in_service().filter(|condition| !condition.is_true);
        let is_drained = |condition: &hitless_api::pod::ConditionView| {
            condition.reason == names::DRAINED && condition.message == self.grant.id
        };
        if condition.is_some_and(is_drained) { Progress::Patched } else { Progress::NotPatched }
    }

    /// Ids of those who have not finished.
    #[must_use]
    pub fn operators(self, pod: &PodView) -> Vec<&str> {
        let undo = |id: &&str| !pod.labels.contains_key(&Step::UndoOperationType.key(id));
        lifecycle::at(&pod.labels, Step::Operating).filter(undo).collect()
    }

    /// Some of them has been told that it may operate.
    #[must_use]
    pub fn is_allowed(self, pod: &PodView) -> bool {
        self.operators(pod).iter().any(|id| pod.labels.contains_key(&Step::Operate.key(id)))
    }

    /// The pod's labels say that somebody may operate it, also if nobody does.
    #[must_use]
    pub fn has_permission(self, pod: &PodView) -> bool {
        lifecycle::at(&pod.labels, Step::Operate).next().is_some()
    }

    /// The pod's labels say that it leaves service.
    #[must_use]
    pub fn is_prepared(self, pod: &PodView) -> bool {
        self.is_allowed(pod) || lifecycle::at(&pod.labels, Step::Preparing).next().is_some()
    }
}
