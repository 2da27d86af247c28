//! The one place where the real controller core is called.

use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::Snapshot;
use jiff::Timestamp;

pub(crate) fn round(snapshot: &Snapshot, mirror: &mut GateCache, now: Timestamp) -> Round {
    hitless_rollout::round::round(snapshot, mirror, now)
}
