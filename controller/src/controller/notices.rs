//! Which notes become Events: those that have been true for a moment. Between two operations a workload may look blocked.

use std::collections::BTreeMap;
use std::time::Duration;

use hitless_runtime::events::{Events, Note};
use tokio::time::Instant;

/// A note must have been true for so long.
const SETTLE: Duration = Duration::from_secs(2);

type Key = (String, &'static str);

#[derive(Default)]
pub(super) struct Notices {
    since: BTreeMap<Key, Instant>,
}

impl Notices {
    /// Publishes what has settled; says when the next one will have.
    pub(super) async fn publish(&mut self, events: &Events, notes: &[Note]) -> Option<Instant> {
        let now = Instant::now();
        let key = |note: &Note| (note.regarding.uid.clone().unwrap_or_default(), note.reason);
        let mut since = BTreeMap::new();
        for note in notes {
            let seen = self.since.get(&key(note)).copied().unwrap_or(now);
            since.insert(key(note), seen);
        }
        self.since = since;
        for note in notes.iter().filter(|note| self.since[&key(note)] + SETTLE <= now) {
            if let Err(error) = events.publish(note.clone()).await {
                tracing::debug!(%error, "an Event was not written");
            }
        }
        self.since.values().map(|seen| *seen + SETTLE).filter(|due| *due > now).min()
    }
}
