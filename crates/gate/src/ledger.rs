//! The arithmetic of a namespace's ledger: making reservations, freeing them, and fencing off a deposed leader.
//!
//! Pure functions on a copy of the spec. The caller writes the result with the resourceVersion that it read the first
//! one with; on a conflict it reads again and decides again. What else the caller owes, each of it found necessary by the model
//! check in `tests/ledger_model`, where leaving it out lets more pods go than the budget has:
//!
//! * It writes no NodeTransition whose `spec.epoch` is later than its own: its view of the ledger may be older than its view of
//!   the node.
//! * It frees a reservation that has no grant only after it has rewritten that NodeTransition, so that a grant on its way fails.
//! * A reservation ends, with a grant or without one, only when a fresh read of the pod shows that it is ready (or gone).
//! * A result counts only if the grant's `granted` is the reservation's `since`: two attempts at one operation have the same id,
//!   and the view of the node may be of the earlier one.
//! * A pod that [`crate::Verdict::rests_on_unavailability`] is granted as such (`whileUnavailable`), and its agent refuses to begin
//!   once the pod is Ready: an old cache may show it as it was during an operation that has ended since, or it may recover.
//! * A pod that a cluster-wide budget counts is reserved in the cluster's ledger first. A reservation there that its namespace's ledger
//!   does not have is freed only behind a fence in that ledger: the write that was to follow may still be on its way.
//!   A lost grant of such a pod is written after all only if its reservation is in both ledgers.

use hitless_api::ledger::LedgerLeader;
use hitless_api::{Reservation, TransitionLedgerSpec};

/// Why a ledger was not changed as wanted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LedgerError {
    /// No room for all.
    #[error(
        "the namespace's ledger is full ({limit} reservations): {} pods wait until operations end: {}",
        dropped.len(),
        dropped.join(", ")
    )]
    LedgerFull {
        /// Most reservations in one ledger.
        limit: usize,
        /// uids of the pods that found no room, in the order of the batch.
        dropped: Vec<String>,
    },
    /// The pod holds a reservation for another operation.
    #[error("pod {uid} holds a reservation for operation {held}; release that before {wanted} is reserved")]
    Taken {
        /// uid of the pod.
        uid: String,
        /// Id of the operation that it is reserved for.
        held: String,
        /// Id of the operation that was to be reserved.
        wanted: String,
    },
    /// A later leader has written: this process leads no more.
    #[error("the ledger belongs to leader {holder} of epoch {epoch}, we are of epoch {ours}: stop writing")]
    Deposed {
        /// Epoch in the ledger.
        epoch: i64,
        /// Holder in the ledger.
        holder: String,
        /// Our epoch.
        ours: i64,
    },
}

/// Whether a leader of epoch `ours` may still write this ledger.
///
/// # Errors
/// [`LedgerError::Deposed`] if a later leader has written it.
pub fn refuse_if_deposed(spec: &TransitionLedgerSpec, ours: i64) -> Result<(), LedgerError> {
    if spec.leader.epoch > ours {
        return Err(LedgerError::Deposed { epoch: spec.leader.epoch, holder: spec.leader.holder.clone(), ours });
    }
    Ok(())
}

