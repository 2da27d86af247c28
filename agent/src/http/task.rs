//! `/v1/self/task`: an application says, without being asked, whether its pod may be operated.

use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Json;
use hitless_api::PodRef;
use hitless_api::names::{TASK_ALLOWED, annotations};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::identity::Caller;
use super::refusal::Refusal;
use super::state::AppState;
use crate::hooks::answer::TaskWord;
use crate::hooks::task::{Saying, Word, parse};

/// Longest body, in bytes.
pub(super) const LONGEST_BODY: usize = 4096;

/// What the pod that asks has said.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskStatus {
    /// Whether it may be operated.
    pub task: TaskWord,
    /// That counts until then; absent for `go`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl TaskStatus {
    fn of(saying: Option<Saying>) -> Self {
        let Some(Saying { task, until, message }) = saying else {
            return Self { task: TaskWord::Go, until: None, message: String::new() };
        };
        let task = match task {
            Word::NotYet => TaskWord::NotYet,
            Word::Never => TaskWord::Never,
        };
        Self { task, until: Some(until), message }
    }
}

pub(super) async fn read(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TaskStatus>, Refusal> {
    let pod = pod(&caller)?;
    let counts = state.is_task_allowed(pod);
    Ok(Json(TaskStatus::of(state.tasks.of(&pod.uid, Timestamp::now()).filter(|_| counts))))
}

pub(super) async fn put(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json<TaskStatus>, Refusal> {
    let pod = pod(&caller)?;
    let saying = parse(&body, Timestamp::now()).map_err(Refusal::bad)?;
    if saying.is_some() && !state.is_task_allowed(pod) {
        return Err(Refusal::forbidden(format!(
            "the owner of this pod has not allowed it to refuse operations; write the annotation {}: {TASK_ALLOWED} into its pod \
             template",
            annotations::TASK
        )));
    }
    state.tasks.say(&pod.uid, saying.clone());
    Ok(Json(TaskStatus::of(saying)))
}

pub(super) async fn delete(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TaskStatus>, Refusal> {
    state.tasks.say(&pod(&caller)?.uid, None);
    Ok(Json(TaskStatus::of(None)))
}

fn pod(caller: &Caller) -> Result<&PodRef, Refusal> {
    match caller {
        Caller::Pod(pod) => Ok(pod),
        Caller::Node | Caller::NodeFor(_) | Caller::Stranger { .. } => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "only a pod of this node has a task of its own; ask from inside of it",
        )),
    }
}
