//! Which notes become Events: those that have been true for a moment. Between two operations a workload may look blocked.

use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

use hitless_runtime::events::EventNote;

/// A note must have been true for so long.
const SETTLE: Duration = Duration::from_secs(2);

/// uid of the object, and reason.
type Key = (String, &'static str);

/// Since when each note has been true. `T` is a point in time.
pub(super) struct EventDebounce<T> {
    since: BTreeMap<Key, T>,
}

impl<T> Default for EventDebounce<T> {
    fn default() -> Self {
        Self { since: BTreeMap::new() }
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> EventDebounce<T> {
    /// The notes that have been true for long enough, and when the next one will have been.
    pub(super) fn due<'a>(&mut self, notes: &'a [EventNote], now: T) -> (Vec<&'a EventNote>, Option<T>) {
        let key = |note: &EventNote| (note.regarding.uid.clone().unwrap_or_default(), note.reason);
        let mut since = BTreeMap::new();
        for note in notes {
            let seen = self.since.get(&key(note)).copied().unwrap_or(now);
            since.insert(key(note), seen);
        }
        self.since = since;
        let due = notes.iter().filter(|note| self.since[&key(note)] + SETTLE <= now).collect();
        let next = self.since.values().map(|seen| *seen + SETTLE).filter(|due| *due > now).min();
        (due, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_runtime::events::Severity;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn note(uid: &str) -> EventNote {
        let regarding = ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() };
        EventNote {
            regarding,
            severity: Severity::Warning,
            reason: "RolloutBlocked",
            action: "Update",
            text: uid.into(),
        }
    }

    #[test]
    fn a_note_is_an_event_after_it_has_been_true_for_two_seconds_in_a_row() {
        let (mut debounce, second) = (EventDebounce::default(), Duration::from_secs);
        let both = [note("a"), note("b")];
        let (due, next) = debounce.due(&both[..1], second(0));
        assert!(due.is_empty() && next == Some(second(2)));
        let (due, next) = debounce.due(&both, second(2));
        assert_eq!((due, next), (vec![&both[0]], Some(second(4))));
        let (due, next) = debounce.due(&both[1..], second(3));
        assert!(due.is_empty() && next == Some(second(4)));
        let (due, next) = debounce.due(&both, second(4));
        assert_eq!((due, next), (vec![&both[1]], Some(second(6))), "it was not true meanwhile");
    }
}
