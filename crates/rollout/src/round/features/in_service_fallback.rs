//! InService where no agent is: a gated pod must become Ready even on a node whose agent is not there (docs/contract.md#inservice-without-an-agent).

use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use crate::companion;
use crate::round::change::Change;
use crate::round::facts::agents::without_agent_for;
use crate::round::features::{Effects, FeatureContext};
use crate::round::write::pods::{WithoutAgent, in_service};
use crate::snapshot::Snapshot;

/// Seconds without an agent after which the controller stands in.
const GRACE_SECONDS: i64 = 30;

/// The condition is only ever added where it is absent, never turned from False to True.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    decide(context.facts.snapshot, context.now)
}

fn decide(snapshot: &Snapshot, now: Timestamp) -> Effects<'_> {
    let mut effects = Effects::default();
    // A companion pod that nobody could drain is not to serve.
    let waiting = |pod: &&PodView| {
        let is_new = pod.gated && pod.in_service().is_none() && !pod.terminating && !pod.finished;
        is_new && !companion::is_companion(pod)
    };
    let grace = SignedDuration::from_secs(GRACE_SECONDS);
    for pod in snapshot.pods.iter().map(|pod| &**pod).filter(waiting) {
        let Some(due) = without_agent_for(grace, snapshot, pod, now) else { continue };
        if now >= due {
            let write = in_service(&pod.id, &pod.resource_version, WithoutAgent::NoAgent, now);
            effects.changes.push(Change::Write(write));
        } else {
            effects.wake(due);
        }
    }
    effects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::AgentState;
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
            matches!(&decide(&missing, after(30)).changes[0], Change::Write(write) if *write == in_service(&missing.pods[0].id, "7", WithoutAgent::NoAgent, after(30)))
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
