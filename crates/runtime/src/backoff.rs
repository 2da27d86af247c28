//! How long to wait after a failure. There is no clock in here: the caller passes the time in.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Add;
use std::time::Duration;

/// Twice as long after each failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Never longer.
    pub longest: Duration,
}

impl Backoff {
    /// `first`, twice that, and so on up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The wait after so many failures in a row; none after none.
    #[must_use]
    pub fn delay(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        self.first.saturating_mul(2_u32.saturating_pow(doublings)).min(self.longest)
    }
}

/// The delay, shortened by a random part of up to a third: a thousand agents shall not ask an API server that has just
/// started in the same moment.
#[must_use]
pub fn shortened(delay: Duration) -> Duration {
    // Keys of the standard hasher are random, and free of a dependency.
    let part = u32::try_from(RandomState::new().hash_one(delay) % 1000).unwrap_or_default();
    delay.saturating_sub(delay / 3000 * part)
}

/// What must wait because it has failed, by key. `T` is a point in time.
#[derive(Clone, Debug)]
pub struct Pauses<K, T> {
    longest: Duration,
    entries: BTreeMap<K, Pause<T>>,
}

#[derive(Clone, Copy, Debug)]
struct Pause<T> {
    until: T,
    /// The next one is twice as long.
    length: Duration,
}

impl<K: Ord, T: Copy + Ord + Add<Duration, Output = T>> Pauses<K, T> {
    /// Nothing waits yet; no pause is longer than `longest`.
    #[must_use]
    pub const fn new(longest: Duration) -> Self {
        Self { longest, entries: BTreeMap::new() }
    }

    /// Whether nothing has failed lately.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it must still wait.
    #[must_use]
    pub fn is_paused<Q: Ord + ?Sized>(&self, key: &Q, now: T) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).is_some_and(|pause| pause.until > now)
    }

    /// Whether it has failed, and was not forgotten since: it waits, or is about to be tried again.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    /// It has failed: it waits for `first`, or twice as long as the last time. Not shorter than `at_least`.
    pub fn grow(&mut self, key: K, first: Duration, at_least: Duration, now: T) {
        self.forget_old(now);
        let last = self.entries.get(&key).map_or(Duration::ZERO, |pause| pause.length);
        let length = first.max(last.saturating_mul(2)).min(self.longest);
        self.entries.insert(key, Pause { until: now + length.max(at_least), length });
    }

    /// It waits for this long; the next pause that grows does not depend on it.
    pub fn once(&mut self, key: K, length: Duration, now: T) {
        let until = now + length;
        self.entries
            .entry(key)
            .and_modify(|pause| pause.until = until)
            .or_insert(Pause { until, length: Duration::ZERO });
    }

    /// It has succeeded, or is not wanted any more.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key);
    }

    /// When the first of those that wait may be tried again.
    #[must_use]
    pub fn next(&self, now: T) -> Option<T> {
        self.entries.values().map(|pause| pause.until).filter(|until| *until > now).min()
    }

    /// What was not tried again for a long time is not wanted any more.
    pub fn forget_old(&mut self, now: T) {
        let longest = self.longest;
        self.entries.retain(|_, pause| pause.until + longest > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_delay_doubles_up_to_the_longest() {
        let backoff = Backoff::new(ms(200), ms(10_000));
        let delays: Vec<_> = [0, 1, 2, 3, 6, 7, u32::MAX].map(|failures| backoff.delay(failures)).into();
        assert_eq!(delays, [0, 200, 400, 800, 6400, 10_000, 10_000].map(ms));
    }

    #[test]
    fn a_shortened_delay_keeps_two_thirds() {
        for _ in 0..100 {
            let delay = shortened(ms(900));
            assert!(delay <= ms(900) && delay >= ms(600), "{delay:?}");
        }
    }

    #[test]
    fn each_key_waits_for_itself_and_longer_each_time() {
        let mut pauses = Pauses::new(ms(1000));
        pauses.grow("a", ms(300), ms(0), ms(0));
        assert!(pauses.is_paused("a", ms(299)) && !pauses.is_paused("a", ms(300)) && !pauses.is_paused("b", ms(0)));
        pauses.grow("a", ms(300), ms(0), ms(300));
        assert_eq!(pauses.next(ms(300)), Some(ms(900)));
        pauses.grow("a", ms(300), ms(0), ms(900));
        assert_eq!(pauses.next(ms(900)), Some(ms(1900)), "the longest");
        pauses.grow("b", ms(300), ms(5000), ms(900));
        assert!(pauses.is_paused("b", ms(5899)), "the server has asked for it");
        pauses.remove("a");
        pauses.grow("a", ms(10), ms(0), ms(1900));
        assert_eq!(pauses.next(ms(1900)), Some(ms(1910)), "a success starts it anew");
    }

    #[test]
    fn a_single_pause_does_not_grow_and_old_ones_are_forgotten() {
        let mut pauses = Pauses::new(ms(1000));
        pauses.once("a", ms(100), ms(0));
        pauses.once("a", ms(100), ms(100));
        assert_eq!(pauses.next(ms(100)), Some(ms(200)));
        pauses.grow("a", ms(300), ms(0), ms(200));
        assert_eq!(pauses.next(ms(200)), Some(ms(500)));
        pauses.once("a", ms(100), ms(500));
        pauses.grow("a", ms(300), ms(0), ms(600));
        assert_eq!(pauses.next(ms(600)), Some(ms(1200)), "it goes on from the last one that grew");
        pauses.forget_old(ms(2300));
        assert!(pauses.is_empty());
    }
}
