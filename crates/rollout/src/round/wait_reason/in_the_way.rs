//! Finds what is in the way of any operation of a pod: in the pod itself, its Node, or the agent there.

use crate::mode::{AgentStatus, OperationSettings, PodContext, Policies, Traffic, WorkloadFacts};
use hitless_api::pod::PodView;

use super::WaitReason;
use crate::snapshot::{AgentState, Snapshot};

/// What is in the way of any operation of the pod, whatever the rules say, the first reason first.
pub(in crate::round) fn in_the_way<'s>(
    pod: &'s PodView,
    snapshot: &'s Snapshot,
) -> impl Iterator<Item = WaitReason> + 's {
    let checks: [fn(&PodView, &Snapshot) -> Option<WaitReason>; 3] = [|pod, _| of_pod(pod), node_gone, no_agent];
    checks.into_iter().filter_map(|check| check(pod, snapshot))
}

/// What in the pod itself is in the way.
pub(in crate::round) fn of_pod(pod: &PodView) -> Option<WaitReason> {
    if pod.is_mirror() {
        Some(WaitReason::StaticPod)
    } else if pod.host_network {
        Some(WaitReason::HostNetwork)
    } else if pod.owner.as_ref().is_some_and(|owner| owner.group_kind.is("batch", "Job")) {
        Some(WaitReason::Job)
    } else if pod.terminating || pod.finished {
        Some(WaitReason::Terminating)
    } else if pod.node.is_none() {
        Some(WaitReason::NotScheduled)
    } else {
        None
    }
}

fn node_gone(pod: &PodView, snapshot: &Snapshot) -> Option<WaitReason> {
    let node = pod.node.as_ref().filter(|_| !snapshot.unknown.nodes)?;
    let known = snapshot.nodes.get(node).filter(|known| !known.deleting);
    let created_again =
        |uid: &str| snapshot.node_transitions.get(node).is_some_and(|transition| transition.spec.node_uid != uid);
    known.is_none_or(|known| created_again(&known.uid)).then(|| WaitReason::NodeGone(node.clone()))
}

fn no_agent(pod: &PodView, snapshot: &Snapshot) -> Option<WaitReason> {
    let node = pod.node.as_ref().filter(|_| !snapshot.unknown.agents)?;
    (snapshot.agents.get(node) != Some(&AgentState::Ready)).then(|| WaitReason::AgentNotReady(node.clone()))
}

/// Why the pod can't be operated, as far as the pod itself tells: nothing else is known of the cluster.
#[must_use]
pub fn unfit(pod: &PodView) -> Option<WaitReason> {
    of_pod(pod).or_else(|| {
        let context = PodContext {
            pod,
            workload: WorkloadFacts::default(),
            post_check: false,
            agent: AgentStatus::default(),
            operation: None,
            delay_seconds: 0,
        };
        let why = OperationSettings::of(context, &Policies::default(), &Traffic::new(&[], &[])).err()?;
        Some(WaitReason::not_operable(why, pod.node.as_deref().unwrap_or_default()))
    })
}
