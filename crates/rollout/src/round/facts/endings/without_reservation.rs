//! Grants without a reservation: somebody has deleted the ledger, or has put an older one in its place (docs/contract.md#end-of-a-reservation).

use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;
use hitless_api::{Cancel, Grant, GrantOp, MicroTime};
use jiff::Timestamp;

use crate::round::change::Change;
use crate::round::facts::endings::orphans::{fence, is_set};
use crate::snapshot::Snapshot;

/// Admission would refuse the agent's patch, and that would be taken for a failure of the version. So the grant is taken back, and the
/// pod is granted anew. Until then it counts in all budgets by its grant.
pub(crate) fn take_back<'a>(
    node: &'a str,
    grant: &'a Grant,
    pod: &PodView,
    snapshot: &'a Snapshot,
    now: Timestamp,
) -> Option<Change<'a>> {
    let namespace = grant.pod.namespace.as_str();
    if !snapshot.unknown.lists(namespace) || !needs_reservation(grant, pod) {
        return None;
    }
    if snapshot.has_reservation(grant) {
        return None;
    }
    let ledger = snapshot.ledgers.get(namespace);
    // One that was written by somebody else may be newer than it is seen here.
    if ledger.is_none_or(|ledger| ledger.spec.leader.epoch != snapshot.epoch) {
        return Some(fence(namespace, now));
    }
    let cancel = Cancel { reason: Cancel::NO_RESERVATION.to_owned(), since: MicroTime(now) };
    Some(Change::Cancel { node, grant, cancel })
}

/// Something is still to be written that admission compares with the reservation. Of a pod that others operate, nothing is taken back.
fn needs_reservation(grant: &Grant, pod: &PodView) -> bool {
    let is_patched = |(name, change): (&String, &ImageChange)| {
        pod.container(name).is_some_and(|container| is_set(container, &change.to, Some(&change.from)))
    };
    grant.cancel.is_none()
        && grant.op != GrantOp::Foreign
        && !pod.terminating
        && !grant.containers.iter().any(is_patched)
}
