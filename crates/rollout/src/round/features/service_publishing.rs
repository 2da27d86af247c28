//! Pods that are held, and their Services (docs/contract.md#services-of-a-held-pod): one that has no other endpoint is opened before the grant, seen open, and
//! closed when the operation has ended. All of it follows from what stands in Services, grants and ledgers; a leader that comes
//! later goes on where this one stopped.

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, Reservation};
use hitless_workloads::EndedHold;
use jiff::{SignedDuration, Timestamp};

use crate::mode::{ServiceView, Serving, Traffic};
use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::Ended;
use crate::round::features::{Effects, FeatureContext};
use crate::round::write::service;
use crate::snapshot::{Evidence, OperationKey, Snapshot};

/// A pod has been Ready for so long before its Service is closed: the EndpointSlice controller may see the pod later than we do. A
/// condition's time has no fraction (`metav1.Time`), so this is one second at least.
pub const READY_FOR: SignedDuration = SignedDuration::from_secs(2);

/// An EndpointSlice that does not say that the pod is ready keeps the Service open for so long after the pod became Ready.
const UNSEEN_FOR: SignedDuration = SignedDuration::from_secs(15);

/// A pod that does not become Ready after its operation keeps its Service open for so long.
const NOT_READY_FOR: SignedDuration = SignedDuration::from_secs(10);

/// Operations that are under way: their Services stay open, and are opened again if somebody has replaced them meanwhile.
pub(crate) fn keep<'a>(
    desired: &DesiredState<'a>,
    ended: &Ended<'a>,
    traffic: &Traffic<'a>,
    snapshot: &'a Snapshot,
) -> Vec<Change<'a>> {
    let serving = |pod: &PodView| Serving::of(pod, ended.is_taken(&pod.id.uid));
    let mut changes = Vec::new();
    for grant in snapshot.node_transitions.values().flat_map(|node| node.unfinished()) {
        if grant.mode != GrantMode::Hold {
            continue;
        }
        let mut services = Vec::new();
        match desired.pods.get(grant.pod.uid.as_str()).copied() {
            // Not seen is not gone: somebody who has begun a moment ago knows the grant before the pod.
            None if snapshot.evidence.get(&OperationKey::granted(grant)) == Some(&Evidence::Gone) => continue,
            None => {}
            Some(pod) if pod.terminating => continue,
            Some(pod) => {
                for service in traffic.leading_to(pod) {
                    // Somebody has closed it on purpose, and kept our mark: he would do it again.
                    let is_wanted = service.open || service.mark() != Some(grant.id.as_str());
                    if is_wanted && traffic.must_be_open(service, pod, &serving) {
                        services.push(service);
                    }
                }
            }
        }
        changes.push(Change::Hold { operation: grant.id.clone(), services });
    }
    changes
}

/// The Services that no operation needs open any more, once all that will hold their pods are planned; and when to look again.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let mut effects = Effects::default();
    let (desired, writes, now) = (&context.facts.desired, context.writes, context.now);
    let snapshot = context.facts.snapshot;
    for service in snapshot.services.iter().map(|service| &**service) {
        let Some(id) = service.mark() else { continue };
        if writes.is_needed(service, id) || may_be_live(service, id, desired, snapshot) {
            continue;
        }
        let due = closes_at(id, desired, snapshot, now);
        if due > now {
            effects.wake(due);
        } else {
            let reserved_since = reservation(service, id, snapshot).map(|reservation| reservation.since.0);
            let serving = serving(id, desired, now).map(str::to_owned);
            let ended = EndedHold { id: id.to_owned(), reserved_since, serving };
            effects.changes.push(Change::Write(service::close(service).once(ended)));
        }
    }
    effects
}

/// The operation has its reservation, and nobody has said how it ended: it may have a grant that is not seen yet.
fn may_be_live(service: &ServiceView, id: &str, desired: &DesiredState<'_>, snapshot: &Snapshot) -> bool {
    let Some(uid) = Grant::pod_uid_of(id) else { return false };
    // The reservation of one that is gone is freed.
    if desired.pods.get(uid).is_some_and(|pod| pod.terminating) {
        return false;
    }
    let Some(reservation) = reservation(service, id, snapshot) else { return false };
    let mut reports = snapshot.node_transitions.get(&reservation.node).into_iter().flat_map(|node| &node.transitions);
    !reports.any(|report| report.id == id && report.granted == reservation.since && report.result.is_some())
}

/// The reservation of the operation that the Service was opened for.
fn reservation<'a>(service: &ServiceView, id: &str, snapshot: &'a Snapshot) -> Option<&'a Reservation> {
    let ledger = snapshot.ledgers.get(&service.namespace)?;
    ledger.spec.reservations.get(Grant::pod_uid_of(id)?).filter(|reservation| reservation.id == id)
}

/// The pod that an EndpointSlice has to call ready before its Service is closed, by its uid. Closed any sooner, the EndpointSlice
/// controller would take out of service a pod that it does not know to be Ready.
fn serving<'a>(id: &'a str, desired: &DesiredState<'_>, now: Timestamp) -> Option<&'a str> {
    let uid = Grant::pod_uid_of(id)?;
    let pod = desired.pods.get(uid).filter(|pod| !pod.terminating && pod.ready())?;
    let since = pod.conditions.get("Ready").and_then(|ready| ready.since)?;
    (now.duration_since(since) < UNSEEN_FOR).then_some(uid)
}

/// When the Service is closed that was opened for this operation, which has ended.
fn closes_at(id: &str, desired: &DesiredState<'_>, snapshot: &Snapshot, now: Timestamp) -> Timestamp {
    let uid = Grant::pod_uid_of(id).unwrap_or(id);
    // What comes in its place must not get connections before it is Ready.
    let Some(pod) = desired.pods.get(uid).filter(|pod| !pod.terminating) else { return now };
    let (since, pause) = if pod.ready() {
        (pod.conditions.get("Ready").and_then(|ready| ready.since), READY_FOR)
    } else {
        let mut reports = snapshot.node_transitions.values().flat_map(|node| &node.transitions);
        (reports.find(|report| report.id == id).map(|report| report.since.0), NOT_READY_FOR)
    };
    since.and_then(|since| since.saturating_add(pause).ok()).unwrap_or(now)
}
