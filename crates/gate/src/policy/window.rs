//! Times at which operations may begin.

use hitless_api::transition_budget::{Blackout, Day, Window};
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::{Allows, Denies};

/// Windows and blackouts, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Windows {
    windows: Vec<Recurring>,
    blackouts: Vec<Blackout>,
}

#[derive(Clone, Debug, PartialEq)]
struct Recurring {
    /// Empty: every day.
    days: Vec<Weekday>,
    start: Time,
    end: Time,
    zone: TimeZone,
}

impl Windows {
    /// Reads them; a time or a time zone that makes no sense is an error in words.
    pub(crate) fn parse(windows: &[Window], blackouts: &[Blackout]) -> Result<Self, String> {
        if let Some(blackout) = blackouts.iter().find(|blackout| blackout.end.0 <= blackout.start.0) {
            return Err(format!("a blackout ends at {}, which is not after its start; swap them", blackout.end.0));
        }
        let windows = windows.iter().map(Recurring::parse).collect::<Result<_, _>>()?;
        Ok(Self { windows, blackouts: blackouts.to_vec() })
    }

    /// Whether operations may begin now, and if not, from when on.
    pub(crate) fn ask(&self, now: Timestamp) -> Result<Allows, Denies> {
        let out = self.blackouts.iter().filter(|blackout| blackout.start.0 <= now && now < blackout.end.0);
        if let Some(blackout) = out.max_by_key(|blackout| blackout.end.0) {
            let reason = blackout.reason.clone().unwrap_or_default();
            return Err(Denies::Blackout { until: blackout.end.0, reason });
        }
        if self.windows.is_empty() || self.windows.iter().any(|window| window.is_open(now)) {
            return Ok(Allows::InWindow);
        }
        Err(Denies::OutsideWindow { opens: self.windows.iter().filter_map(|window| window.opens(now)).min() })
    }
}

impl Recurring {
    fn parse(window: &Window) -> Result<Self, String> {
        let name = window.time_zone.as_deref().unwrap_or("UTC");
        let zone = TimeZone::get(name).map_err(|_| {
            let shown: String = name.chars().take(64).collect();
            format!("the time zone {shown:?} is not known; use a name of the IANA database, e.g. Europe/Berlin")
        })?;
        let time = |field: &str, text: &str| {
            Time::strptime("%H:%M", text).map_err(|_| {
                let shown: String = text.chars().take(16).collect();
                format!("{field} of a window is {shown:?}; it must be a time of day, HH:MM")
            })
        };
        Ok(Self {
            days: window.days.iter().copied().map(weekday).collect(),
            start: time("start", &window.start)?,
            end: time("end", &window.end)?,
            zone,
        })
    }

    fn is_open(&self, now: Timestamp) -> bool {
        let today = now.to_zoned(self.zone.clone()).date();
        // One that began yesterday may still be open; a clock that is set forward at midnight may skip a day's start.
        (-1..=0).filter_map(|days| self.on(today, days)).any(|(start, end)| start <= now && now < end)
    }

    fn opens(&self, now: Timestamp) -> Option<Timestamp> {
        let today = now.to_zoned(self.zone.clone()).date();
        (-1..=8).filter_map(|days| self.on(today, days)).map(|(start, _)| start).filter(|start| *start > now).min()
    }

    /// The window that begins so many days after `today`, if there is one.
    fn on(&self, today: Date, days: i64) -> Option<(Timestamp, Timestamp)> {
        let first = today.checked_add(Span::new().days(days)).ok()?;
        if !self.days.is_empty() && !self.days.contains(&first.weekday()) {
            return None;
        }
        let last = if self.end > self.start { first } else { first.tomorrow().ok()? };
        // A time that a change of clocks skips is taken an hour later, one that comes twice the first time.
        let at = |date: Date, time: Time| self.zone.to_timestamp(date.to_datetime(time)).ok();
        Some((at(first, self.start)?, at(last, self.end)?))
    }
}

