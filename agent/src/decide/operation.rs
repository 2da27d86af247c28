//! What the steps of an operation ask about it.

use hitless_api::pod::{ConditionView, ContainerView, PodView};
use hitless_api::{Grant, GrantMode, Outcome, Phase, Transition, Wait, WaitPoint};
use jiff::Timestamp;

use super::{OperationView, mark};
use crate::decision::{Action, Decision, Direction, Hold, WaitingFor, Watch};
use crate::deed::{Baseline, Deed, Effect, Progress, runs};
use crate::instant::{after_seconds, whole_seconds};
use crate::memory::{Denied, Memory};
use crate::view::{Observation, Stage};

/// A granted operation on a pod that is there.
pub(super) struct Operation<'a> {
    pub(super) grant: &'a Grant,
    pub(super) pod: &'a PodView,
    pub(super) reported: Option<&'a Transition>,
    pub(super) memory: &'a Memory,
    pub(super) observation: &'a Observation,
    pub(super) now: Timestamp,
}

impl<'a> Operation<'a> {
    pub(super) fn new(view: &OperationView<'a>, pod: &'a PodView, now: Timestamp) -> Self {
        let OperationView { grant, reported, memory, observation, .. } = *view;
        Self { grant, pod, reported, memory, observation, now }
    }

    /// What is done to the pod.
    pub(super) const fn deed(&self) -> Deed<'a> {
        Deed::of(self.grant)
    }

    /// The containers that are replaced.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a ContainerView> {
        self.deed().containers(self.pod)
    }

    /// How far the deed is.
    pub(super) fn progress(&self) -> Progress {
        self.deed().progress(self.pod)
    }

    /// What tells the new containers from the old ones.
    pub(super) fn baseline(&self) -> Baseline<'a> {
        let ids = self.memory.operated.as_ref().map(|operated| &operated.before);
        Baseline { ids, out_since: self.lowered() }
    }

    /// How far the effect of the patch is.
    pub(super) fn effect(&self) -> Effect {
        self.deed().effect(self.pod, self.baseline())
    }

    /// The pod stays in service, and new connections are held instead.
    pub(super) fn is_hold(&self) -> bool {
        self.grant.mode == GrantMode::Hold
    }

    /// The pod has been patched, or a request to do so has been sent and may have been carried out.
    pub(super) fn may_be_patched(&self) -> bool {
        self.memory.operated.is_some() || self.progress() == Progress::Patched
    }

    /// From when on the grant may not be begun any more (docs/contract.md#grant-expiry).
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

    /// Since when the drain counts: the kubelet has lowered Ready, and new connections need not come any more. As long as it has not,
    /// and where it was lowered before, since the pod has left. Capped at the deadline, whatever the condition says: a pod whose
    /// kubelet has not followed by then has been given up.
    pub(super) fn draining_since(&self, lowered: Timestamp) -> Timestamp {
        let unready = self.pod.conditions.get("Ready").filter(|ready| !ready.is_true);
        let since = unready.and_then(|unready| unready.since).map_or(lowered, |since| self.not_after_now(since));
        since.clamp(lowered, after_seconds(lowered, self.grant.drain.deadline_seconds))
    }

    /// A request to lower InService of the pod as it is seen here was not answered.
    pub(super) fn may_be_lowered(&self) -> bool {
        self.memory.lowering.as_ref() == Some(&self.pod.resource_version)
    }

    /// The InService condition, if it was raised on behalf of this grant.
    pub(super) fn returned(&self) -> Option<&'a ConditionView> {
        self.pod.in_service().filter(|condition| condition.is_true && condition.message == mark(self.grant))
    }

    /// What is waited for outside of the pod before that point.
    pub(super) fn outside(&self, before: WaitPoint) -> Vec<WaitingFor> {
        let waits = self.grant.pending_waits(before);
        waits.map(|wait| WaitingFor::Outside { name: wait.name.clone(), words: wait.message.clone() }).collect()
    }

    /// Whether others protect the pod by a finalizer: it is theirs to say when it may be operated, and no deadline's.
    pub(super) fn is_protected(&self) -> bool {
        self.grant.pending_waits(WaitPoint::Operate).any(Wait::is_for_finalizers)
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

    /// When the pod was patched; if nobody knows any more, the latest that it can have been.
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
                let since = lowered.map_or(self.grant.granted.0, |lowered| self.draining_since(lowered));
                after_seconds(since, self.grant.drain.deadline_seconds)
            }
        };
        // The phase may have been entered more than once since; a container that was replaced is only as young as it is.
        let is_ours = lowered.is_some() || self.is_hold();
        let first = if is_ours { self.deed().first_start(self.pod, self.baseline()) } else { None };
        self.not_after_now(first.map_or(latest, |first| first.min(latest)))
    }

    /// Since when the rules of stage `PostCheck` are waited for.
    pub(super) fn checking_since(&self) -> Timestamp {
        let reported = self.reported.filter(|reported| reported.phase == Phase::Checking);
        let remembered = || self.memory.phase.filter(|(phase, _)| *phase == Phase::Checking);
        let since = reported.map(|reported| reported.since.0).or_else(|| remembered().map(|(_, since)| since));
        since.map_or(self.now, |since| self.not_after_now(since))
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

    /// The containers are being replaced: as long as it goes on, see when the new ones listen.
    pub(super) fn replacing(&self, decision: Decision) -> Decision {
        if decision.result.is_some() {
            return decision;
        }
        let hold = if self.is_patched_late() { Hold::Begin } else { Hold::Continue };
        let decision = decision.holding(hold(Direction::Forward));
        if self.is_hold() { decision } else { decision.watching(Watch::Replacing) }
    }

    /// The API server has carried the image patch out after clients had been let in, and the kubelet is about to see it. Once the new
    /// containers are ready nobody needs to wait any more.
    fn is_patched_late(&self) -> bool {
        let is_prepared = match self.observation {
            Observation::Held(held) if held.direction == Direction::Forward => {
                matches!(held.stage, Stage::Prepared(ports) if ports > 0)
            }
            Observation::Held(_) | Observation::None | Observation::Failed(_) | Observation::Counted(_) => false,
        };
        let is_late = is_prepared && self.memory.hold_failed.is_some() && self.progress() == Progress::Patched;
        self.is_hold() && is_late && self.effect() != Effect::Ready
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
        let action = Action::ReturnToService { reason: reason.to_owned(), message: mark(self.grant) };
        Decision::at(Phase::Returning).doing(action)
    }
}

