//! InService where no agent is: a gated pod must become Ready even on a node whose agent is not there (docs/contract.md#inservice-without-an-agent).

use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use super::change::Change;
use super::write::{InServiceFallback, WithoutAgent};
use crate::companion;
use crate::snapshot::{AgentState, Snapshot};

/// Seconds without an agent after which the controller stands in.
const GRACE_SECONDS: i64 = 30;
/// An agent that is updated or started anew is away for less.
pub(super) const AGENT_IS_AWAY: SignedDuration = SignedDuration::from_secs(60);

pub(super) struct Decision<'a> {
    pub(super) changes: Vec<Change<'a>>,
    pub(super) wake_at: Option<Timestamp>,
}

/// The condition is only ever added where it is absent, never turned from False to True.
pub(super) fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision<'_> {
    let mut decision = Decision { changes: Vec::new(), wake_at: None };
    // A companion pod that nobody could drain is not to serve.
    let waiting = |pod: &&PodView| {
        let is_new = pod.gated && pod.in_service().is_none() && !pod.terminating && !pod.finished;
        is_new && !companion::is_companion(pod)
    };
    let grace = SignedDuration::from_secs(GRACE_SECONDS);
    for pod in snapshot.pods.iter().map(|pod| &**pod).filter(waiting) {
        let Some(due) = without_agent_for(grace, snapshot, pod, now) else { continue };
        if now >= due {
            let (pod, resource_version) = (pod.id.clone(), pod.resource_version.clone());
            let write = InServiceFallback { pod, resource_version, because: WithoutAgent::NoAgent };
            decision.changes.push(Change::InServiceFallback(write));
        } else {
            decision.wake_at = Some(decision.wake_at.map_or(due, |other: Timestamp| other.min(due)));
        }
    }
    decision
}

/// When the pod's node will have had no agent for so long; `None`: one is there, or the pod has no node.
pub(super) fn without_agent_for(
    long: SignedDuration,
    snapshot: &Snapshot,
    pod: &PodView,
    now: Timestamp,
) -> Option<Timestamp> {
    let missing = match snapshot.agents.get(pod.node.as_ref()?) {
        Some(AgentState::Ready) => return None,
        Some(AgentState::MissingSince(since)) => *since,
        // Nobody is going to come; the kubelet says when the pod was bound.
        Some(AgentState::Never) => bound_since(pod).unwrap_or(now),
        None => now,
    };
    let since = bound_since(pod).map_or(missing, |bound| bound.max(missing));
    Some(since.saturating_add(long).unwrap_or(now))
}

/// When the pod was bound to its node, as far as it tells.
fn bound_since(pod: &PodView) -> Option<Timestamp> {
    pod.conditions.get("PodScheduled").filter(|condition| condition.is_true).and_then(|condition| condition.since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::names::IN_SERVICE;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};
    use std::sync::Arc;

    const START: &str = "2026-11-22T00:00:00Z";

    fn snapshot(conditions: &Value, agent: AgentState) -> Snapshot {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "7"},
            "spec": {"nodeName": "n", "readinessGates": [{"conditionType": IN_SERVICE}], "containers": []},
            "status": {"conditions": conditions}}))
        .unwrap();
        Snapshot {
            pods: vec![Arc::new(PodView::from(&pod))],
            agents: [("n".to_owned(), agent)].into(),
            ..Snapshot::default()
        }
    }

    fn after(seconds: i64) -> Timestamp {
        START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn the_controller_stands_in_once_no_agent_has_been_there_for_the_grace_time() {
        let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": START}]);
        let missing = snapshot(&bound, AgentState::MissingSince(after(-100)));
        let early = decide(&missing, after(29));
        assert!(early.changes.is_empty());
        assert_eq!(early.wake_at, Some(after(30)));
        assert!(
            matches!(&decide(&missing, after(30)).changes[0], Change::InServiceFallback(write) if write.resource_version == "7")
        );
        let later = snapshot(&bound, AgentState::MissingSince(after(10)));
        assert_eq!(decide(&later, after(30)).wake_at, Some(after(40)));
    }

    #[test]
    fn a_ready_agent_or_a_condition_of_any_value_is_left_alone() {
        let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": START}]);
        assert!(decide(&snapshot(&bound, AgentState::Ready), after(999)).changes.is_empty());
        for status in ["True", "False", "Unknown"] {
            let written = json!([{"type": IN_SERVICE, "status": status}]);
            let missing = snapshot(&written, AgentState::MissingSince(after(-100)));
            assert!(decide(&missing, after(999)).changes.is_empty(), "{status}");
        }
    }
}
