//! Liveness as the main loop's heartbeat: a process that answers HTTP while its loop hangs is not alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When the main loop turned last. Clones share it.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    start: Instant,
    /// Milliseconds from `start` to the last beat.
    last: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Longest time between two rounds of a live loop. A loop must wake up by itself well within it.
    pub const LIMIT: Duration = Duration::from_secs(30);

    /// A heart that has beaten at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { start: now, last: Arc::default() }
    }

    /// The loop has turned.
    pub fn beat(&self, now: Instant) {
        let elapsed = u64::try_from(now.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(elapsed, Ordering::Relaxed);
    }

    /// Time since the last beat.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        now.saturating_duration_since(self.start).saturating_sub(last)
    }

    /// Whether the loop has turned within [`Self::LIMIT`].
    #[must_use]
    pub fn alive(&self, now: Instant) -> bool {
        self.age(now) <= Self::LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dies_without_beats_and_revives_with_one() {
        let start = Instant::now();
        let heartbeat = Heartbeat::new(start);
        let late = start + Duration::from_secs(31);
        assert!(heartbeat.alive(start + Duration::from_secs(30)));
        assert!(!heartbeat.alive(late));
        heartbeat.beat(late);
        assert!(heartbeat.alive(late));
        assert_eq!(heartbeat.age(late + Duration::from_secs(2)), Duration::from_secs(2));
    }
}
