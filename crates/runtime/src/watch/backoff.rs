//! Delays between attempts to watch.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use kube::runtime::utils;

/// 0.2 s, 0.4 s, … 10 s, each shortened by a random part of up to a third. The first retry comes soon because it is usually
/// an API server that has just restarted; the random part keeps a thousand agents from asking it in the same moment.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    random: RandomState,
}

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST, random: RandomState::new() }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next;
        self.next = (delay * 2).min(LONGEST);
        let mut hasher = self.random.build_hasher();
        hasher.write_u128(delay.as_nanos());
        let part = u32::try_from(hasher.finish() % 1000).unwrap_or_default();
        Some(delay.saturating_sub(delay * part / 3000))
    }
}

impl utils::Backoff for Backoff {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::utils::Backoff as _;

    #[test]
    fn grows_to_the_longest_and_starts_again_after_a_success() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = backoff.by_ref().take(8).collect();
        assert!(delays[0] <= FIRST && delays[0] * 3 >= FIRST * 2, "{delays:?}");
        assert!(delays[7] <= LONGEST && delays[7] * 3 >= LONGEST * 2, "{delays:?}");
        backoff.reset();
        assert!(backoff.next().is_some_and(|delay| delay <= FIRST));
    }
}
