//! The only source of randomness of a run.

use crate::clock::Micros;

/// A seeded generator; the same seed gives the same run.
pub(crate) struct Chance(fastrand::Rng);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// True `rate` times in 10,000.
    pub(crate) fn happens(&mut self, rate: u32) -> bool {
        rate > 0 && self.0.u32(0..10_000) < rate
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.i64(low..=high)
    }

    /// A duration from `low` to `high`; short ones are likelier.
    pub(crate) fn delay(&mut self, low: Micros, high: Micros) -> Micros {
        let range = (high - low).max(0);
        let part = self.0.i64(0..=1000);
        low + range * part / 1000 * part / 1000
    }

    /// An index below `count`, which must not be 0.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.0.usize(0..count.max(1))
    }

    /// One of several values.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}
