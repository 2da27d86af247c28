//! What the agent says of itself in its report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::node_transition::AgentInfo;
use hitless_api::{Cancel, DrainSpec, Grant, GrantOp, Hook, NodeTransition, Outcome, TransitionResult, Wait};
use hitless_kernel::exec::{Node, can_exec};
use hitless_kernel::{Capability, check_capabilities};
use hitless_runtime::telemetry;

use crate::decision::Decision;
use crate::view::NodePod;

/// As it is when it starts.
pub(super) fn of_this_agent(files: &Node) -> AgentInfo {
    let (serving, not_held, in_flight) = (Vec::new(), Vec::new(), Vec::new());
    AgentInfo {
        version: telemetry::VERSION.to_owned(),
        boot_id: boot_id(),
        features: features(files),
        serving,
        not_held,
        in_flight,
    }
}

/// What this agent can do beyond what every version can. A capability that it was not given is not made up for by words.
fn features(files: &Node) -> Vec<String> {
    let missing = check_capabilities();
    let has = |capability| !missing.iter().any(|missing| missing.capability == capability);
    let destroys = has(Capability::NetAdmin);
    let holds = destroys && has(Capability::NetRaw);
    let all = [
        ("Leave", true),
        ("gap", true),
        (GrantOp::DRAIN_FEATURE, true),
        (GrantOp::FOREIGN_FEATURE, true),
        (GrantOp::RELABEL_FEATURE, true),
        (DrainSpec::IDLE_AFTER_FEATURE, true),
        ("destroy", destroys),
        ("hold", holds),
        (Grant::UNLESS_SERVING_FEATURE, true),
        (Grant::DECORATIONS_FEATURE, true),
        (Grant::ANNOTATIONS_FEATURE, true),
        (Wait::FEATURE, true),
        (Cancel::LAST_ENDPOINT_FEATURE, true),
        (Hook::FEATURE, true),
        (Hook::EXEC_FEATURE, can_exec(files)),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
}

/// Empty where the kernel does not tell.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The same with what was refused, by this process or one before it, as long as the pods are there: the reports of those refusals
/// go with their grants, and the controller may not have seen them.
pub(super) fn with_refusals(
    info: &AgentInfo,
    stored: &NodeTransition,
    steps: &[(&Grant, Decision)],
    pods: &BTreeMap<String, Arc<NodePod>>,
) -> AgentInfo {
    let stored = stored.status.as_ref().and_then(|status| status.agent.as_ref());
    let refused = |wanted: &'static str| {
        let is_refused = move |decision: &Decision| {
            decision.result.as_ref().is_some_and(|(outcome, reason)| *outcome == Outcome::Refused && reason == wanted)
        };
        steps.iter().filter(move |(_, decision)| is_refused(decision)).map(|(grant, _)| *grant)
    };
    let is_there = |uid: &str| pods.contains_key(uid);
    let kept = |all: BTreeSet<String>, uid: fn(&str) -> &str| -> Vec<String> {
        all.into_iter().filter(|entry| is_there(uid(entry))).take(AgentInfo::MOST_REFUSED).collect()
    };
    let serve = refused(TransitionResult::CONTAINER_SERVES)
        .flat_map(|grant| grant.containers.keys().map(|name| AgentInfo::container(&grant.pod.uid, name)));
    let known = info.serving.iter().chain(stored.iter().flat_map(|agent| &agent.serving)).cloned();
    let serving = kept(known.chain(serve).collect(), |entry| entry.split_once('/').map_or("", |(uid, _)| uid));
    // Another agent, or a node that was started anew, may be able to.
    let stored = stored.filter(|agent| agent.is_of_same(info));
    let uids = |wanted, own: &[String], stored: &[String]| {
        let known = own.iter().chain(stored).cloned();
        kept(known.chain(refused(wanted).map(|grant| grant.pod.uid.clone())).collect(), |entry| entry)
    };
    let before = |list: fn(&AgentInfo) -> &Vec<String>| stored.map_or(&[][..], |agent| list(agent));
    let not_held = uids(TransitionResult::HOLD_FAILED, &info.not_held, before(|agent| &agent.not_held));
    let mut in_flight = uids(TransitionResult::STILL_IN_FLIGHT, &info.in_flight, before(|agent| &agent.in_flight));
    // Those requests were of a process that is gone.
    in_flight
        .retain(|uid| !steps.iter().any(|(grant, decision)| grant.pod.uid == *uid && is_replaced(grant, decision)));
    AgentInfo { serving, not_held, in_flight, ..info.clone() }
}

