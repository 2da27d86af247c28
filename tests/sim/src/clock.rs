//! Virtual time: microseconds since the beginning of a run, and how a skewed clock shows them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Microseconds of virtual time since the beginning of the run.
pub(crate) type Micros = i64;

/// One millisecond.
pub(crate) const MS: Micros = 1_000;
/// One second.
pub(crate) const SECOND: Micros = 1_000_000;
/// Later than any run.
pub(crate) const NEVER: Micros = Micros::MAX;
/// Wall-clock time at which every run begins, in seconds of the epoch: in the middle of nowhere, so that whole seconds do not
/// coincide with the run's.
const START: Micros = 1_795_305_600 * SECOND + 700 * MS;

/// What an exact clock shows at `at`.
pub(crate) fn stamp(at: Micros) -> Timestamp {
    Timestamp::from_microsecond(START + at).unwrap_or_default()
}

/// When an exact clock shows `time`, at the earliest: rounded up, so that a wake-up is never too early.
pub(crate) fn when(time: Timestamp) -> Micros {
    let begin = stamp(0);
    let Ok(passed) = time.checked_add(SignedDuration::from_nanos(999)) else { return NEVER };
    i64::try_from(passed.duration_since(begin).as_micros()).unwrap_or(NEVER)
}

/// As the real shells have it: the time since the beginning of the run.
pub(crate) fn passed(at: Micros) -> Duration {
    Duration::from_micros(at.unsigned_abs())
}

/// The reverse.
pub(crate) fn micros(passed: Duration) -> Micros {
    Micros::try_from(passed.as_micros()).unwrap_or(NEVER)
}

/// For people: seconds with milliseconds.
pub(crate) fn shown(at: Micros) -> String {
    format!("{:>9}.{:06}", at / SECOND, at % SECOND)
}
