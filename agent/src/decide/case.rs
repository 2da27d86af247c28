//! What the steps of an operation ask about it.

use std::collections::BTreeMap;

use hitless_api::pod::{ConditionView, ContainerState, ContainerView, PodView};
use hitless_api::{Grant, GrantMode, Outcome, Phase, Transition};
use jiff::Timestamp;

use super::{Action, Decision, Input, WaitingFor, mark};
use crate::instant::{after_seconds, whole_seconds};
use crate::memory::{Denied, Memory};
use crate::view::Observation;

/// A granted operation on a pod that is there.
pub(super) struct Case<'a> {
    pub(super) grant: &'a Grant,
    pub(super) pod: &'a PodView,
    pub(super) reported: Option<&'a Transition>,
    pub(super) memory: &'a Memory,
    pub(super) observation: &'a Observation,
    pub(super) now: Timestamp,
}

/// Which images the pod's spec has, all containers of the grant taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Images {
    /// Those before the operation.
    From,
    /// Those after.
    To,
    /// Neither: somebody else has changed them. Says which.
    Other(String),
}

impl<'a> Case<'a> {
    pub(super) fn new(input: &Input<'a>, pod: &'a PodView, now: Timestamp) -> Self {
        let Input { grant, reported, memory, observation, .. } = *input;
        Self { grant, pod, reported, memory, observation, now }
    }

