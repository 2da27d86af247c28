//! Pods whose last write failed: nothing is written to them for a while. `T` is a point in time.

use std::ops::Add;
use std::time::Duration;

use hitless_runtime::backoff::Pauses;
use hitless_runtime::write::WriteError;

/// First pause after a conflict; what was read anew is decided on at once. Every pause after another is twice as long.
const CONFLICT: Duration = Duration::from_millis(10);
/// First pause after a refusal by admission, whose copy of the ledger may be a little old.
const DENIED: Duration = Duration::from_millis(100);
/// First pause after an answer that is of no use.
const TRANSIENT: Duration = Duration::from_millis(200);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// By uid.
#[derive(Debug)]
pub struct PodPauses<T>(Pauses<String, T>);

impl<T: Copy + Ord + Add<Duration, Output = T>> Default for PodPauses<T> {
    fn default() -> Self {
        Self(Pauses::new(LONGEST))
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> PodPauses<T> {
    /// Whether it must still wait.
    #[must_use]
    pub fn is_paused(&self, uid: &str, now: T) -> bool {
        self.0.is_paused(uid, now)
    }

    /// Whether its last write failed, and was to be tried again not long ago.
    #[must_use]
    pub fn has_failed(&self, uid: &str) -> bool {
        self.0.contains(uid)
    }

    /// A write has failed.
    pub fn failed(&mut self, uid: &str, error: &WriteError, now: T) {
        let first = match error {
            WriteError::Conflict { .. } | WriteError::Gone { .. } => CONFLICT,
            WriteError::Denied { .. } | WriteError::Invalid { .. } => DENIED,
            WriteError::Transient { retry_after, .. } => retry_after.unwrap_or(TRANSIENT),
        };
        self.0.grow(uid.to_owned(), first, Duration::ZERO, now);
    }

    /// The pod could not be read.
    pub fn unread(&mut self, uid: &str, now: T) {
        self.0.grow(uid.to_owned(), TRANSIENT, Duration::ZERO, now);
    }

    /// The pod was read anew, and may be asked for again.
    pub fn read_anew(&mut self, uid: &str, now: T) {
        self.0.grow(uid.to_owned(), CONFLICT, Duration::ZERO, now);
    }

    /// A write has succeeded.
    pub fn succeeded(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// When the first of the paused writes is to be tried again.
    #[must_use]
    pub fn next(&self, now: T) -> Option<T> {
        self.0.next(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_waits_longer_than_a_conflict_and_each_pause_is_twice_as_long_as_the_last() {
        let mut pauses = PodPauses::default();
        let message = String::new;
        pauses.failed("a", &WriteError::Conflict { message: message() }, Duration::ZERO);
        assert_eq!(pauses.next(Duration::ZERO), Some(CONFLICT));
        pauses.failed("a", &WriteError::Conflict { message: message() }, Duration::ZERO);
        assert_eq!(pauses.next(Duration::ZERO), Some(CONFLICT * 2));
        pauses.failed("a", &WriteError::Denied { message: message() }, Duration::ZERO);
        assert_eq!(pauses.next(Duration::ZERO), Some(DENIED));
        let busy = WriteError::Transient { message: message(), retry_after: Some(Duration::from_mins(1)) };
        pauses.failed("a", &busy, Duration::ZERO);
        assert_eq!(pauses.next(Duration::ZERO), Some(LONGEST));
        assert!(pauses.is_paused("a", Duration::ZERO) && !pauses.is_paused("b", Duration::ZERO));
        assert!(pauses.has_failed("a") && !pauses.has_failed("b"));
        pauses.succeeded("a");
        assert!(!pauses.has_failed("a"));
        assert_eq!(pauses.next(Duration::ZERO), None);
    }
}
