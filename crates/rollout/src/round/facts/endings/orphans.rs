//! Reservations without a grant.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::CLUSTER;
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{PodRef, Reservation, digest};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::{Ended, Endings, Read};
use crate::snapshot::{Evidence, OperationKey, Snapshot};

/// Orphaned reservations younger than this are granted after all if the operation is still wanted; an older one would reach the
/// agent expired.
const REGRANT_SECONDS: i64 = 30;
/// For so long a pod is waited for that was patched and whose grant is gone.
const BACK_WITHIN_SECONDS: i64 = 120;

/// Reservations without a grant: this controller or an earlier one was stopped between the two writes.
pub(crate) fn in_namespaces<'a>(
    desired: &DesiredState<'a>,
    snapshot: &'a Snapshot,
    now: Timestamp,
    endings: &mut Endings<'a>,
) {
    let Endings { ended, changes } = &mut *endings;
    let mut fenced: BTreeMap<&'a str, Vec<(&'a str, &'a str, OperationKey)>> = BTreeMap::new();
    for (namespace, ledger) in snapshot.ledgers.iter().filter(|(namespace, _)| *namespace != CLUSTER) {
        for (uid, reservation) in &ledger.spec.reservations {
            if reservation.removal {
                removal(namespace, uid, reservation, desired, snapshot, ended, changes);
                continue;
            }
            let node = reservation.node.as_str();
            let known = snapshot.node_transitions.get(node);
            let named =
                || known.into_iter().flat_map(|known| &known.spec.grants).filter(|grant| grant.id == reservation.id);
            // The same operation has the same id whenever it is granted: a result that halts may stand there from an earlier time.
            if named().any(|grant| grant.granted == reservation.since) {
                if !ended.transfers.contains_key(uid.as_str()) {
                    ended.busy.insert(uid);
                }
                continue;
            }
            let key = OperationKey::reserved(reservation);
            if snapshot.evidence.get(&key) == Some(&Evidence::Gone) {
                changes.push(Change::Release { namespace, pod_uid: uid, operation: key });
                continue;
            }
            let wanted = desired.by_pod.get(uid.as_str());
            let still_due =
                wanted.is_some_and(|wanted| wanted.intent.as_ref().is_ok_and(|intent| intent.id() == key.id));
            let old = key.since.saturating_add(SignedDuration::from_secs(REGRANT_SECONDS)).unwrap_or(now);
            if still_due && now < old && named().next().is_none() {
                let writes = fence_writes(namespace, snapshot, now);
                if !writes.is_empty() {
                    changes.extend(writes);
                    ended.busy.insert(uid);
                    continue;
                }
                ended.wake_at = Some(ended.wake_at.map_or(old, |other| other.min(old)));
                ended.regrant.insert(uid, key);
                continue;
            }
            ended.busy.insert(uid);
            match desired.pods.get(uid.as_str()) {
                None => {
                    let (namespace, name) = (namespace.clone(), reservation.pod.clone());
                    ended
                        .reads
                        .push(Read { operation: key.clone(), pod: PodRef { namespace, name, uid: uid.clone() } });
                }
                Some(pod) => {
                    if let Some(until) = awaited_until(reservation, pod).filter(|until| now < *until) {
                        ended.wake_at = Some(ended.wake_at.map_or(until, |other| other.min(until)));
                        continue;
                    }
                }
            }
            fenced.entry(node).or_default().push((namespace, uid, key));
        }
    }
    for (node, reservations) in fenced {
        free_behind_a_fence(node, reservations, snapshot, now, endings);
    }
}

/// The removal of a pod that serves nobody. It counts until the pod is seen to be on its way out, and so is counted by itself, or is gone;
/// and where it is not wanted any more, because the pod serves again or is as it should be.
fn removal<'a>(
    namespace: &'a str,
    uid: &'a str,
    reservation: &Reservation,
    desired: &DesiredState<'a>,
    snapshot: &Snapshot,
    ended: &mut Ended<'a>,
    changes: &mut Vec<Change<'a>>,
) {
    let operation = OperationKey::reserved(reservation);
    let is_due = desired.by_pod.get(uid).is_some_and(|wanted| {
        wanted.removal.is_some() && wanted.intent.as_ref().is_ok_and(|intent| intent.id() == operation.id)
    });
    let is_over = match desired.pods.get(uid) {
        Some(pod) => pod.terminating || !is_due,
        None => snapshot.evidence.get(&operation) == Some(&Evidence::Gone),
    };
    if is_over {
        changes.push(Change::Release { namespace, pod_uid: uid, operation });
        return;
    }
    ended.busy.insert(uid);
    if !desired.pods.contains_key(uid) {
        let (namespace, name) = (namespace.to_owned(), reservation.pod.clone());
        ended.reads.push(Read { operation, pod: PodRef { namespace, name, uid: uid.to_owned() } });
    }
}

