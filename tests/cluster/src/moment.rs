//! Points in time as people type them.

use jiff::{SignedDuration, Timestamp};

use crate::{Error, Result};

/// Reads `60s`, `5m`, `1h 30m` (so long before `now`) or an RFC 3339 time such as `2026-11-21T17:00:00Z`.
pub fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let invalid = || {
        let message =
            format!("{text:?} is no time: use a duration before now such as 60s or 5m, or 2026-11-21T17:00:00Z");
        Error::Invalid(message)
    };
    let duration: SignedDuration = text.parse().map_err(|_| invalid())?;
    if duration.is_negative() {
        return Err(invalid());
    }
    now.checked_sub(duration).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_count_back_from_now_and_times_are_taken_as_they_are() {
        let now: Timestamp = "2026-11-21T17:00:00Z".parse().unwrap();
        let ago = |seconds| now - SignedDuration::from_secs(seconds);
        assert_eq!(parse_since("60s", now).unwrap(), ago(60));
        assert_eq!(parse_since("5m", now).unwrap(), ago(300));
        assert_eq!(parse_since("1h 30m", now).unwrap(), ago(5400));
        assert_eq!(parse_since("2026-11-21T18:00:00+01:00", now).unwrap(), now);
    }

    #[test]
    fn nonsense_and_the_future_are_refused() {
        let now: Timestamp = "2026-11-21T17:00:00Z".parse().unwrap();
        for bad in ["", "yesterday", "-5s", "60", "99999999999h"] {
            assert!(parse_since(bad, now).is_err(), "{bad:?}");
        }
    }
}
