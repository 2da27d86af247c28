//! Opens Services for Holds, and closes them after.

use hitless_api::names::annotations;
use hitless_api::{Grant, JsonPatch, TransitionLedgerSpec};
use jiff::Timestamp;
use kube::core::params::Patch;
use serde_json::Value;

use crate::mode::ServiceView;
use crate::snapshot::Version;

/// Opens a Service for the time of a Hold, or makes it as its owner wants it (docs/contract.md#services-of-a-held-pod).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWrite {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The version that was decided on.
    pub version: Version,
    /// Next value of `publishNotReadyAddresses`.
    pub open: bool,
    /// Next value of the annotation `hitless.dev/held-by`; `None`: it is there and goes.
    pub mark: Option<String>,
    /// Whether it has any annotation.
    pub has_annotations: bool,
    /// The operation it was opened for, and that has ended.
    pub ended: Option<EndedHold>,
}

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

impl ServiceWrite {
    /// For the operation with this id.
    #[must_use]
    pub fn open(service: &ServiceView, id: &str) -> Self {
        let before = service.open && service.held_by.is_none();
        Self { open: true, mark: Some(format!("{id},{before}")), ..Self::close(service) }
    }

    /// What was before, unless its owner has said something else meanwhile. Only closed ones are opened, and those that we have opened for another.
    #[must_use]
    pub fn close(service: &ServiceView) -> Self {
        Self {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            version: service.version.clone(),
            open: service.open && service.declared_open,
            mark: None,
            has_annotations: service.has_annotations,
            ended: None,
        }
    }

    /// Only if this operation is over.
    #[must_use]
    pub fn after(self, ended: EndedHold) -> Self {
        Self { ended: Some(ended), ..self }
    }

    /// The patch that carries it out.
    #[must_use]
    pub fn patch(&self) -> Patch<Value> {
        let annotations = ["metadata", "annotations"];
        let mark = ["metadata", "annotations", annotations::HELD_BY];
        let patch = JsonPatch::of(&self.version.uid)
            .test(&["metadata", "resourceVersion"], self.version.resource_version.as_str())
            .add(&["spec", "publishNotReadyAddresses"], self.open);
        let patch = if self.has_annotations { patch } else { patch.new_map(&annotations) };
        match &self.mark {
            Some(text) => patch.add(&mark, text.as_str()),
            None => patch.remove(&mark),
        }
        .build()
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
