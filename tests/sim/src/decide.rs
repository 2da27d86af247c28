//! The one place where the real controller core is called.

use hitless_controller::mirror::Mirror;
use hitless_controller::round::Round;
use hitless_controller::snapshot::Snapshot;
use jiff::Timestamp;

pub(crate) fn round(snapshot: &Snapshot, mirror: &mut Mirror, now: Timestamp) -> Round {
    hitless_controller::round::round(snapshot, mirror, now)
}
