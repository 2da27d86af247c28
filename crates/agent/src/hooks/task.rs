//! What applications say about being operated without being asked: `PUT /v1/self/task`.
//!
//! Kept in memory and for a short time only: who has something to finish says so again and again, and an application that is
//! gone keeps nobody waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use hitless_api::{HookReport, PodRef};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::called::tail;
use crate::instant::after_seconds;

/// The route.
pub const PATH: &str = "/v1/self/task";
/// How long a word counts if it does not say, in seconds.
const USUAL_SECONDS: u32 = 60;
/// No word counts for longer, in seconds.
const LONGEST_SECONDS: u32 = 3600;
/// Longest body, in bytes.
const LONGEST_BODY: usize = 4096;

/// A word that keeps a pod from being operated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Word {
    /// Not as long as this counts.
    NotYet,
    /// Not at all.
    Never,
}

/// What an application has said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Saying {
    /// The word.
    pub task: Word,
    /// It counts until then.
    pub until: Timestamp,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
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

/// The pod that asks; `None`: somebody else. To be put into each request's extensions by who knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCaller(pub Option<PodRef>);

/// The route, for a pod about itself.
pub fn router(tasks: Tasks) -> Router {
    Router::new()
        .route(PATH, get(read).put(put).delete(delete))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(tasks)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    task: String,
    for_seconds: Option<u32>,
    #[serde(default)]
    message: String,
}

async fn read(State(tasks): State<Tasks>, Extension(TaskCaller(caller)): Extension<TaskCaller>) -> Response {
    let Some(pod) = caller else { return stranger() };
    answer(tasks.of(&pod.uid, Timestamp::now()))
}

async fn put(
    State(tasks): State<Tasks>,
    Extension(TaskCaller(caller)): Extension<TaskCaller>,
    body: Bytes,
) -> Response {
    let Some(pod) = caller else { return stranger() };
    match parse(&body, Timestamp::now()) {
        Ok(saying) => {
            tasks.say(&pod.uid, saying.clone());
            answer(saying)
        }
        Err(why) => refusal(StatusCode::BAD_REQUEST, &why),
    }
}

async fn delete(State(tasks): State<Tasks>, Extension(TaskCaller(caller)): Extension<TaskCaller>) -> Response {
    let Some(pod) = caller else { return stranger() };
    tasks.say(&pod.uid, None);
    answer(None)
}

fn stranger() -> Response {
    refusal(StatusCode::FORBIDDEN, "only a pod of this node has a task of its own")
}

fn parse(body: &[u8], now: Timestamp) -> Result<Option<Saying>, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| format!("the body can't be understood: {error}"))?;
    let task = match body.task.as_str() {
        "go" => return Ok(None),
        "notYet" => Word::NotYet,
        "never" => Word::Never,
        other => return Err(format!("the task is {other:?}; use go, notYet or never")),
    };
    let seconds = body.for_seconds.unwrap_or(USUAL_SECONDS);
    if !(1..=LONGEST_SECONDS).contains(&seconds) {
        return Err(format!("forSeconds is {seconds}; use 1 to {LONGEST_SECONDS}, and say it again in time"));
    }
    let message = tail(body.message, HookReport::LONGEST_OUTPUT);
    Ok(Some(Saying { task, until: after_seconds(now, seconds), message }))
}

fn answer(saying: Option<Saying>) -> Response {
    match saying {
        Some(saying) => Json(saying).into_response(),
        None => Json(serde_json::json!({"task": "go"})).into_response(),
    }
}

fn refusal(status: StatusCode, why: &str) -> Response {
    (status, Json(serde_json::json!({"error": why}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body as HttpBody, to_bytes};
    use axum::http::Request;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    fn pod() -> PodRef {
        PodRef { namespace: "shop".into(), name: "web-0".into(), uid: "uid-0".into() }
    }

    async fn ask(tasks: &Tasks, caller: Option<PodRef>, method: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(PATH).extension(TaskCaller(caller));
        let response = router(tasks.clone()).oneshot(request.body(HttpBody::from(body.to_owned())).unwrap());
        let response = response.await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 4096).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    #[tokio::test]
    async fn a_pod_says_of_itself_what_counts_for_a_while() {
        let wake = Arc::new(Notify::new());
        let tasks = Tasks::new(wake.clone());
        let before = Timestamp::now();
        let body = json!({"task": "notYet", "forSeconds": 120, "message": "exporting"}).to_string();
        let (status, said) = ask(&tasks, Some(pod()), "PUT", &body).await;
        assert_eq!((status, &said["task"], &said["message"]), (200, &json!("notYet"), &json!("exporting")));
        wake.notified().await;
        let known = tasks.of("uid-0", before).unwrap();
        assert_eq!((known.task, known.message.as_str()), (Word::NotYet, "exporting"));
        assert_eq!(tasks.of("uid-1", before), None, "of itself only");
        assert_eq!(ask(&tasks, Some(pod()), "GET", "").await.1, said);
        assert_eq!(tasks.of("uid-0", after_seconds(before, 125)), None);
        assert_eq!(ask(&tasks, Some(pod()), "GET", "").await, (200, json!({"task": "go"})));
    }

    #[tokio::test]
    async fn go_and_delete_take_it_back() {
        let tasks = Tasks::new(Arc::default());
        for (method, body) in [("PUT", r#"{"task": "go"}"#), ("DELETE", "")] {
            ask(&tasks, Some(pod()), "PUT", r#"{"task": "never"}"#).await;
            assert_eq!(tasks.of("uid-0", Timestamp::now()).map(|saying| saying.task), Some(Word::Never));
            assert_eq!(ask(&tasks, Some(pod()), method, body).await, (200, json!({"task": "go"})));
            assert_eq!(tasks.of("uid-0", Timestamp::now()), None);
        }
    }

    #[tokio::test]
    async fn nonsense_and_strangers_are_refused_in_words() {
        let tasks = Tasks::new(Arc::default());
        let long = format!(r#"{{"task": "go", "message": "{}"}}"#, "x".repeat(5000));
        for (body, status, words) in [
            ("{", 400, "can't be understood"),
            (r#"{"task": "soon"}"#, 400, "use go, notYet or never"),
            (r#"{"task": "notYet", "forSeconds": 0}"#, 400, "use 1 to 3600"),
            (r#"{"task": "notYet", "forSeconds": 3601}"#, 400, "use 1 to 3600"),
            (r#"{"task": "notYet", "until": 1}"#, 400, "unknown field"),
            (long.as_str(), 413, ""),
        ] {
            let (code, answer) = ask(&tasks, Some(pod()), "PUT", body).await;
            assert_eq!(code, status, "{answer}");
            assert!(answer["error"].as_str().unwrap_or_default().contains(words), "{answer}");
        }
        for method in ["GET", "PUT", "DELETE"] {
            assert_eq!(ask(&tasks, None, method, r#"{"task": "never"}"#).await.0, 403);
        }
        assert_eq!(tasks.of("uid-0", Timestamp::now()), None);
    }
}
