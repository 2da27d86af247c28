//! Whose time it is: that of the old containers, which the kubelet ends, or that of the new ones, which start (docs/contract.md#bad-version).
//!
//! Nothing is known of a version before its containers have been started, so the time to stop is never charged to it.

use hitless_api::Phase;
use jiff::Timestamp;

use super::operation::Operation;
use crate::decision::{Decision, WaitingFor};
use crate::instant::after_seconds;

/// Least time that the kubelet gives a container after its hook `preStop`, in seconds (`killContainer` of `kuberuntime_container.go`).
const LEAST_GRACE_SECONDS: u32 = 2;
/// For the kubelet itself: to notice the write, and to clear away what has ended, in seconds.
const KUBELET_SECONDS: u32 = 10;
/// The controller says when the clock goes on; this is only for the case that it is missed.
const GLANCE_SECONDS: u32 = 60;

impl Operation<'_> {
    /// The longest that the kubelet may take to end the containers that are replaced together, in seconds. It stops them one after another
    /// in one sync, and starts none before the last has ended (`computePodActions`, `SyncPod` of `kuberuntime_manager.go`).
    pub(super) fn stop_seconds(&self) -> u32 {
        let count = u32::try_from(self.containers().count()).unwrap_or(u32::MAX);
        let each = self.pod.grace_seconds.saturating_add(LEAST_GRACE_SECONDS);
        each.saturating_mul(count).saturating_add(KUBELET_SECONDS)
    }

    /// When the old containers have to have ended. A patch may be carried out long after it was sent.
    pub(super) fn stopped_by(&self) -> Timestamp {
        let patched = match (self.memory.patched, &self.memory.operated) {
            (Some(seen), _) => self.not_after_now(seen),
            (None, Some(_)) => self.now,
            (None, None) => self.operated_at(),
        };
        after_seconds(patched, self.stop_seconds())
    }

    /// Whether the time is over that ends then. It is not as long as the controller lets the clock stand.
    pub(super) fn is_over(&self, deadline: Timestamp) -> bool {
        self.grant.stands.is_none() && self.now >= deadline
    }

    /// Waits until then, or for as long as the clock stands.
    pub(super) fn until(&self, decision: Decision, deadline: Timestamp) -> Decision {
        let Some(since) = &self.grant.stands else { return decision.until(deadline) };
        let glance = after_seconds(self.now, GLANCE_SECONDS);
        decision.waiting_for(WaitingFor::Dependency(since.0)).waking_at(glance)
    }

    /// When the old containers had ended, as far as the kubelet tells; else when the pod was patched.
    pub(super) fn ended_at(&self) -> Timestamp {
        let operated = self.operated_at();
        self.deed().last_end(self.pod, operated).map_or(operated, |ended| self.not_after_now(ended).max(operated))
    }

    /// Since when the new containers have the time that a start may take: since the last of them was started first, however often it has
    /// ended since. As long as one of them has not been started, since the old ones have ended.
    pub(super) fn starting_since(&self) -> Timestamp {
        let deed = self.deed();
        let is_starting = |phase: Phase| matches!(phase, Phase::Verifying | Phase::Checking);
        let reported = self.reported.filter(|reported| is_starting(reported.phase)).map(|reported| reported.since.0);
        // The kubelet's times are truncated to seconds.
        let seen = |time: Timestamp| after_seconds(self.not_after_now(time), 1);
        let started = deed.last_start(self.pod, self.baseline()).map(seen);
        let known = [self.memory.started, reported].into_iter().flatten().map(|since| self.not_after_now(since));
        let started = known.chain(started).min();
        let ended = || deed.last_end(self.pod, self.operated_at()).map(seen);
        started.or_else(ended).unwrap_or_else(|| self.stopped_by())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::memory::{Memory, Operated};
    use crate::view::Observation;
    use hitless_api::Grant;
    use hitless_api::pod::PodView;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn at(seconds: i64) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap()
    }

    fn grant(names: &[&str]) -> Grant {
        let containers: BTreeMap<_, _> =
            names.iter().map(|name| ((*name).to_owned(), json!({"from": "a:1", "to": "a:2"}))).collect();
        let before: BTreeMap<_, _> = names.iter().map(|name| ((*name).to_owned(), format!("c://{name}-1"))).collect();
        serde_json::from_value(json!({
            "id": "u.1", "epoch": 1, "pod": {"namespace": "a", "name": "p", "uid": "u"}, "op": "Update", "mode": "Leave",
            "containers": containers, "before": before, "drain": {}, "verify": {}, "rules": [], "ttlSeconds": 60, "granted": at(0)}))
        .unwrap()
    }

    /// A pod of these containers, each with its number and its state.
    fn pod(states: &[(&str, u32, Value)]) -> PodView {
        let wanted = states.iter().map(|(name, _, _)| json!({"name": name, "image": "a:2"}));
        let told = states.iter().map(|(name, number, state)| {
            json!({"name": name, "image": "a:2", "imageID": "", "ready": false, "restartCount": 0,
                "containerID": format!("c://{name}-{number}"), "state": state})
        });
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": wanted.collect::<Vec<_>>()},
            "status": {"containerStatuses": told.collect::<Vec<_>>()}});
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    fn runs(seconds: i64) -> Value {
        json!({"running": {"startedAt": at(seconds)}})
    }

    /// When the old containers have to have ended, and since when the new ones have their time.
    fn clocks(grant: &Grant, pod: &PodView, memory: &Memory) -> (Timestamp, Timestamp) {
        let observation = &Observation::None;
        let operation = Operation { grant, pod, reported: None, memory, observation, now: at(1000) };
        (operation.stopped_by(), operation.starting_since())
    }

    fn memory(patched: i64) -> Memory {
        let operated = Some(Operated { at: at(patched), before: BTreeMap::new() });
        Memory { seen: Some(at(0)), operated, patched: Some(at(patched)), ..Memory::default() }
    }

    #[test]
    fn containers_that_are_replaced_together_stop_one_after_another() {
        let pod = pod(&[("a", 1, runs(0)), ("b", 1, runs(0)), ("c", 1, runs(0))]);
        for (names, seconds) in [(&["a"][..], 42), (&["a", "b", "c"], 106)] {
            let (grant, memory) = (grant(names), memory(50));
            assert_eq!(clocks(&grant, &pod, &memory).0, at(50 + seconds), "{names:?}");
        }
    }

    #[test]
    fn a_start_has_its_time_from_when_the_last_new_container_was_started_first() {
        let (grant, crashed) = (grant(&["a", "b"]), json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        let since = |states: &[(&str, u32, Value)], memory: &Memory| clocks(&grant, &pod(states), memory).1;
        let known = memory(50);
        assert_eq!(
            since(&[("a", 2, runs(80)), ("b", 2, runs(95))], &known),
            at(96),
            "the kubelet's times are truncated"
        );
        // An agent that was there when they started knows it, however often they have ended since.
        let there = Memory { started: Some(at(95)), ..known.clone() };
        assert_eq!(since(&[("a", 2, runs(80)), ("b", 4, runs(300))], &there), at(95));
        assert_eq!(since(&[("a", 2, runs(80)), ("b", 4, crashed)], &there), at(95));
        // Until they are started the old ones may take as long as they may.
        let created = json!({"waiting": {"reason": "ContainerCreating"}});
        assert_eq!(since(&[("a", 1, created.clone()), ("b", 1, created)], &known), at(50 + 74));
    }
}