/// Whether the operation has ended, and another process is in the pod than before it.
fn is_replaced(grant: &Grant, decision: &Decision) -> bool {
    let ended = decision.result.as_ref().is_some_and(|(outcome, _)| match outcome {
        Outcome::Done | Outcome::RolledBack => true,
        Outcome::Cancelled | Outcome::Failed | Outcome::Refused => false,
    });
    ended && !grant.containers.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::Phase;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn grant(uid: &str) -> Grant {
        serde_json::from_value(json!({
            "id": format!("{uid}.0"), "epoch": 1, "pod": {"namespace": "a", "name": uid, "uid": uid}, "op": "Update", "mode": "Hold",
            "containers": {"web": {"from": "web:1", "to": "web:2"}}, "before": {}, "drain": {}, "verify": {}, "rules": [], "ttlSeconds": 60, "granted": "2026-01-01T00:00:00.000000Z"
        }))
        .unwrap()
    }

    fn agent(version: &str) -> AgentInfo {
        AgentInfo { version: version.to_owned(), ..AgentInfo::default() }
    }

    fn stored(agent: &AgentInfo) -> NodeTransition {
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {"nodeUID": "u", "epoch": 1, "grants": []},
            "status": {"agent": agent, "transitions": []}}))
        .unwrap()
    }

    /// What is remembered on a node with the pods `a` and `b`.
    fn after(own: &AgentInfo, before: &AgentInfo, uid: &str, reason: &str) -> AgentInfo {
        after_end(own, before, &grant(uid), Decision::refused(reason, "words"))
    }

    fn after_end(own: &AgentInfo, before: &AgentInfo, grant: &Grant, decision: Decision) -> AgentInfo {
        let pod = |uid: &str| {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}, "spec": {"containers": []}}))
                    .unwrap();
            (uid.to_owned(), Arc::new(NodePod::from(&pod)))
        };
        let steps = [(grant, decision)];
        with_refusals(own, &stored(before), &steps, &BTreeMap::from([pod("a"), pod("b")]))
    }

    #[test]
    fn a_refusal_outlives_its_report_as_long_as_the_pod_is_there() {
        let own = agent("1");
        let one = after(&own, &own, "a", "HoldFailed");
        assert_eq!((one.not_held.as_slice(), one.serving.len()), (&["a".to_owned()][..], 0));
        // The process is another one, and the grant is gone.
        let two = after(&own, &one, "b", "ContainerServes");
        assert_eq!((two.not_held, two.serving), (vec!["a".to_owned()], vec!["b/web".to_owned()]));
        assert_eq!(after(&own, &own, "gone", "HoldFailed"), own);
        let three = after(&own, &after(&own, &own, "a", "StillInFlight"), "b", "Expired");
        assert_eq!((three.in_flight, three.not_held.len()), (vec!["a".to_owned()], 0));
        assert_eq!(after(&own, &own, "a", "Expired"), own);
    }

    /// It names the requests of a process, and not the pod for ever.
    #[test]
    fn that_requests_outlast_a_hold_is_forgotten_once_the_process_is_another_one() {
        let own = agent("1");
        let marked = after(&own, &own, "a", "StillInFlight");
        // This process may remember it, or only what is stored.
        let is_forgotten = |grant: &Grant, outcome: Outcome| {
            let ended = |own| after_end(own, &marked, grant, Decision::end(Phase::Returning, outcome, "reason"));
            [&own, &marked].into_iter().all(|own| ended(own).in_flight.is_empty())
        };
        let (a, b) = (grant("a"), grant("b"));
        assert!(is_forgotten(&a, Outcome::Done) && is_forgotten(&a, Outcome::RolledBack));
        assert!(!is_forgotten(&a, Outcome::Cancelled) && !is_forgotten(&a, Outcome::Failed), "it may run still");
        assert!(!is_forgotten(&b, Outcome::Done), "that was another pod");
        let labels = Grant { containers: BTreeMap::new(), ..grant("a") };
        assert!(!is_forgotten(&labels, Outcome::Done), "nothing was replaced");
    }

    #[test]
    fn what_an_earlier_version_could_not_hold_another_one_may() {
        let before = AgentInfo { not_held: vec!["a".to_owned()], serving: vec!["a/web".to_owned()], ..agent("1") };
        let now = after(&agent("2"), &before, "b", "Expired");
        assert_eq!((now.not_held.len(), now.serving.len()), (0, 1));
    }
}
