//! Pods that others protect by a finalizer (`prot.podopslifecycle.kusionstack.io/…`): they still send them requests. Such a pod leaves
//! service for an operation of ours, too, whoever protects it is told by upstream's label `preparing`, and nothing is done to it before
//! the finalizers are gone (docs/contract.md#podopslifecycle).

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, Wait, WaitPoint, lifecycle};
use hitless_workloads::foreign::Foreign;
use hitless_workloads::{Holder, Hook, registry};

use crate::round::facts::Facts;
use crate::round::facts::desired::DesiredState;
use crate::snapshot::Snapshot;

/// Why a protected pod leaves service.
pub(crate) const PROTECTED: &str =
    "Protected: others send it requests until it has left service, as its finalizers or a hook of its workload say";

/// What is missing of a pod that nobody protects.
const LEAVES: &str = "the pod is to leave service";

impl Facts<'_, '_> {
    /// Whether the operation has to wait for others who protect the pod, or for a hook of its workload. Those that others do have their own
    /// order for that, and a change of labels disturbs nobody.
    pub(crate) fn is_protected(&self, pod: &PodView, op: &GrantOp) -> bool {
        let is_served = || self.snapshot.serves(Holder::Request(&Foreign));
        !matches!(op, GrantOp::Foreign | GrantOp::Relabel)
            && ((pod.is_protected() && is_served()) || hook(&self.desired, pod, op) != Hook::Absent)
    }

    /// What the operation of a protected pod waits for.
    pub(crate) fn finalizers(&self, pod: &PodView, op: &GrantOp) -> Option<Wait> {
        let wait = || {
            let words = missing(&self.desired, pod, op).unwrap_or_else(|| LEAVES.to_owned());
            Wait::pending(lifecycle::PROTECTION.to_owned(), WaitPoint::Operate, &words)
        };
        self.is_protected(pod, op).then(wait)
    }
}

/// What hooks of its workload say of the operation.
fn hook(desired: &DesiredState<'_>, pod: &PodView, op: &GrantOp) -> Hook {
    let root = pod.owner.as_ref().and_then(|owner| desired.world.object(&owner.uid));
    let kind = root.and_then(|root| Some((root, registry::of_workload(&root.id.group_kind)?)));
    kind.map_or(Hook::Absent, |(root, kind)| kind.hook(root, pod, op))
}

/// Who has to do something before the operation, in words; `None`: nobody has.
pub(crate) fn missing(desired: &DesiredState<'_>, pod: &PodView, op: &GrantOp) -> Option<String> {
    let all: Vec<&str> = pod.lifecycle.iter().flat_map(|view| view.protections()).collect();
    if !all.is_empty() {
        return Some(format!("whoever has put {} on the pod is to take it off", all.join(", ")));
    }
    match hook(desired, pod, op) {
        Hook::Pending(words) => Some(words),
        Hook::Absent | Hook::Over => None,
    }
}

/// What is missing; `None`: the pod has left service for the grant, and nobody protects it.
pub(crate) fn judge(desired: &DesiredState<'_>, grant: &Grant, pod: &PodView) -> Option<String> {
    let has_left = pod.in_service().is_some_and(|it| !it.is_true && it.message == grant.id) && !pod.ready();
    missing(desired, pod, &grant.op).or_else(|| (!has_left).then(|| LEAVES.to_owned()))
}

/// Whether an operation of ours, or the reserved removal of a pod that serves nobody, waits for others who protect the pod, or has
/// waited for them and has not put the pod back.
pub(crate) fn leaves(snapshot: &Snapshot, pod: &PodView) -> bool {
    let uid = &pod.id.uid;
    let grants = pod.node.as_ref().and_then(|node| snapshot.node_transitions.get(node)).into_iter();
    let mut own =
        grants.flat_map(|node| node.unfinished()).filter(|grant| grant.pod.uid == *uid && grant.cancel.is_none());
    let is_away = || pod.in_service().is_some_and(|condition| !condition.is_true);
    let waits =
        |grant: &Grant| grant.waits.iter().any(|wait| wait.is_for_finalizers() && (wait.is_pending() || is_away()));
    let ledger = snapshot.ledgers.get(&pod.id.namespace);
    let reservation = ledger.and_then(|ledger| ledger.spec.reservations.get(uid));
    own.any(waits) || (pod.is_protected() && reservation.is_some_and(|reservation| reservation.removal))
}
