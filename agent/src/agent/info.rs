//! What the agent says of itself in its report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::node_transition::AgentInfo;
use hitless_api::{DrainSpec, Grant, GrantOp, Hook, NodeTransition, TransitionResult, Wait};
use hitless_kernel::exec::can_exec;
use hitless_kernel::{Capability, check_capabilities};
use hitless_runtime::telemetry;

use crate::decision::Decision;
use crate::view::NodePod;

/// As it is when it starts.
pub(super) fn of_this_agent() -> AgentInfo {
    AgentInfo { version: telemetry::VERSION.to_owned(), boot_id: boot_id(), features: features(), serving: Vec::new() }
}

/// What this agent can do beyond what every version can. A capability that it was not given is not made up for by words.
fn features() -> Vec<String> {
    let missing = check_capabilities();
    let has = |capability| !missing.iter().any(|missing| missing.capability == capability);
    let destroys = has(Capability::NetAdmin);
    let holds = destroys && has(Capability::NetRaw);
    let all = [
        ("Leave", true),
        ("gap", true),
        (GrantOp::DRAIN_FEATURE, true),
        (GrantOp::FOREIGN_FEATURE, true),
        (DrainSpec::IDLE_AFTER_FEATURE, true),
        ("destroy", destroys),
        ("hold", holds),
        (Grant::UNLESS_SERVING_FEATURE, true),
        (Wait::FEATURE, true),
        (Hook::FEATURE, true),
        (Hook::EXEC_FEATURE, can_exec()),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
}

/// Empty where the kernel does not tell.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Containers that were refused to be replaced without a drain, by this process or one before it, as long as their pods are there.
pub(super) fn serving(
    info: &AgentInfo,
    stored: &NodeTransition,
    steps: &[(&Grant, Decision)],
    pods: &BTreeMap<String, Arc<NodePod>>,
) -> Vec<String> {
    let stored = stored.status.iter().filter_map(|status| status.agent.as_ref()).flat_map(|agent| &agent.serving);
    let is_refused = |decision: &Decision| {
        decision.result.as_ref().is_some_and(|(_, reason)| reason == TransitionResult::CONTAINER_SERVES)
    };
    let refused = steps.iter().filter(|(_, decision)| is_refused(decision));
    let refused =
        refused.flat_map(|(grant, _)| grant.containers.keys().map(|name| AgentInfo::container(&grant.pod.uid, name)));
    let all: BTreeSet<String> = info.serving.iter().chain(stored).cloned().chain(refused).collect();
    let is_there = |entry: &String| entry.split_once('/').is_some_and(|(uid, _)| pods.contains_key(uid));
    all.into_iter().filter(is_there).take(AgentInfo::MOST_SERVING).collect()
}