    /// Containers of the grant; one that the pod does not have is left out.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a ContainerView> {
        self.pod.containers.iter().filter(|container| self.grant.containers.contains_key(&container.name))
    }

    pub(super) fn images(&self) -> Images {
        let mut operated = None;
        for (name, change) in &self.grant.containers {
            let image = self.pod.container(name).map(|container| container.image.as_str());
            let is_to = match image {
                Some(image) if image == change.from => false,
                Some(image) if image == change.to => true,
                Some(image) => return Images::Other(format!("container {name} has image {image}")),
                None => return Images::Other(format!("the pod has no container {name}")),
            };
            if operated.replace(is_to).is_some_and(|other| other != is_to) {
                return Images::Other("some containers have the image before, some the one after".to_owned());
            }
        }
        if operated == Some(true) { Images::To } else { Images::From }
    }

    /// The pod stays in service, and new connections are held instead.
    pub(super) fn is_hold(&self) -> bool {
        self.grant.mode == GrantMode::Hold
    }

    /// The images have been patched, or a request to do so has been sent and may have been carried out.
    pub(super) fn may_be_operated(&self) -> bool {
        self.memory.operated.is_some() || self.images() == Images::To
    }

    /// From when on the grant may not be begun any more (CONTRACT 9).
    pub(super) fn expiry(&self) -> Timestamp {
        expiry(self.grant)
    }

    /// The kubelet says that some container of the grant runs.
    pub(super) fn any_runs(&self) -> bool {
        self.containers().any(|container| container.status.as_ref().is_some_and(runs))
    }

    /// InService is there and not True, whoever lowered it.
    pub(super) fn out_of_service(&self) -> bool {
        self.pod.in_service().is_some_and(|condition| !condition.is_true)
    }

    /// Since when InService is False for this grant.
    pub(super) fn lowered(&self) -> Option<Timestamp> {
        let condition = self.pod.in_service()?;
        (!condition.is_true && condition.message == self.grant.id)
            .then(|| self.not_after_now(condition.since.unwrap_or(self.now)))
    }

    /// A request to lower InService of the pod as it is seen here was not answered.
    pub(super) fn may_be_lowered(&self) -> bool {
        self.memory.lowering.as_ref() == Some(&self.pod.resource_version)
    }

    /// The InService condition, if it was raised on behalf of this grant.
    pub(super) fn returned(&self) -> Option<&'a ConditionView> {
        self.pod.in_service().filter(|condition| condition.is_true && condition.message == mark(self.grant))
    }

    /// Why the way back was begun, if it was.
    pub(super) fn rollback(&self) -> Option<&'a str> {
        self.reported.and_then(|reported| reported.rollback.as_deref()).or(self.memory.rollback.as_deref())
    }

    /// A time from the API, or, if it lies in the future because a clock was set back, the latest that it can have been
    /// as far as this process can tell: a wait that is counted from it must end.
    pub(super) fn not_after_now(&self, time: Timestamp) -> Timestamp {
        if time <= self.now { time } else { self.memory.seen.map_or(self.now, |seen| seen.min(self.now)) }
    }

    /// From when the pod is known to have been out of service: lastTransitionTime is truncated to seconds, so only the
    /// end of that second is certain, unless this process wrote it.
    pub(super) fn surely_lowered(&self, lowered: Timestamp) -> Timestamp {
        match self.memory.lowered {
            Some(exact) if whole_seconds(exact) == lowered => exact,
            _ => after_seconds(lowered, 1),
        }
    }

    /// When the images were patched; if nobody knows any more, the latest that it can have been.
    pub(super) fn operated_at(&self) -> Timestamp {
        if let Some(operated) = &self.memory.operated {
            return self.not_after_now(operated.at);
        }
        let reported = self.reported.filter(|reported| reported.phase >= Phase::Operating);
        let lowered = self.lowered();
        let latest = match (reported, lowered) {
            (Some(reported), _) => reported.since.0,
            (None, None) if self.is_hold() => self.expiry(),
            (None, lowered) => {
                after_seconds(lowered.unwrap_or(self.grant.granted.0), self.grant.drain.deadline_seconds)
            }
        };
        // The phase may have been entered more than once since; a container that was replaced is only as young as it is.
        let is_ours = lowered.is_some() || self.is_hold();
        let replaced = self.containers().filter(|container| is_ours && self.replaced(container));
        let first = replaced.filter_map(|container| container.status.as_ref()?.running_since).min();
        self.not_after_now(first.map_or(latest, |first| first.min(latest)))
    }

    /// Since when the rules of stage `PostCheck` are waited for.
    pub(super) fn checking_since(&self) -> Timestamp {
        let reported = self.reported.filter(|reported| reported.phase == Phase::Checking);
        let remembered = || self.memory.phase.filter(|(phase, _)| *phase == Phase::Checking);
        let since = reported.map(|reported| reported.since.0).or_else(|| remembered().map(|(_, since)| since));
        since.map_or(self.now, |since| self.not_after_now(since))
    }

    /// The kubelet has taken note of the pod's spec as it is now, as far as it tells.
    pub(super) fn observed(&self) -> bool {
        self.pod.observed_generation == 0 || self.pod.observed_generation >= self.pod.generation
    }

    /// The container is another one than the one that was operated, and the kubelet has seen the new image.
    pub(super) fn replaced(&self, container: &ContainerView) -> bool {
        let Some(status) = &container.status else { return false };
        let name = &container.name;
        let known = |ids: &BTreeMap<String, String>| ids.get(name) == Some(&status.container_id);
        let is_old =
            known(&self.grant.before) || self.memory.operated.as_ref().is_some_and(|operated| known(&operated.before));
        // The old container may have crashed after the grant and so have another id; then it runs since before the pod left.
        let started_late_enough = match (status.running_since, self.lowered()) {
            (Some(running), Some(lowered)) => running >= lowered,
            (None, _) | (_, None) => true,
        };
        !status.container_id.is_empty() && !is_old && started_late_enough && self.observed()
    }

    /// The containers are those that the controller saw when it granted.
    pub(super) fn has_granted_containers(&self) -> bool {
        self.containers().all(|container| {
            let id = container.status.as_ref().map_or("", |status| &status.container_id);
            self.grant.before.get(&container.name).map_or("", String::as_str) == id
        })
    }

    /// Whether this write was refused for longer than any lag.
    pub(super) fn denied(&self, action: &Action) -> Option<&'a Denied> {
        self.memory.denied.as_ref().filter(|denied| denied.action == *action && denied.lasting())
    }

    /// Does `action`; a refusal that may still be a lag is shown.
    pub(super) fn doing(&self, decision: Decision, action: Action) -> Decision {
        let denied = self.memory.denied.as_ref().filter(|denied| denied.action == action);
        let decision = decision.doing(action);
        match denied {
            Some(denied) => decision.waiting_for(WaitingFor::Admission(denied.words.clone())),
            None => decision,
        }
    }

    /// Back into service, then the result Failed. In a Hold it is in service, and writing that anew makes an image patch fail that
    /// is still on its way, and this decision last: it may be reported without an answer, and its grounds be gone next time.
    pub(super) fn give_up(&self, reason: &str, message: impl Into<String>) -> Decision {
        if self.out_of_service() || self.is_hold() && self.rollback().is_none() {
            self.raise(reason).saying(message)
        } else {
            Decision::end(Phase::Returning, Outcome::Failed, reason).saying(message)
        }
    }

    /// Back into service; `reason` is found again in the condition.
    pub(super) fn raise(&self, reason: &str) -> Decision {
        let action = Action::Raise { reason: reason.to_owned(), message: mark(self.grant) };
        Decision::at(Phase::Returning).doing(action)
    }
}

/// From when on a grant may not be begun any more (CONTRACT 9).
pub(super) fn expiry(grant: &Grant) -> Timestamp {
    after_seconds(grant.granted.0, grant.ttl_seconds.saturating_add(Grant::CLOCK_SKEW_SECONDS))
}

/// Whether the kubelet says that the container runs.
pub(super) fn runs(status: &ContainerState) -> bool {
    status.running_since.is_some()
}

/// Names of containers, for people.
pub(super) fn names<'a>(containers: impl Iterator<Item = &'a ContainerView>) -> String {
    containers.map(|container| container.name.as_str()).collect::<Vec<_>>().join(", ")
}