fn weekday(day: Day) -> Weekday {
    match day {
        Day::Mon => Weekday::Monday,
        Day::Tue => Weekday::Tuesday,
        Day::Wed => Weekday::Wednesday,
        Day::Thu => Weekday::Thursday,
        Day::Fri => Weekday::Friday,
        Day::Sat => Weekday::Saturday,
        Day::Sun => Weekday::Sunday,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(windows: serde_json::Value, blackouts: serde_json::Value) -> Result<Windows, String> {
        let windows: Vec<Window> = serde_json::from_value(windows).unwrap();
        let blackouts: Vec<Blackout> = serde_json::from_value(blackouts).unwrap();
        Windows::parse(&windows, &blackouts)
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn opens(text: &str) -> Result<Allows, Denies> {
        Err(Denies::OutsideWindow { opens: Some(at(text)) })
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        let night =
            serde_json::json!([{"days": ["Fri"], "start": "22:00", "end": "04:00", "timeZone": "Europe/Berlin"}]);
        let night = windows(night, serde_json::json!([])).unwrap();
        // 2026-11-20 is a Friday; Berlin is one hour ahead of UTC.
        assert_eq!(night.ask(at("2026-11-20T20:59:59Z")), opens("2026-11-20T21:00:00Z"));
        assert_eq!(night.ask(at("2026-11-20T21:00:00Z")), Ok(Allows::InWindow));
        assert_eq!(night.ask(at("2026-11-21T02:59:59Z")), Ok(Allows::InWindow));
        assert_eq!(night.ask(at("2026-11-21T03:00:00Z")), opens("2026-11-27T21:00:00Z"));
    }

    #[test]
    fn clocks_that_are_set_forward_and_back() {
        let early = serde_json::json!([{"start": "02:30", "end": "03:30", "timeZone": "Europe/Berlin"}]);
        let early = windows(early, serde_json::json!([])).unwrap();
        // 2026-03-29: 02:00 becomes 03:00, so 02:30 is not there and the window is 03:30 to 03:30: it does not open.
        assert_eq!(early.ask(at("2026-03-29T01:30:00Z")), opens("2026-03-30T00:30:00Z"));
        // 2026-10-25: 03:00 becomes 02:00; the first 02:30 counts, so it is open for two hours.
        assert_eq!(early.ask(at("2026-10-25T00:30:00Z")), Ok(Allows::InWindow));
        assert_eq!(early.ask(at("2026-10-25T02:29:00Z")), Ok(Allows::InWindow));
        assert_eq!(early.ask(at("2026-10-25T02:30:00Z")), opens("2026-10-26T01:30:00Z"));
    }

    #[test]
    fn equal_times_are_a_whole_day_and_several_windows_add_up() {
        let both = serde_json::json!([{"days": ["Sun"], "start": "00:00", "end": "00:00"}, {"start": "12:00", "end": "13:00"}]);
        let both = windows(both, serde_json::json!([])).unwrap();
        assert_eq!(both.ask(at("2026-11-22T05:00:00Z")), Ok(Allows::InWindow));
        assert_eq!(both.ask(at("2026-11-23T12:30:00Z")), Ok(Allows::InWindow));
        assert_eq!(both.ask(at("2026-11-23T13:00:00Z")), opens("2026-11-24T12:00:00Z"));
    }

    #[test]
    fn a_blackout_wins_over_a_window() {
        let frozen = serde_json::json!([{"start": "2026-12-24T00:00:00.000000Z", "end": "2026-12-27T00:00:00.000000Z", "reason": "holidays"}]);
        let frozen = windows(serde_json::json!([]), frozen).unwrap();
        assert_eq!(frozen.ask(at("2026-12-23T23:59:59Z")), Ok(Allows::InWindow));
        let until = at("2026-12-27T00:00:00Z");
        assert_eq!(frozen.ask(at("2026-12-25T00:00:00Z")), Err(Denies::Blackout { until, reason: "holidays".into() }));
        assert_eq!(frozen.ask(until), Ok(Allows::InWindow));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let none = serde_json::json!([]);
        for (window, named) in [
            (
                serde_json::json!({"start": "22:00", "end": "04:00", "timeZone": "Mars/Olympus"}),
                "\"Mars/Olympus\" is not known",
            ),
            (serde_json::json!({"start": "25:00", "end": "04:00"}), "start of a window is \"25:00\""),
            (serde_json::json!({"start": "22:00", "end": "soon"}), "end of a window is \"soon\""),
        ] {
            assert!(windows(serde_json::json!([window]), none.clone()).unwrap_err().contains(named));
        }
        let turned =
            serde_json::json!([{"start": "2026-12-27T00:00:00.000000Z", "end": "2026-12-24T00:00:00.000000Z"}]);
        assert!(windows(none, turned).unwrap_err().contains("swap them"));
    }
}
