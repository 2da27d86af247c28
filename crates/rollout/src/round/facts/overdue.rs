//! Operations that others keep from ending.

use hitless_api::event::{EventNote, Severity};
use hitless_api::{Grant, GrantOp};
use hitless_workloads::foreign;
use jiff::Timestamp;

use crate::round::facts::desired::DesiredState;
use crate::round::finalizers;
use crate::round::note::{note, pod_reference};
use crate::snapshot::Snapshot;

/// Operations that others have kept from ending for longer than [`foreign::LONGEST`]: their own, and ours on pods that they protect.
#[derive(Default)]
pub(crate) struct Overdue<'a> {
    pods: Vec<Late<'a>>,
    /// When the next one will have.
    pub(crate) wake_at: Option<Timestamp>,
}

/// A pod that waits for others.
struct Late<'a> {
    uid: &'a str,
    since: Timestamp,
    op: GrantOp,
}

impl<'a> Overdue<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, desired: &DesiredState<'_>, now: Timestamp) -> Self {
        let unfinished = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
        let waits = |grant: &Grant| grant.waits.iter().any(|wait| wait.is_for_finalizers() && wait.is_pending());
        let of_grants = unfinished.filter(|grant| grant.op == GrantOp::Foreign || waits(grant)).map(|grant| Late {
            uid: &grant.pod.uid,
            since: grant.granted.0,
            op: grant.op.clone(),
        });
        let reservations = snapshot.ledgers.values().flat_map(|ledger| &ledger.spec.reservations);
        // That of a pod that nobody protects is over in a moment: hardly any lasts for long enough to look whether somebody does.
        let removals = reservations.filter(|(_, reservation)| reservation.removal).filter(|(uid, reservation)| {
            let pod = || desired.pods.get(uid.as_str());
            let is_protected = || pod().is_some_and(|pod| finalizers::missing(desired, pod, &GrantOp::Drain).is_some());
            now.duration_since(reservation.since.0) < foreign::LONGEST || is_protected()
        });
        let removals = removals.map(|(uid, reservation)| Late { uid, since: reservation.since.0, op: GrantOp::Drain });
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
    pub(crate) fn uids(&self) -> impl Iterator<Item = &'a str> {
        self.pods.iter().map(|late| late.uid)
    }

    /// On each pod, whom its operation waits for and how it ends.
    pub(crate) fn notes(&self, desired: &DesiredState<'_>) -> Vec<EventNote> {
        let note = |late: &Late<'_>| {
            let pod = *desired.pods.get(late.uid)?;
            let operators = || {
                foreign::operators(pod).unwrap_or_else(|| {
                    "no operator operates it any more, and it has not come back: look at its labels, finalizers and containers".to_owned()
                })
            };
            let (who, words) = if late.op == GrantOp::Foreign {
                ("others have operated".to_owned(), operators())
            } else {
                let who = if pod.is_protected() { "finalizers of others have" } else { "a hook of its workload has" };
                (format!("{who} kept us from"), finalizers::missing(desired, pod, &late.op)?)
            };
            let since = late.since.strftime("%Y-%m-%dT%H:%M:%SZ");
            let text = format!(
                "{who} pod {} for longer than an hour, since {since}; budgets of the whole cluster count it for pods of its own namespace \
                 only; {words}",
                pod.id.name
            );
            Some(note(pod_reference(&pod.id), Severity::Warning, "OperationOverdue", text))
        };
        self.pods.iter().filter_map(note).collect()
    }
}