/// From when on a grant may not be begun any more (docs/contract.md#grant-expiry).
pub(super) fn expiry(grant: &Grant) -> Timestamp {
    after_seconds(grant.granted.0, grant.ttl_seconds.saturating_add(Grant::CLOCK_SKEW_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Held, HoldNumbers};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    /// Since when the drain of a pod counts that left in second 10 and whose Ready is this since then, in seconds. Its deadline is 60.
    fn draining_since(ready: &str, since: Option<&str>) -> i64 {
        let grant: Grant = serde_json::from_value(json!({
            "id": "u.1", "epoch": 1, "pod": {"namespace": "a", "name": "p", "uid": "u"}, "op": "Update", "mode": "Leave",
            "containers": {}, "before": {}, "drain": {}, "verify": {}, "rules": [], "ttlSeconds": 60,
            "granted": "2026-01-01T00:00:09Z"}))
        .unwrap();
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"conditions": [condition]}});
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let lowered = at("2026-01-01T00:00:10Z");
        let memory = Memory { seen: Some(at("2026-01-01T00:00:09Z")), ..Memory::default() };
        let operation = Operation {
            grant: &grant,
            pod: &pod,
            reported: None,
            memory: &memory,
            observation: &Observation::None,
            now: at("2026-01-01T00:05:00Z"),
        };
        operation.draining_since(lowered).duration_since(at("2026-01-01T00:00:00Z")).as_secs()
    }

    #[test]
    fn a_drain_counts_from_when_the_kubelet_has_followed() {
        assert_eq!(draining_since("False", Some("2026-01-01T00:00:45Z")), 45);
        assert_eq!(draining_since("True", Some("2026-01-01T00:00:45Z")), 10, "it has not followed");
        assert_eq!(draining_since("False", Some("2025-12-31T00:00:00Z")), 10, "it was not Ready before");
        assert_eq!(draining_since("False", None), 10);
        assert_eq!(draining_since("False", Some("2026-01-01T00:04:00Z")), 70, "no later than the deadline");
        assert_eq!(draining_since("False", Some("2027-01-01T00:00:00Z")), 10, "a clock was set back");
    }

    /// What is done about clients in a Hold whose image patch was carried out after they had been let in, with this container there.
    fn patched_late(container: &str, ready: bool) -> Hold {
        let grant: Grant = serde_json::from_value(json!({
            "id": "u.1", "epoch": 1, "pod": {"namespace": "a", "name": "p", "uid": "u"}, "op": "Update", "mode": "Hold",
            "containers": {"web": {"from": "a:1", "to": "a:2"}}, "before": {"web": "c://1"}, "drain": {}, "verify": {}, "rules": [],
            "ttlSeconds": 60, "granted": "2026-01-01T00:00:09Z"}))
        .unwrap();
        let status = json!({"name": "web", "image": "a:2", "imageID": "", "ready": ready, "restartCount": 0,
            "containerID": container, "state": {"running": {"startedAt": "2026-01-01T00:00:12Z"}}});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "web", "image": "a:2"}]},
            "status": {"containerStatuses": [status]}});
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        let now: Timestamp = "2026-01-01T00:00:20Z".parse().unwrap();
        let memory = Memory { hold_failed: Some(now), ..Memory::default() };
        let held = Held {
            direction: Direction::Forward,
            stage: Stage::Prepared(1),
            numbers: HoldNumbers::default(),
            listening: None,
        };
        let observation = Observation::Held(held);
        let operation =
            Operation { grant: &grant, pod: &pod, reported: None, memory: &memory, observation: &observation, now };
        operation.replacing(Decision::at(Phase::Verifying)).hold
    }

    #[test]
    fn nobody_is_held_any_more_once_the_new_container_is_ready() {
        assert_eq!(patched_late("c://1", true), Hold::Begin(Direction::Forward), "the old one is about to end");
        assert_eq!(patched_late("c://2", false), Hold::Begin(Direction::Forward), "the new one may not listen yet");
        assert_eq!(patched_late("c://2", true), Hold::Continue(Direction::Forward));
    }
}
