//! The labels of PodOpsLifecycle on the pods that take part (docs/contract.md#podopslifecycle).

use std::collections::HashMap;

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp};
use hitless_workloads::foreign::{self, Foreign};
use hitless_workloads::{Component, Holder, lifecycle, registry};
use jiff::Timestamp;

use super::change::Change;
use super::events;
use super::finalizers;
use super::wishes::Wishes;
use crate::snapshot::{OperationKey, Snapshot};

/// The next write to each of them.
pub(super) fn changes<'a>(wishes: &Wishes<'_>, snapshot: &'a Snapshot, now: Timestamp) -> Vec<Change<'a>> {
    if !snapshot.serves(Holder::Request(&Foreign)) {
        return Vec::new();
    }
    let grants = granted(snapshot);
    let next = |pod: &PodView| {
        let known = lifecycle::Known {
            grant: grants.get(pod.id.uid.as_str()).copied(),
            leaves: finalizers::leaves(snapshot, pod),
            in_colla_set: pod.owner.as_ref().is_some_and(|owner| is_colla_set(wishes, &owner.uid)),
        };
        lifecycle::next(pod, known, |by| is_expected(snapshot, pod, by), now)
    };
    snapshot
        .pods
        .iter()
        .filter(|pod| pod.lifecycle.is_some())
        .filter_map(|pod| next(pod))
        .map(Change::Workload)
        .collect()
}

/// Operations that others have kept from ending for longer than [`foreign::LONGEST`]: their own, and ours on pods that they protect.
#[derive(Default)]
pub(super) struct Overdue<'a> {
    pods: Vec<Late<'a>>,
    /// When the next one will have.
    pub(super) wake_at: Option<Timestamp>,
}

/// A pod that waits for others.
struct Late<'a> {
    uid: &'a str,
    since: Timestamp,
    /// The operation is theirs.
    is_theirs: bool,
}

impl<'a> Overdue<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let unfinished = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
        let waits = |grant: &Grant| grant.waits.iter().any(|wait| wait.is_for_finalizers() && wait.is_pending());
        let of_grants = unfinished.filter(|grant| grant.op == GrantOp::Foreign || waits(grant)).map(|grant| Late {
            uid: &grant.pod.uid,
            since: grant.granted.0,
            is_theirs: grant.op == GrantOp::Foreign,
        });
        let reservations = snapshot.ledgers.values().flat_map(|ledger| &ledger.spec.reservations);
        // That of a pod that nobody protects is over in a moment: hardly any lasts for long enough to look whether somebody does.
        let removals = reservations.filter(|(_, reservation)| reservation.removal).filter(|(uid, reservation)| {
            let is_protected = || snapshot.pods.iter().any(|pod| pod.id.uid == **uid && pod.is_protected());
            now.duration_since(reservation.since.0) < foreign::LONGEST || is_protected()
        });
        let removals = removals.map(|(uid, reservation)| Late { uid, since: reservation.since.0, is_theirs: false });
        let mut found = Self::default();
        for late in of_grants.chain(removals) {
            let until = late.since.saturating_add(foreign::LONGEST).unwrap_or(Timestamp::MAX);
            if until <= now {
                found.pods.push(late);
            } else {
                found.wake_at = found.wake_at.into_iter().chain([until]).min();
            }
        }
        found
    }

    /// The pods.
    pub(super) fn uids(&self) -> impl Iterator<Item = &'a str> {
        self.pods.iter().map(|late| late.uid)
    }

    /// On each pod, whom its operation waits for and how it ends.
    pub(super) fn notes(&self, wishes: &Wishes<'_>) -> Vec<EventNote> {
        let note = |late: &Late<'_>| {
            let pod = *wishes.pods.get(late.uid)?;
            let operators = || {
                foreign::operators(pod).unwrap_or_else(|| {
                    "no operator operates it any more, and it has not come back: look at its labels, finalizers and containers".to_owned()
                })
            };
            let (who, words) = if late.is_theirs {
                ("others have operated", operators())
            } else {
                ("finalizers of others have kept us from", finalizers::missing(pod)?)
            };
            let since = late.since.strftime("%Y-%m-%dT%H:%M:%SZ");
            let text = format!(
                "{who} pod {} for longer than an hour, since {since}; budgets of the whole cluster count it for pods of its own namespace \
                 only; {words}",
                pod.id.name
            );
            Some(events::note(events::pod(&pod.id), Severity::Warning, "OperationOverdue", text))
        };
        self.pods.iter().filter_map(note).collect()
    }
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

fn is_colla_set(wishes: &Wishes<'_>, uid: &str) -> bool {
    let object = wishes.world.object(uid);
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
