//! Events for people, each written once: a controller that decides twenty times a second must not say so twenty times. They are written
//! by a task of their own, so that an API server that is slow with Events, or refuses them, keeps nobody from deciding.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use hitless_api::event::{EventNote, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::write::{WriteError, Writes};

/// Most bytes in a note (validation of Events with `eventTime`).
const LONGEST_NOTE: usize = 1024;
/// An Event that is still true is written again after this time; Events live for an hour.
const REPEAT_AFTER: Duration = Duration::from_mins(10);
/// One that could not be written is tried again after this time, if it is still true: a namespace that is being deleted takes none.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Notes that wait to be written. More are left out; what is still true is said again.
const QUEUE: usize = 256;
/// At the end what waits is written for so long.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// The last text, and until when it is not said again, by uid of the object and reason.
type Said = HashMap<Key, (String, Instant)>;
type Key = (String, &'static str);

/// Takes notes. kube's own recorder is not used because it shows the first text for as long as the reason stays.
pub struct Events {
    queue: Sender<EventNote>,
    said: Arc<Mutex<Said>>,
}

/// Writes what [`Events`] has taken.
pub struct EventWriter {
    queue: Receiver<EventNote>,
    said: Arc<Mutex<Said>>,
    client: Client,
    component: &'static str,
    instance: String,
    writes: Writes,
}

/// Events of `component` (e.g. `hitless-controller`), process `instance`.
#[must_use]
pub fn events(client: Client, component: &'static str, instance: String, writes: Writes) -> (Events, EventWriter) {
    let (sender, queue) = channel(QUEUE);
    let said = Arc::<Mutex<Said>>::default();
    let events = Events { queue: sender, said: Arc::clone(&said) };
    (events, EventWriter { queue, said, client, component, instance, writes })
}

impl Events {
    /// Has `note` written, unless the last one with its object and reason says the same and is younger than ten minutes, or could not
    /// be written a moment ago. Never waits.
    pub fn say(&self, note: EventNote) {
        let (now, key) = (Instant::now(), key(&note));
        if !apply(&self.said, |said| is_new(said, &key, &note.text, now)) {
            return;
        }
        let text = note.text.clone();
        if self.queue.try_send(note).is_ok() {
            apply(&self.said, |said| said.insert(key, (text, now + REPEAT_AFTER)));
        }
    }
}

impl EventWriter {
    /// Writes until `token` is cancelled, and then what still waits, for a moment.
    pub async fn run(mut self, token: CancellationToken) -> Result<(), Infallible> {
        loop {
            tokio::select! {
                () = token.cancelled() => break,
                note = self.queue.recv() => match note {
                    Some(note) => self.write(note).await,
                    None => return Ok(()),
                }
            }
        }
        let rest = async {
            while let Some(note) = self.queue.recv().await {
                self.write(note).await;
            }
        };
        if timeout(LAST_WRITES, rest).await.is_err() {
            tracing::debug!("Events that still waited were not written");
        }
        Ok(())
    }

    async fn write(&self, note: EventNote) {
        if let Err(error) = self.send(&note).await {
            tracing::debug!(%error, reason = note.reason, "an Event was not written");
            let retry = Instant::now() + RETRY_AFTER;
            apply(&self.said, |said| said.insert(key(&note), (note.text, retry)));
        }
    }

    async fn send(&self, note: &EventNote) -> Result<(), WriteError> {
        let event = event(note, self.component, &self.instance, Timestamp::now());
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        self.writes.send("events", api.create(&PostParams::default(), &event)).await.map(drop)
    }
}

fn key(note: &EventNote) -> Key {
    (note.regarding.uid.clone().unwrap_or_default(), note.reason)
}

/// Whether this is not what was said last, or long enough ago.
fn is_new(said: &mut Said, key: &Key, text: &str, now: Instant) -> bool {
    said.retain(|_, (_, until)| now < *until);
    said.get(key).is_none_or(|(last, _)| last != text)
}

fn apply<R>(said: &Mutex<Said>, change: impl FnOnce(&mut Said) -> R) -> R {
    change(&mut said.lock().unwrap_or_else(PoisonError::into_inner))
}

/// As an object of v1, with all of its times: events.k8s.io/v1, which has the same objects, refuses those by which
/// `kubectl get events --sort-by=.lastTimestamp` sorts.
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
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        action: Some(note.action.to_owned()),
        reason: Some(note.reason.to_owned()),
        involved_object: note.regarding.clone(),
        message: Some(note.text[..note.text.floor_char_boundary(LONGEST_NOTE)].to_owned()),
        type_: Some(severity.to_owned()),
        related: None,
        series: None,
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
        assert_eq!(event.message.map(|text| text.len()), Some(1024));
        assert_eq!(event.metadata.namespace.as_deref(), Some("team"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
    }

    #[test]
    fn an_event_has_all_the_times_by_which_events_are_sorted() {
        let now: Timestamp = "2026-01-01T00:00:30.123456Z".parse().unwrap();
        let event = serde_json::to_value(event(&note("x"), "hitless-controller", "pod", now)).unwrap();
        assert_eq!(event["apiVersion"], "v1");
        for field in ["firstTimestamp", "lastTimestamp"] {
            assert_eq!(event[field], "2026-01-01T00:00:30Z", "{field}");
        }
        assert_eq!(event["eventTime"], "2026-01-01T00:00:30.123456Z");
        assert_eq!((&event["count"], &event["source"]["component"]), (&1.into(), &"hitless-controller".into()));
        assert_eq!(event["involvedObject"]["uid"], "u");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_text_is_said_once_in_ten_minutes_and_another_text_at_once() {
        let (mut said, key, now) = (Said::new(), ("u".to_owned(), "RolloutBlocked"), Instant::now());
        assert!(is_new(&mut said, &key, "rule a", now));
        said.insert(key.clone(), ("rule a".to_owned(), now + REPEAT_AFTER));
        assert!(!is_new(&mut said, &key, "rule a", now));
        assert!(is_new(&mut said, &key, "rule b", now));
        assert!(is_new(&mut said, &("other".to_owned(), "RolloutBlocked"), "rule a", now));
        assert!(is_new(&mut said, &key, "rule a", now + REPEAT_AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_an_api_server_that_takes_no_events_and_one_is_tried_again_later() {
        let (events, mut writer) = super::events(client(), "c", "i".into(), Writes::default());
        for count in 0..2 * QUEUE {
            events.say(note(&format!("{count}")));
        }
        assert_eq!(events.queue.capacity(), 0, "more than fits is left out");
        while writer.queue.try_recv().is_ok() {}
        writer.write(note("x")).await;
        events.say(note("x"));
        assert_eq!(events.queue.capacity(), QUEUE, "it has just failed");
        tokio::time::advance(RETRY_AFTER).await;
        events.say(note("x"));
        assert_eq!(events.queue.capacity(), QUEUE - 1);
    }

    /// Nobody answers there.
    fn client() -> Client {
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap()
    }
}
