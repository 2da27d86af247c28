//! Answers that refuse: a status, and a sentence as JSON.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// Body of every answer that refuses, but for `/lb` and the kubelet's probes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refused {
    /// What, why, and what to do.
    pub error: String,
}

/// A refusal.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
    /// Seconds after which to ask again.
    retry_after: Option<u64>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), retry_after: None }
    }

    /// 400.
    pub(super) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// 403.
    pub(super) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error)
    }

    /// 404.
    pub(super) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// 429: ask again after so many seconds.
    pub(super) fn too_many(error: impl Into<String>, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..Self::new(StatusCode::TOO_MANY_REQUESTS, error) }
    }

    /// 503: who waits has to ask the next agent.
    pub(super) fn stopping() -> Self {
        Self::not_yet("the agent is being stopped; ask its successor")
    }

    /// 503: ask again in a second.
    pub(super) fn not_yet(error: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Refused { error: self.error })).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            // Nor is it to keep the place of its connection until it asks again.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
