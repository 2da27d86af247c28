//! Connections of which it can't be told whether a request is in flight.

use std::time::Duration;

/// A connection of which it can't be told whether it is idle counts as idle after a time without data: three times the longest
/// that a request of this pod was seen in flight, but at least so long ...
const AMBIGUOUS_UNUSED_LEAST: Duration = Duration::from_millis(40);
/// ... and at most so long.
const AMBIGUOUS_UNUSED_MOST: Duration = Duration::from_secs(1);

/// After how long without data a connection counts as idle of which nothing better is known. The kernel's ages are too coarse to
/// tell the order of a request and a response within 4 ms, and for a quick server that is every one.
pub(super) fn ambiguous_unused(longest_busy: Duration) -> Duration {
    longest_busy.saturating_mul(3).clamp(AMBIGUOUS_UNUSED_LEAST, AMBIGUOUS_UNUSED_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ambiguous_is_waited_for_three_times_as_long_as_a_request_took_within_bounds() {
        for (busy, unused) in [(0, 40), (10, 40), (20, 60), (200, 600), (5000, 1000)] {
            assert_eq!(ambiguous_unused(Duration::from_millis(busy)), Duration::from_millis(unused), "{busy} ms");
        }
    }
}
