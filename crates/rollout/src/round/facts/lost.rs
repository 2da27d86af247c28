//! Pods on nodes that are away for so long that nobody waits for them: the kubelet does not answer, and whether the containers run is not
//! known. A DaemonSet's and a StatefulSet's pod stays so until somebody deletes the Node or the pod, and nothing may stand still for that.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;
use hitless_workloads::{Plan, Stage};
use jiff::{SignedDuration, Timestamp};

use crate::companion;
use crate::round::facts::desired::DesiredState;
use crate::round::note::{note, regarding};
use crate::snapshot::{NodeView, Snapshot};

/// A kubelet that starts anew, or a node that boots, is back by then.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Kubernetes deletes pods of such a node after five minutes, and a ReplicaSet makes others: a pod that comes back by itself is better.
const REPLACED_AFTER: SignedDuration = SignedDuration::from_secs(330);

/// Pods that are not available and whose nodes are lost.
#[derive(Debug, Default)]
pub(crate) struct Lost<'a> {
    uids: BTreeSet<&'a str>,
    /// When the next one will be.
    pub(crate) wake_at: Option<Timestamp>,
}

impl<'a> Lost<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let away = |node: &NodeView| Some((node.name.clone(), node.not_ready_since?));
        let away: BTreeMap<String, Timestamp> = snapshot.nodes.values().filter_map(|node| away(node)).collect();
        let mut found = Self::default();
        if away.is_empty() {
            return found;
        }
        for pod in snapshot.pods.iter().chain(&snapshot.companions).filter(|pod| !pod.available()) {
            let Some(since) = pod.node.as_ref().and_then(|node| away.get(node)) else { continue };
            let until = since.saturating_add(patience(pod)).unwrap_or(Timestamp::MAX);
            if until <= now {
                found.uids.insert(&pod.id.uid);
            } else {
                found.wake_at = found.wake_at.into_iter().chain([until]).min();
            }
        }
        found
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// Why a rollout does not end, of which all pods that are there have the version: a workload that makes its pods itself makes no other one
    /// before this one is gone.
    pub(crate) fn keeps(&self, desired: &DesiredState<'_>, plan: &Plan) -> Option<String> {
        if self.uids.is_empty() || !matches!(plan.stage, Stage::Finishing) {
            return None;
        }
        let own = |pod: &&&PodView| self.has(&pod.id.uid) && !companion::is_companion(pod);
        let pod = desired.world.pods(&plan.workload.uid).iter().find(own)?;
        let node = pod.node.as_deref().unwrap_or_default();
        Some(format!(
            "pod {} is on node {node}, which does not answer, and the rollout ends once that pod is there again; {}",
            pod.id.name,
            advice(node)
        ))
    }

    /// The same for all that look at a workload.
    pub(crate) fn notes(&self, desired: &DesiredState<'_>) -> Vec<EventNote> {
        let kept = desired.plans.iter().filter_map(|plan| Some((plan, self.keeps(desired, plan)?)));
        kept.map(|(plan, text)| note(regarding(plan), Severity::Warning, "NodeLost", text)).collect()
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = &'a str> {
        self.uids.iter().copied()
    }
}

/// What ends a wait for this node.
pub(crate) fn advice(node: &str) -> String {
    format!("it goes on when the node answers; if the node is off for good: kubectl delete node {node}")
}

fn patience(pod: &PodView) -> SignedDuration {
    // One that is being deleted does not come back, and has been replaced already.
    let is_replaced =
        !pod.terminating && pod.owner.as_ref().is_some_and(|owner| owner.group_kind.is("apps", "ReplicaSet"));
    if is_replaced { REPLACED_AFTER } else { PATIENCE }
}
