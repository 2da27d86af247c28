//! The labels of PodOpsLifecycle on the pods that take part (docs/contract.md#podopslifecycle).

use std::collections::HashMap;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp};
use hitless_workloads::foreign::Foreign;
use hitless_workloads::{Component, Holder, lifecycle, registry};
use jiff::Timestamp;

use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
use crate::round::features::{Effects, FeatureContext};
use crate::round::finalizers;
use crate::snapshot::{OperationKey, Snapshot};

/// The next write to each of them, and what is said of operations that take too long.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let (desired, snapshot, now) = (&context.facts.desired, context.facts.snapshot, context.now);
    let overdue = &context.facts.overdue;
    Effects::of(changes(desired, snapshot, now)).telling(overdue.notes(desired)).waking(overdue.wake_at)
}

pub(crate) fn changes<'a>(desired: &DesiredState<'_>, snapshot: &Snapshot, now: Timestamp) -> Vec<Change<'a>> {
    if !snapshot.serves(Holder::Request(&Foreign)) {
        return Vec::new();
    }
    let grants = granted(snapshot);
    let next = |pod: &PodView| {
        let known = lifecycle::OperationContext {
            grant: grants.get(pod.id.uid.as_str()).copied(),
            leaves: finalizers::leaves(snapshot, pod),
            in_colla_set: pod.owner.as_ref().is_some_and(|owner| is_colla_set(desired, &owner.uid)),
        };
        lifecycle::next(pod, known, |by| is_expected(snapshot, pod, by), now)
    };
    snapshot.pods.iter().filter(|pod| pod.lifecycle.is_some()).filter_map(|pod| next(pod)).map(Change::Write).collect()
}

/// The grants by which others operate pods, by the pod's uid: those that have their reservation, and have neither ended nor are to.
fn granted(snapshot: &Snapshot) -> HashMap<&str, &Grant> {
    let unfinished = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    let foreign = unfinished.filter(|grant| grant.op == GrantOp::Foreign && grant.cancel.is_none());
    let reserved = foreign.filter(|grant| {
        let ledger = snapshot.ledgers.get(&grant.pod.namespace);
        let reservation = ledger.and_then(|ledger| ledger.spec.reservations.get(&grant.pod.uid));
        reservation.is_some_and(|reservation| OperationKey::reserved(reservation) == OperationKey::granted(grant))
    });
    reserved.map(|grant| (grant.pod.uid.as_str(), grant)).collect()
}

fn is_colla_set(desired: &DesiredState<'_>, uid: &str) -> bool {
    let object = desired.world.object(uid);
    object.is_some_and(|object| {
        registry::of_workload(&object.id.group_kind).is_some_and(|kind| kind.component() == Component::KusionStack)
    })
}

/// Whether whoever is named `<kind>/<namespace>/<name>` may still add its finalizer: a Service that is gone, or that does not select
/// the pod any more, does not.
fn is_expected(snapshot: &Snapshot, pod: &PodView, by: &str) -> bool {
    let Some((namespace, name)) = by.strip_prefix("Service/").and_then(|rest| rest.split_once('/')) else {
        return true;
    };
    let service = snapshot.services.iter().find(|service| service.namespace == namespace && service.name == name);
    service.is_some_and(|service| service.selects(pod))
}
