//! Arithmetic on wall-clock times that come from the API and may therefore be anything.

use jiff::{SignedDuration, Timestamp};

/// Longest wait that a grant can ask for, in seconds: however it is configured, no pod is out of service for longer.
pub const LONGEST_SECONDS: u32 = 24 * 60 * 60;

/// `start` and `seconds`, at most [`LONGEST_SECONDS`], later.
#[must_use]
pub fn after_seconds(start: Timestamp, seconds: u32) -> Timestamp {
    after(start, SignedDuration::from_secs(i64::from(seconds.min(LONGEST_SECONDS))))
}

/// `start` and `duration` later, or the end of time.
#[must_use]
pub fn after(start: Timestamp, duration: SignedDuration) -> Timestamp {
    start.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// `time` as the API server keeps it in conditions: whole seconds, truncated.
#[must_use]
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_from_the_api_overflows_and_no_wait_is_endless() {
        assert_eq!(after_seconds(Timestamp::MAX, 5), Timestamp::MAX);
        assert_eq!(after_seconds(Timestamp::UNIX_EPOCH, u32::MAX).as_second(), i64::from(LONGEST_SECONDS));
        let late = Timestamp::from_microsecond(1_999_999).unwrap();
        assert_eq!(whole_seconds(late).as_microsecond(), 1_000_000);
    }
}
