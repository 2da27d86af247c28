//! A pod's place in the ledger.

use hitless_api::{MicroTime, ObjectRef, PodRef, Reservation};
use hitless_gate::LedgerError;
use hitless_workloads::PodIntent;
use jiff::{SignedDuration, Timestamp};

use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;
use crate::snapshot::OperationKey;

impl<'a> Facts<'a, '_> {
    /// Since when the pod is reserved, and the changes that reserve it, in the place of its last operation if it still has that one's.
    pub(crate) fn reserve(
        &self,
        pod: &'a PodRef,
        reservation: impl FnOnce(Timestamp) -> Reservation,
        writes: &WritePlan<'a>,
    ) -> Result<(Timestamp, Vec<Change<'a>>), WaitReason> {
        let transfer = self.ended.transfers.get(pod.uid.as_str());
        let since = transfer.map_or(writes.now, |(_, grant)| after(grant.granted.0).max(writes.now));
        let mut changes = Vec::new();
        if let Some((node, grant)) = transfer {
            // One write of the ledger: the reservation is never free.
            let reserved = writes.reservation(&grant.pod.namespace, &pod.uid).map(OperationKey::reserved);
            let release = |operation| Change::Release { namespace: &pod.namespace, pod_uid: &pod.uid, operation };
            changes.extend(reserved.map(release));
            changes.push(Change::RemoveGrant { node, grant });
        }
        match writes.reserve(pod, reservation(since), self.gate.counts_cluster_wide(&pod.uid), &changes) {
            Ok(reserve) => changes.push(reserve),
            Err(LedgerError::LedgerFull { .. }) => return Err(WaitReason::LedgerFull),
            Err(LedgerError::Taken { .. } | LedgerError::Deposed { .. }) => return Err(WaitReason::ReleasePending),
        }
        Ok((since, changes))
    }
}

/// The place that an operation takes; what the rules have said of it is added.
pub(crate) fn reservation_of(
    pod: &PodRef,
    node: &str,
    owner: Option<&ObjectRef>,
    intent: &PodIntent,
    since: Timestamp,
) -> Reservation {
    let operation = &intent.operation;
    let images = operation.containers.iter();
    let labels = operation.labels.iter();
    let annotations = operation.template_annotations();
    Reservation {
        id: intent.id(),
        pod: pod.name.clone(),
        node: node.to_owned(),
        owner: owner.map(ObjectRef::label).unwrap_or_default(),
        rules: Vec::new(),
        since: MicroTime(since),
        images: images.clone().map(|(name, change)| (name.clone(), change.to.clone())).collect(),
        while_unavailable: false,
        from_images: images.map(|(name, change)| (name.clone(), change.from.clone())).collect(),
        labels: labels.clone().filter_map(|(name, change)| Some((name.clone(), change.to.clone()?))).collect(),
        from_labels: labels.filter_map(|(name, change)| Some((name.clone(), change.from.clone()?))).collect(),
        annotations: annotations
            .clone()
            .filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)))
            .collect(),
        from_annotations: annotations.filter_map(|(name, change)| Some((name.clone(), change.from.clone()?))).collect(),
        removal: false,
    }
}

/// Later, whatever the clock of the leader was that granted then: of two reservations of a pod the later one is the one that counts.
fn after(granted: Timestamp) -> Timestamp {
    granted.saturating_add(SignedDuration::from_micros(1)).unwrap_or(granted)
}
