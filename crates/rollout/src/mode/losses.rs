//! What is remembered of connections that were lost when a pod of a workload became not Ready (docs/contract.md#lost-connections).

use hitless_api::{Transition, TransitionResult};
use jiff::{SignedDuration, Timestamp, Unit};
use serde::{Deserialize, Serialize};

/// Fewer prove nothing: clients come and go.
const FEWEST: u32 = 3;
/// And it has to be one of so many that were open, or more.
const SHARE: u32 = 2;
/// It counts for so long: data planes are mended, and a pod that is held shows nothing of it.
const LASTS: SignedDuration = SignedDuration::from_hours(30 * 24);
/// What is not later by so much than what is remembered is no news.
const NEWS: SignedDuration = SignedDuration::from_hours(24);

/// Connections of one pod that were lost when it became not Ready: the value of the annotation `hitless.dev/losses`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionLosses {
    /// The pod's name.
    pub pod: String,
    /// So many were lost.
    pub lost: u32,
    /// Of so many that were open.
    pub open: u32,
    /// When the operation had ended that showed it.
    pub at: Timestamp,
}

impl ConnectionLosses {
    /// Reads the annotation; what is not understood, or is too old, counts as nothing known.
    #[must_use]
    pub fn parse(annotation: Option<&str>, now: Timestamp) -> Option<Self> {
        let known: Self = serde_json::from_str(annotation?).ok()?;
        known.counts(now).then_some(known)
    }

    /// What the report of an operation of this pod shows, if that is evidence.
    #[must_use]
    pub fn reported(pod: &str, transition: &Transition, now: Timestamp) -> Option<Self> {
        let report = &transition.result.as_ref()?.report;
        let number = |name| report.get(name).and_then(|number| u32::try_from(*number).ok());
        let open = number(TransitionResult::OPEN_WHEN_NOT_READY)?;
        let lost = [TransitionResult::RESET_WHEN_NOT_READY, TransitionResult::UNANSWERED_WHEN_NOT_READY];
        let lost = lost.into_iter().filter_map(number).fold(0, u32::saturating_add).min(open);
        let at = transition.since.0.min(now);
        let at = at.round(Unit::Second).unwrap_or(at);
        let is_evidence = lost >= FEWEST && lost.saturating_mul(SHARE) >= open;
        let shown = Self { pod: pod.to_owned(), lost, open, at };
        (is_evidence && shown.counts(now)).then_some(shown)
    }

    fn counts(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < LASTS
    }

    /// Whether it is worth a write where that is remembered.
    #[must_use]
    pub fn is_news(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| self.at.duration_since(known.at) >= NEWS)
    }

    /// The annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { pod, lost, open, at: _ } = self;
        format!(
            "{lost} of {open} connections of pod {pod} were cut off when it became not Ready: a data plane or load balancer does that"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn now() -> Timestamp {
        at("2026-01-31T00:00:00Z")
    }

    /// Of an operation that had ended then.
    fn report_of(ended: &str, numbers: &serde_json::Value) -> Option<ConnectionLosses> {
        let transition = json!({"id": "uid.op", "granted": "2026-01-01T00:00:00.000000Z", "phase": "Returning", "since": ended,
            "result": {"outcome": "Done", "reason": "Verified", "report": numbers}});
        ConnectionLosses::reported("web-1", &serde_json::from_value(transition).unwrap(), now())
    }

    fn evidence(open: i64, reset: i64, unanswered: i64) -> Option<u32> {
        let numbers =
            json!({"openWhenNotReady": open, "resetWhenNotReady": reset, "unansweredWhenNotReady": unanswered});
        report_of("2026-01-30T12:00:00.400000Z", &numbers).map(|losses| losses.lost)
    }

    #[test]
    fn several_connections_and_half_of_all_are_evidence() {
        assert_eq!((evidence(14, 12, 0), evidence(6, 3, 0), evidence(6, 1, 2)), (Some(12), Some(3), Some(3)));
        assert_eq!((evidence(2, 2, 0), evidence(7, 3, 0), evidence(100, 0, 49)), (None, None, None));
        assert_eq!(evidence(4, 900, 900), Some(4), "no more than there were");
        assert_eq!((evidence(-1, 5, 0), evidence(5, -5, 0), evidence(0, i64::MAX, 0)), (None, None, None), "nonsense");
        let of_old = json!({"connections": 9, "destroyed": 9});
        assert_eq!(report_of("2026-01-30T12:00:00.000000Z", &of_old), None, "an agent that does not look");
    }

    #[test]
    fn it_is_forgotten_after_thirty_days() {
        let numbers = json!({"openWhenNotReady": 4, "resetWhenNotReady": 4});
        let shown = |ended| report_of(ended, &numbers);
        assert_eq!(shown("2026-01-01T00:00:00.000000Z"), None, "a report that nobody has cleared away");
        let fresh = shown("2026-01-30T12:00:00.400000Z").unwrap();
        assert_eq!(fresh.text(), r#"{"pod":"web-1","lost":4,"open":4,"at":"2026-01-30T12:00:00Z"}"#);
        assert_eq!(ConnectionLosses::parse(Some(&fresh.text()), now()), Some(fresh.clone()));
        assert_eq!(ConnectionLosses::parse(Some(&fresh.text()), at("2026-03-01T12:00:00Z")), None);
        assert_eq!(ConnectionLosses::parse(Some("nonsense"), now()), None);
        assert_eq!(shown("2027-01-01T00:00:00.000000Z").unwrap().at, now(), "an agent whose clock is wrong, or lies");
    }

    #[test]
    fn the_same_once_more_is_no_news() {
        let shown = |ended| {
            let numbers = json!({"openWhenNotReady": 4, "resetWhenNotReady": 4});
            report_of(ended, &numbers).unwrap()
        };
        let (known, soon, later) =
            (shown("2026-01-20T12:00:00.0Z"), shown("2026-01-21T11:00:00.0Z"), shown("2026-01-21T12:00:00.0Z"));
        assert!(soon.is_news(None) && !known.is_news(Some(&known)));
        assert!(!soon.is_news(Some(&known)) && later.is_news(Some(&known)));
    }
}
