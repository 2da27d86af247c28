//! Events for people, each written once: a controller that decides twenty times a second must not say so twenty times.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use hitless_api::event::{EventNote, Severity};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::write::{WriteError, Writes};

/// Most bytes in a note (validation of events.k8s.io/v1).
const LONGEST_NOTE: usize = 1024;
/// An Event that is still true is written again after this time; Events live for an hour.
const REPEAT_AFTER: Duration = Duration::from_mins(10);

/// The last text, and when it was written, by uid of the object and reason.
type Published = HashMap<(String, &'static str), (String, Instant)>;

/// Writes Events. kube's own recorder is not used because it shows the first text for as long as the reason stays.
pub struct Events {
    client: Client,
    component: &'static str,
    instance: String,
    writes: Writes,
    published: Mutex<Published>,
}

impl Events {
    /// Events of `component` (e.g. `hitless-controller`), process `instance`.
    #[must_use]
    pub fn new(client: Client, component: &'static str, instance: String, writes: Writes) -> Self {
        Self { client, component, instance, writes, published: Mutex::default() }
    }

    /// Writes `note`, unless the last one with its object and reason says the same and is younger than ten minutes.
    /// Says whether it was written.
    pub async fn publish(&self, note: EventNote) -> Result<bool, WriteError> {
        let now = Instant::now();
        let key = (note.regarding.uid.clone().unwrap_or_default(), note.reason);
        if self.is_repeat(&key, &note.text, now) {
            return Ok(false);
        }
        let event = event(&note, self.component, &self.instance, Timestamp::now());
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        self.writes.send("events", api.create(&PostParams::default(), &event)).await?;
        self.published(|published| published.insert(key, (note.text, now)));
        Ok(true)
    }

    fn is_repeat(&self, key: &(String, &'static str), text: &str, now: Instant) -> bool {
        self.published(|published| {
            published.retain(|_, (_, when)| now.saturating_duration_since(*when) < REPEAT_AFTER);
            published.get(key).is_some_and(|(last, _)| last == text)
        })
    }

    fn published<R>(&self, apply: impl FnOnce(&mut Published) -> R) -> R {
        apply(&mut self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn event(note: &EventNote, component: &str, instance: &str, now: Timestamp) -> Event {
    let object = note.regarding.name.as_deref().unwrap_or(component);
    // Events about cluster-scoped objects live in namespace default, as Kubernetes does it.
    let namespace = note.regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let severity = match note.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{object}.{:x}", now.as_nanosecond())),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(component.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        action: Some(note.action.to_owned()),
        reason: Some(note.reason.to_owned()),
        regarding: Some(note.regarding.clone()),
        note: Some(note.text[..note.text.floor_char_boundary(LONGEST_NOTE)].to_owned()),
        type_: Some(severity.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn note(text: &str) -> EventNote {
        let regarding = ObjectReference {
            kind: Some("Deployment".into()),
            name: Some("web".into()),
            namespace: Some("team".into()),
            uid: Some("u".into()),
            ..ObjectReference::default()
        };
        EventNote {
            regarding,
            severity: Severity::Warning,
            reason: "RolloutBlocked",
            action: "Update",
            text: text.into(),
        }
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let event = event(&note(&"ä".repeat(1000)), "hitless-controller", "pod", Timestamp::UNIX_EPOCH);
        assert_eq!(event.note.map(|text| text.len()), Some(1024));
        assert_eq!(event.metadata.namespace.as_deref(), Some("team"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_text_is_a_repeat_for_ten_minutes_and_another_text_is_not() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let events = Events::new(client, "c", "i".into(), Writes::default());
        let (key, now) = (("u".to_owned(), "RolloutBlocked"), Instant::now());
        events.published(|published| published.insert(key.clone(), ("rule a".to_owned(), now)));
        assert!(events.is_repeat(&key, "rule a", now));
        assert!(!events.is_repeat(&key, "rule b", now));
        assert!(!events.is_repeat(&("other".to_owned(), "RolloutBlocked"), "rule a", now));
        assert!(!events.is_repeat(&key, "rule a", now + REPEAT_AFTER));
    }

    #[tokio::test]
    async fn an_event_that_could_not_be_written_is_tried_again() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let events = Events::new(client, "c", "i".into(), Writes::default());
        assert!(events.publish(note("x")).await.is_err());
        assert!(!events.is_repeat(&("u".to_owned(), "RolloutBlocked"), "x", Instant::now()));
    }
}