/// Says why [`reserve`] would make no reservation for this pod and operation on behalf of a leader of epoch `ours`.
///
/// # Errors
/// As [`reserve`].
pub fn refuse_to_reserve(spec: &TransitionLedgerSpec, uid: &str, id: &str, ours: i64) -> Result<(), LedgerError> {
    refuse_if_deposed(spec, ours)?;
    let limit = TransitionLedgerSpec::MAX_RESERVATIONS;
    match spec.reservations.get(uid) {
        Some(held) if held.id != id => {
            Err(LedgerError::Taken { uid: uid.to_owned(), held: held.id.clone(), wanted: id.to_owned() })
        }
        None if spec.reservations.len() >= limit => {
            Err(LedgerError::LedgerFull { limit, dropped: vec![uid.to_owned()] })
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes a reservation for each pod of `batch` (pod uid and reservation, the most urgent first) on behalf of `leader`. A pod that
/// already holds a reservation for the same operation keeps it as it is.
///
/// # Errors
/// [`LedgerError::Deposed`] and [`LedgerError::Taken`] leave the ledger alone; after [`LedgerError::LedgerFull`] as many of the
/// batch are reserved as fit.
pub fn reserve(
    spec: &mut TransitionLedgerSpec,
    batch: Vec<(String, Reservation)>,
    leader: &LedgerLeader,
) -> Result<(), LedgerError> {
    refuse_if_deposed(spec, leader.epoch)?;
    for (uid, reservation) in &batch {
        if let Some(held) = spec.reservations.get(uid).filter(|held| held.id != reservation.id) {
            return Err(LedgerError::Taken { uid: uid.clone(), held: held.id.clone(), wanted: reservation.id.clone() });
        }
    }
    let limit = TransitionLedgerSpec::MAX_RESERVATIONS;
    let mut dropped = Vec::new();
    for (uid, reservation) in batch {
        if spec.reservations.contains_key(&uid) {
            continue;
        }
        if spec.reservations.len() < limit {
            spec.reservations.insert(uid, reservation);
        } else {
            dropped.push(uid);
        }
    }
    spec.leader = leader.clone();
    spec.fence = None;
    if dropped.is_empty() { Ok(()) } else { Err(LedgerError::LedgerFull { limit, dropped }) }
}

/// Frees the reservations of these pods; unknown uids are ignored. Only for operations that have ended on evidence
/// (docs/contract.md#grant-expiry and #end-of-a-reservation): time alone never releases anything.
pub fn release<S: AsRef<str>>(spec: &mut TransitionLedgerSpec, uids: impl IntoIterator<Item = S>) {
    spec.fence = None;
    for uid in uids {
        spec.reservations.remove(uid.as_ref());
    }
}

/// What a new leader writes into a ledger before anything else (docs/contract.md#fencing), so that writes that its predecessor prepared
/// fail. `None` if nothing is to be written: the ledger is empty, or it is of this epoch already, or of a later one (then
/// [`refuse_if_deposed`] says so).
#[must_use]
pub fn take_over(spec: &TransitionLedgerSpec, epoch: i64, holder: &str) -> Option<TransitionLedgerSpec> {
    if spec.reservations.is_empty() || spec.leader.epoch >= epoch {
        return None;
    }
    Some(TransitionLedgerSpec {
        leader: LedgerLeader { epoch, holder: holder.to_owned() },
        fence: None,
        reservations: spec.reservations.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::MicroTime;
    use jiff::Timestamp;

    fn leader(epoch: i64) -> LedgerLeader {
        LedgerLeader { epoch, holder: format!("controller-{epoch}") }
    }

    fn one(uid: &str, id: &str, since: i64) -> (String, Reservation) {
        let reservation = Reservation {
            id: id.into(),
            pod: uid.into(),
            node: "n".into(),
            owner: String::new(),
            rules: Vec::new(),
            since: MicroTime(Timestamp::from_second(since).unwrap()),
            images: [].into(),
            from_images: [].into(),
            while_unavailable: false,
            labels: [].into(),
            from_labels: [].into(),
            annotations: [].into(),
            from_annotations: [].into(),
            removal: false,
        };
        (uid.to_owned(), reservation)
    }

    /// `spec` with `batch` in it.
    fn with(
        spec: &TransitionLedgerSpec,
        batch: Vec<(String, Reservation)>,
        by: &LedgerLeader,
    ) -> Result<TransitionLedgerSpec, LedgerError> {
        let mut next = spec.clone();
        reserve(&mut next, batch, by).map(|()| next)
    }

    fn uids(spec: &TransitionLedgerSpec) -> Vec<&str> {
        spec.reservations.keys().map(String::as_str).collect()
    }

    #[test]
    fn the_same_operation_keeps_its_place_and_another_one_has_to_wait() {
        let empty = TransitionLedgerSpec::default();
        let first = with(&empty, vec![one("a", "a.1", 1), one("b", "b.1", 1)], &leader(1)).unwrap();
        assert_eq!((uids(&first), first.leader.epoch), (vec!["a", "b"], 1));
        let again = with(&first, vec![one("a", "a.1", 9)], &leader(1)).unwrap();
        assert_eq!(again, first, "reserved since the first time");
        let error = with(&first, vec![one("c", "c.1", 2), one("a", "a.2", 2)], &leader(1)).unwrap_err();
        assert_eq!(error, LedgerError::Taken { uid: "a".into(), held: "a.1".into(), wanted: "a.2".into() });
        let mut freed = first.clone();
        release(&mut freed, ["a", "gone"]);
        let next = with(&freed, vec![one("a", "a.2", 2)], &leader(1)).unwrap();
        assert_eq!(next.reservations["a"].id, "a.2");
    }

    #[test]
    fn a_full_ledger_says_who_found_no_room_and_keeps_the_others() {
        let limit = TransitionLedgerSpec::MAX_RESERVATIONS;
        let many: Vec<_> = (1..limit).map(|number| one(&format!("p{number:04}"), "op", 1)).collect();
        let mut ledger = with(&TransitionLedgerSpec::default(), many, &leader(1)).unwrap();
        let batch = vec![one("x", "x.1", 2), one("y", "y.1", 2), one("p0001", "op", 2), one("z", "z.1", 2)];
        let error = reserve(&mut ledger, batch, &leader(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the namespace's ledger is full (4000 reservations): 2 pods wait until operations end: y, z"
        );
        let LedgerError::LedgerFull { limit: said, dropped } = error else { panic!("{error}") };
        assert_eq!((said, dropped), (limit, vec!["y".to_owned(), "z".to_owned()]));
        assert_eq!(ledger.reservations.len(), limit);
        assert!(ledger.reservations.contains_key("x"));
    }

    #[test]
    fn a_deposed_leader_neither_reserves_nor_takes_over() {
        let theirs = with(&TransitionLedgerSpec::default(), vec![one("a", "a.1", 1)], &leader(5)).unwrap();
        let deposed = LedgerError::Deposed { epoch: 5, holder: "controller-5".into(), ours: 4 };
        assert_eq!(with(&theirs, vec![one("b", "b.1", 1)], &leader(4)), Err(deposed.clone()));
        assert_eq!(refuse_if_deposed(&theirs, 4), Err(deposed));
        assert_eq!(take_over(&theirs, 4, "controller-4"), None);
        assert_eq!(refuse_if_deposed(&theirs, 5), Ok(()));
    }

    #[test]
    fn a_new_leader_takes_over_what_is_not_empty_once() {
        let empty = TransitionLedgerSpec { leader: leader(1), ..TransitionLedgerSpec::default() };
        assert_eq!(take_over(&empty, 2, "controller-2"), None);
        let theirs = with(&empty, vec![one("a", "a.1", 1)], &leader(1)).unwrap();
        let ours = take_over(&theirs, 2, "controller-2").unwrap();
        assert_eq!((&ours.leader, &ours.reservations), (&leader(2), &theirs.reservations));
        assert_eq!(take_over(&ours, 2, "controller-2"), None);
    }
}