/// The pod was patched for this reservation, and somebody has deleted the NodeTransition with its grant: until when it is waited for.
/// `None`: it is back, or was not patched. Meanwhile it counts, and its Service stays open.
fn awaited_until(reservation: &Reservation, pod: &PodView) -> Option<Timestamp> {
    let since = reservation.since.0;
    let containers = || reservation.images.keys().filter_map(|name| pod.container(name));
    let is_patched = |(name, image): (&String, &String)| {
        pod.container(name).is_some_and(|container| is_set(container, image, reservation.from_images.get(name)))
    };
    let is_new = |container: &ContainerView| {
        let started = container.status.as_ref().and_then(|status| status.running_since);
        // The kubelet writes whole seconds.
        started.is_some_and(|started| started.as_second() >= since.as_second())
    };
    let is_back = pod.ready() && containers().all(is_new);
    let is_awaited = !reservation.images.is_empty() && reservation.images.iter().all(is_patched) && !is_back;
    let until = since.saturating_add(SignedDuration::from_secs(BACK_WITHIN_SECONDS)).ok()?;
    is_awaited.then_some(until)
}

/// Whether the container has this image of an operation. Admission may have added a digest to it; where that makes it the one before, it
/// is the one before.
pub(crate) fn is_set(container: &ContainerView, image: &str, before: Option<&String>) -> bool {
    let has_digest = || container.image.strip_prefix(image).is_some_and(|rest| rest.starts_with('@'));
    before.is_none_or(|before| *before != container.image) && (container.image == image || has_digest())
}

/// A write to the ledger that was not answered may have freed the reservation, and still arrive: before anything rests on the
/// reservation, the ledger is written, so that it can't. None: nothing is to be written before.
fn fence_writes<'a>(namespace: &'a str, snapshot: &Snapshot, now: Timestamp) -> Vec<Change<'a>> {
    let unsettled =
        [namespace, CLUSTER].into_iter().filter(|ledger| snapshot.own_writes.unanswered_ledgers.contains(*ledger));
    unsettled.map(|namespace| fence(namespace, now)).collect()
}

/// A write of the ledger behind which nothing older arrives any more, and that fails if the ledger is not as it is seen.
pub(crate) fn fence(namespace: &str, now: Timestamp) -> Change<'_> {
    // With the time in it, because a write that changes nothing would be no write.
    Change::FenceLedger { namespace, fence: now.as_microsecond().to_string() }
}

/// Before a reservation is freed that may have a grant on its way, the NodeTransition is rewritten (docs/contract.md#fencing): what was
/// prepared on an older version of it, by a deposed leader or by ourselves in a write without an answer, then fails. Only a
/// round that sees the fence there, and still no grant, frees the reservation.
fn free_behind_a_fence<'a>(
    node: &'a str,
    reservations: Vec<(&'a str, &'a str, OperationKey)>,
    snapshot: &Snapshot,
    now: Timestamp,
    Endings { ended, changes }: &mut Endings<'a>,
) {
    let name = fence_name(snapshot.epoch, reservations.iter().map(|(_, _, key)| key));
    let known = snapshot.node_transitions.get(node).and_then(|known| known.fence.as_deref());
    let is_fenced = known.and_then(|fence| fence.split_once('.')).is_some_and(|(known, _)| known == name);
    if !is_fenced || snapshot.own_writes.unanswered_nodes.contains(node) {
        // With the time in it, because a write that changes nothing would be no write.
        changes.push(Change::FenceNode { node, fence: format!("{name}.{}", now.as_microsecond()) });
        return;
    }
    for (namespace, pod_uid, operation) in reservations {
        changes.push(Change::Release { namespace, pod_uid, operation });
        ended.busy.remove(pod_uid);
    }
}

/// Reservations in the cluster's ledger that the namespace's ledger does not have: the write that was to follow has failed, or is still
/// on its way. They are freed behind a fence in that ledger, as those without a grant are behind one in the NodeTransition.
pub(crate) fn in_cluster<'a>(snapshot: &'a Snapshot, Endings { ended, changes }: &mut Endings<'a>) {
    let Some(cluster) = snapshot.ledgers.get(CLUSTER) else { return };
    let granted: BTreeSet<&str> =
        snapshot.node_transitions.values().flat_map(|node| &node.spec.grants).map(|grant| grant.id.as_str()).collect();
    let mut fenced: BTreeMap<&'a str, Vec<(&'a str, OperationKey)>> = BTreeMap::new();
    for (uid, reservation) in &cluster.spec.reservations {
        let Some((namespace, _)) = reservation.pod.split_once('/') else { continue };
        let own = snapshot.ledgers.get(namespace).and_then(|ledger| ledger.spec.reservations.get(uid));
        if own.is_some_and(|own| own.id == reservation.id && own.since == reservation.since) {
            continue;
        }
        ended.busy.insert(uid);
        if !granted.contains(reservation.id.as_str()) {
            let key = OperationKey::reserved(reservation);
            fenced.entry(namespace).or_default().push((uid, key));
        }
    }
    for (namespace, reservations) in fenced {
        let name = fence_name(snapshot.epoch, reservations.iter().map(|(_, key)| key));
        let known = snapshot.ledgers.get(namespace).and_then(|known| known.spec.fence.as_deref());
        if known != Some(name.as_str()) {
            changes.push(Change::FenceLedger { namespace, fence: name });
            continue;
        }
        for (pod_uid, operation) in reservations {
            // The namespace's ledger does not have it.
            changes.push(Change::Release { namespace, pod_uid, operation });
            ended.busy.remove(pod_uid);
        }
    }
}

/// Name of the fence behind which the reservations of these operations are freed; another leader's is another one.
fn fence_name<'k>(epoch: i64, keys: impl Iterator<Item = &'k OperationKey>) -> String {
    let keys: Vec<_> = keys.map(|key| json!([key.id, key.since.to_string()])).collect();
    digest::short(&json!([epoch, keys]))
}
