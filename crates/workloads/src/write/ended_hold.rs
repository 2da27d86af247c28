//! What has to be over before a Service is closed again.

use hitless_api::{Grant, TransitionLedgerSpec};
use jiff::Timestamp;

/// An operation for which a Service stays open no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedHold {
    /// Its id.
    pub id: String,
    /// When it was reserved, if it still is.
    pub reserved_since: Option<Timestamp>,
    /// The uid of its pod, where an EndpointSlice of the Service has to call the pod ready first.
    pub serving: Option<String>,
}

impl EndedHold {
    /// Whether the ledger as it is now says the same. An operation is reserved before a Service is opened for it, so whoever has seen the
    /// Service open finds the reservation in a ledger that is read after that. A leader that was succeeded may see the Service that its
    /// successor has opened, and not yet the reservation.
    #[must_use]
    pub fn is_over(&self, ledger: Option<&TransitionLedgerSpec>) -> bool {
        let reservation =
            Grant::pod_uid_of(&self.id).zip(ledger).and_then(|(uid, ledger)| ledger.reservations.get(uid));
        reservation
            .filter(|reservation| reservation.id == self.id)
            .is_none_or(|reservation| Some(reservation.since.0) == self.reserved_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::{MicroTime, Reservation};
    use serde_json::json;

    fn ledger(id: &str, since: Timestamp) -> TransitionLedgerSpec {
        let reservation: Reservation = serde_json::from_value(json!({
            "id": id, "pod": "web", "node": "n1", "since": MicroTime(since), "images": {}
        }))
        .unwrap();
        TransitionLedgerSpec {
            reservations: [("uid-1".to_owned(), reservation)].into(),
            ..TransitionLedgerSpec::default()
        }
    }

    #[test]
    fn a_service_is_not_closed_for_an_operation_that_has_begun_anew_unseen() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        for (known, now, is_over, why) in [
            (None, None, true, "it has no reservation"),
            (Some(first), None, true, "its reservation is free by now"),
            (Some(first), Some(ledger("uid-1.a", first)), true, "its reservation is the one that is known"),
            (Some(first), Some(ledger("uid-1.a", second)), false, "it has another reservation"),
            (None, Some(ledger("uid-1.a", first)), false, "it has a reservation that was not seen"),
            (None, Some(ledger("uid-1.b", first)), true, "the reservation is another operation's"),
        ] {
            let ended = EndedHold { id: "uid-1.a".to_owned(), reserved_since: known, serving: None };
            assert_eq!(ended.is_over(now.as_ref()), is_over, "{why}");
        }
    }
}
