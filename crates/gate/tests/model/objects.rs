//! Objects in the API server. Shared by the model checks of the ledgers.

use hitless_api::ledger::LedgerLeader;
use hitless_api::{MicroTime, Reservation};
use jiff::Timestamp;

/// A reservation's `since`, which its grant carries as `granted`: all grants of one operation have the same id. Only equal and
/// different matter, so the numbers are kept small.
pub(crate) type Attempt = u8;

/// An object as a leader last saw it, and whether that is still the current one: what a resourceVersion tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct View<T> {
    pub(crate) seen: T,
    pub(crate) current: bool,
}

pub(crate) fn uid(pod: usize) -> String {
    format!("uid-{pod}")
}

pub(crate) fn leader(epoch: i64) -> LedgerLeader {
    LedgerLeader { epoch, holder: format!("controller-{epoch}") }
}

pub(crate) fn reservation(uid: &str, since: Attempt, while_unavailable: bool) -> Reservation {
    Reservation {
        id: format!("{uid}.op"),
        pod: uid.into(),
        node: String::new(),
        owner: String::new(),
        rules: Vec::new(),
        since: MicroTime(Timestamp::from_second(since.into()).unwrap()),
        images: [].into(),
        from_images: [].into(),
        removal: false,
        while_unavailable,
        labels: [].into(),
        from_labels: [].into(),
        annotations: [].into(),
        from_annotations: [].into(),
    }
}
