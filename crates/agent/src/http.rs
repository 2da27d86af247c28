//! `/v1/pods/<namespace>/<name>/drain`: how the draining of a pod stands, as of now.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use hitless_api::pod::PodView;
use hitless_api::{Phase, Transition, TransitionResult};
use jiff::Timestamp;
use serde::Serialize;

use crate::agent::Caches;
use crate::drain::Threads;
use crate::view::{Held, Observation, Stage};

/// What the agent tells of one operation, beside the pod and the count.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// uid of the pod.
    pub pod_uid: String,
    /// The report as it should be now, stored or not.
    pub transition: Transition,
    /// What it waits for.
    pub waiting_for: Vec<String>,
}

/// The operations of the last turn, shared with the endpoint.
#[derive(Clone, Debug, Default)]
pub struct Published(Arc<Mutex<Vec<Step>>>);

impl Published {
    /// Replaces what is published.
    pub fn set(&self, steps: Vec<Step>) {
        // A replaced list is whole, whoever panicked.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = steps;
    }

    /// The operation of a pod; one that has not ended before one that has.
    #[must_use]
    pub fn of(&self, pod_uid: &str) -> Option<Step> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().filter(|step| step.pod_uid == pod_uid).min_by_key(|step| step.transition.result.is_some()).cloned()
    }
}

/// What the endpoint answers from.
#[derive(Clone)]
pub struct Desk {
    node: String,
    caches: Caches,
    threads: Arc<Threads>,
    published: Published,
}

impl Desk {
    /// Answers for the pods of `node`.
    #[must_use]
    pub fn new(node: String, caches: Caches, threads: Arc<Threads>, published: Published) -> Self {
        Self { node, caches, threads, published }
    }
}

/// The route.
pub fn router(desk: Desk) -> Router {
    Router::new().route("/v1/pods/{namespace}/{name}/drain", get(drain)).with_state(desk)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    pod: String,
    uid: String,
    node: String,
    in_service: Option<bool>,
    ready: bool,
    #[serde(flatten)]
    operation: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<Connections>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<HoldState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count_error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HoldState {
    stage: &'static str,
    /// Requests in flight.
    busy: u32,
    closed_idle: u32,
    /// Clients that had to wait, once they are let in.
    parked: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    grant: String,
    phase: Phase,
    since: Timestamp,
    elapsed_milliseconds: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    waiting_for: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<TransitionResult>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connections {
    inbound: u32,
    busy: u32,
    idle: u32,
    closed_idle: u32,
    most: u32,
}

async fn drain(State(desk): State<Desk>, Path((namespace, name)): Path<(String, String)>) -> Response {
    if let Some(pod) = desk.caches.pods.get(&namespace, &name) {
        return Json(answer(&desk, &pod.view, Timestamp::now())).into_response();
    }
    let error = format!("there is no pod {name} in namespace {namespace} on node {}; ask its node", desk.node);
    (StatusCode::NOT_FOUND, Json(serde_json::json!({ "error": error }))).into_response()
}

fn answer(desk: &Desk, pod: &PodView, now: Timestamp) -> Answer {
    let observation = desk.threads.observations().remove(&pod.id.uid).unwrap_or_default();
    let (count, held, count_error) = match observation {
        Observation::None => (None, None, None),
        Observation::Failed(why) => (None, None, Some(why)),
        Observation::Counted(count) => (Some(count), None, None),
        Observation::Held(held) => (None, Some(held), None),
    };
    Answer {
        pod: format!("{}/{}", pod.id.namespace, pod.id.name),
        uid: pod.id.uid.clone(),
        node: desk.node.clone(),
        in_service: pod.in_service().map(|condition| condition.is_true),
        ready: pod.ready(),
        operation: desk.published.of(&pod.id.uid).map(|step| operation(step, now)),
        connections: count.map(|count| Connections {
            inbound: count.inbound,
            busy: count.busy,
            idle: count.idle,
            closed_idle: count.closed,
            most: count.most,
        }),
        quiet: count.map(|count| count.quiet),
        hold: held.map(hold),
        count_error,
    }
}

fn hold(held: Held) -> HoldState {
    let (stage, busy, error) = match held.stage {
        Stage::Prepared(_) => ("Prepared", 0, None),
        Stage::Settling(busy) => ("Settling", busy, None),
        Stage::Settled(left) => ("Settled", left, None),
        Stage::Released => ("Released", 0, None),
        Stage::Failed(why) => ("Failed", 0, Some(why)),
    };
    HoldState { stage, busy, closed_idle: held.numbers.closed, parked: held.numbers.parked, error }
}

fn operation(step: Step, now: Timestamp) -> Operation {
    let Transition { id, phase, since, deadline, message, result, .. } = step.transition;
    Operation {
        grant: id,
        phase,
        since: since.0,
        elapsed_milliseconds: i64::try_from(now.duration_since(since.0).as_millis()).unwrap_or(i64::MAX),
        deadline: deadline.map(|deadline| deadline.0),
        waiting_for: step.waiting_for,
        message,
        result,
    }
}
