//! What applications say about being operated without being asked: `PUT /v1/self/task`.
//!
//! Kept in memory and for a short time only: who has something to finish says so again and again, and an application that is
//! gone keeps nobody waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hitless_api::HookReport;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use super::answer::TaskWord;
use super::called::tail;
use crate::instant::after_seconds;

/// How long a word counts if it does not say, in seconds.
const USUAL_SECONDS: u32 = 60;
/// No word counts for longer, in seconds.
const LONGEST_SECONDS: u32 = 3600;

/// A word that keeps a pod from being operated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Not as long as this counts.
    NotYet,
    /// Not at all.
    Never,
}

/// What an application has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying {
    /// The word.
    pub task: Word,
    /// It counts until then.
    pub until: Timestamp,
    /// For people.
    pub message: String,
}

/// What the applications of this node have said.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// By uid of the pod.
    sayings: Arc<Mutex<BTreeMap<String, Saying>>>,
    wake: Arc<Notify>,
}

impl Tasks {
    /// Nobody has said anything. `wake` is notified of each word.
    #[must_use]
    pub fn new(wake: Arc<Notify>) -> Self {
        Self { sayings: Arc::default(), wake }
    }

    /// The pod with this uid says this; `None`: it may be operated.
    pub fn say(&self, pod_uid: &str, saying: Option<Saying>) {
        match saying {
            Some(saying) => self.lock().insert(pod_uid.to_owned(), saying),
            None => self.lock().remove(pod_uid),
        };
        self.wake.notify_one();
    }

    /// What the pod with this uid has said that still counts. What does not is forgotten.
    #[must_use]
    pub fn of(&self, pod_uid: &str, now: Timestamp) -> Option<Saying> {
        let mut sayings = self.lock();
        // After a clock was set back nothing counts for longer than it may.
        let latest = after_seconds(now, LONGEST_SECONDS);
        sayings.retain(|_, saying| now < saying.until && saying.until <= latest);
        sayings.get(pod_uid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Saying>> {
        // Every change is a single map operation, so a panic elsewhere can't have left it broken.
        self.sayings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an application says of itself.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Body {
    /// `go`, `notYet` or `never`.
    task: String,
    /// How long it counts, 1 to 3600; default 60.
    for_seconds: Option<u32>,
    /// For people.
    #[serde(default)]
    message: String,
}

/// What a request's body says; `None`: it may be operated.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn parse(body: &[u8], now: Timestamp) -> Result<Option<Saying>, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| format!("the body can't be understood: {error}"))?;
    let task = match TaskWord::parse(&body.task)? {
        TaskWord::Go => return Ok(None),
        TaskWord::NotYet => Word::NotYet,
        TaskWord::Never => Word::Never,
    };
    let seconds = body.for_seconds.unwrap_or(USUAL_SECONDS);
    if !(1..=LONGEST_SECONDS).contains(&seconds) {
        return Err(format!("forSeconds is {seconds}; use 1 to {LONGEST_SECONDS}, and say it again in time"));
    }
    let message = tail(body.message, HookReport::LONGEST_OUTPUT);
    let until = after_seconds(now, seconds);
    // Times are shown in microseconds (docs/contract.md#units-and-exit-codes).
    Ok(Some(Saying { task, until: whole_microseconds(until), message }))
}

/// The earlier one of the two next to it.
fn whole_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn say(tasks: &Tasks, body: &serde_json::Value, now: Timestamp) {
        tasks.say("uid-0", parse(body.to_string().as_bytes(), now).unwrap());
    }

    #[tokio::test]
    async fn a_word_counts_for_a_while_and_for_its_pod_only() {
        let wake = Arc::new(Notify::new());
        let tasks = Tasks::new(wake.clone());
        let now = Timestamp::UNIX_EPOCH;
        say(&tasks, &json!({"task": "notYet", "forSeconds": 120, "message": "exporting"}), now);
        wake.notified().await;
        let known = tasks.of("uid-0", now).unwrap();
        assert_eq!((known.task, known.message.as_str()), (Word::NotYet, "exporting"));
        assert_eq!(tasks.of("uid-1", now), None);
        assert!(tasks.of("uid-0", after_seconds(now, 119)).is_some());
        assert_eq!(tasks.of("uid-0", after_seconds(now, 120)), None);
    }

    #[test]
    fn what_is_said_for_an_hour_counts_and_until_when_is_shown_in_microseconds() {
        let (tasks, now) = (Tasks::new(Arc::default()), "2026-01-01T00:00:00.123456789Z".parse().unwrap());
        say(&tasks, &json!({"task": "notYet", "forSeconds": 3600}), now);
        let until = tasks.of("uid-0", now).map(|saying| saying.until.to_string());
        assert_eq!(until.as_deref(), Some("2026-01-01T01:00:00.123456Z"));
    }

    #[test]
    fn go_takes_it_back() {
        let (tasks, now) = (Tasks::new(Arc::default()), Timestamp::UNIX_EPOCH);
        say(&tasks, &json!({"task": "never"}), now);
        assert_eq!(tasks.of("uid-0", now).map(|saying| saying.task), Some(Word::Never));
        say(&tasks, &json!({"task": "go"}), now);
        assert_eq!(tasks.of("uid-0", now), None);
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for (body, words) in [
            ("{", "can't be understood"),
            (r#"{"task": "soon"}"#, "use go, notYet or never"),
            (r#"{"task": "notYet", "forSeconds": 0}"#, "use 1 to 3600"),
            (r#"{"task": "notYet", "forSeconds": 3601}"#, "use 1 to 3600"),
            (r#"{"task": "notYet", "until": 1}"#, "unknown field"),
        ] {
            let error = parse(body.as_bytes(), Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
