//! Writes to the API server: what an answer means, and how many there were. The only module that knows HTTP codes.
//!
//! Every write of hitless is conditional and none is repeated blindly: an error says whether to read and decide again
//! ([`WriteError::Conflict`], [`WriteError::Gone`]), to give up ([`WriteError::Denied`], [`WriteError::Invalid`]) or to come
//! back later ([`WriteError::Transient`]).

use std::future::Future;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::error::Elapsed;

/// Why a write did not happen (or, with `Transient`, may not have happened).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object is not what we thought: other resourceVersion, a failed `test` of a JSON patch, or it exists already.
    #[error("the object has changed meanwhile: {message}")]
    Conflict {
        /// The server's words.
        message: String,
    },
    /// The object does not exist (any more).
    #[error("the object does not exist: {message}")]
    Gone {
        /// The server's words.
        message: String,
    },
    /// RBAC or an admission policy says no.
    #[error("denied: {message}")]
    Denied {
        /// The server's words; of a policy, its message.
        message: String,
    },
    /// The object would break its schema or a validation rule; the same write will never succeed.
    #[error("invalid: {message}")]
    Invalid {
        /// The server's words.
        message: String,
    },
    /// The server could not be reached, was busy or too slow. The write may have happened all the same.
    #[error("the API server did not answer as it should: {message}")]
    Transient {
        /// What was wrong.
        message: String,
        /// The server asks not to come back earlier.
        retry_after: Option<Duration>,
    },
}

impl WriteError {
    /// Whether to read again and decide again (docs/contract.md#conflict).
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Gone { .. })
    }

    /// [`Self::outcome`] of each, and of a write that has happened.
    const OUTCOMES: [&str; 6] = ["ok", "conflict", "gone", "denied", "invalid", "transient"];

    const fn outcome(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Gone { .. } => "gone",
            Self::Denied { .. } => "denied",
            Self::Invalid { .. } => "invalid",
            Self::Transient { .. } => "transient",
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Transient { message: with_causes(&error), retry_after: None };
        };
        let message = status.message.clone();
        match status.code {
            409 => Self::Conflict { message },
            404 | 410 => Self::Gone { message },
            403 => Self::Denied { message },
            422 if is_unfitting(&status) => Self::Conflict { message },
            // 401: the token has just been rotated. 408, 429: too slow, too busy. Other 4xx: our request is wrong.
            401 | 408 | 429 => Self::Transient { message, retry_after: retry_after(&status) },
            400..=499 => Self::Invalid { message },
            _ => Self::Transient { message, retry_after: retry_after(&status) },
        }
    }
}

/// Whether a 422 says that the object is not the one we thought of, rather than that the new one would be invalid.
/// A JSON patch whose `test` fails or whose path is not there is answered without a kind and without a field, because it has
/// failed before anything was validated; a patch that names another uid is told that a uid can't be changed.
fn is_unfitting(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_none_or(|details| {
        let before_validation = details.kind.is_empty() && details.causes.iter().all(|cause| cause.field.is_empty());
        before_validation || details.causes.iter().any(|cause| cause.field == "metadata.uid")
    })
}

/// Whether the API server does not know the object or the resource.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn retry_after(status: &kube::core::Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    resource: &'static str,
    outcome: &'static str,
}

/// Counts writes and bounds their time. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Writes(Family<Labels, Counter>);

impl Writes {
    /// Longest time that a write may take. Together with the lease's renew deadline it is shorter than the lease, so that a
    /// deposed leader's last request has ended before another one leads.
    pub const TIMEOUT: Duration = Duration::from_secs(4);

    /// Counters that `registry` shows as `hitless_api_writes_total{resource,outcome}`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let writes = Self::default();
        registry.register("hitless_api_writes", "Writes sent to the API server", writes.0.clone());
        writes
    }

    /// Shows these resources before the first write to them: a counter that is born with its first error has no increase.
    pub fn expect(&self, resources: &[&'static str]) {
        for resource in resources {
            for outcome in WriteError::OUTCOMES {
                drop(self.0.get_or_create(&Labels { resource, outcome }));
            }
        }
    }

    /// Sends one write; `resource` is e.g. `pods/status`.
    pub async fn send<T>(
        &self,
        resource: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let result = answer(tokio::time::timeout(Self::TIMEOUT, request).await);
        let outcome = result.as_ref().map_or_else(WriteError::outcome, |_| "ok");
        self.0.get_or_create(&Labels { resource, outcome }).inc();
        result
    }

    /// Reads what a write depends on; it is not counted.
    pub async fn read<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
        answer(tokio::time::timeout(Self::TIMEOUT, request).await)
    }
}

fn answer<T>(answer: Result<kube::Result<T>, Elapsed>) -> Result<T, WriteError> {
    answer.map_or_else(
        |_| {
            let message = format!("no answer within {} s", Writes::TIMEOUT.as_secs());
            Err(WriteError::Transient { message, retry_after: None })
        },
        |answer| answer.map_err(WriteError::from),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    fn class(status: serde_json::Value) -> WriteError {
        kube::Error::Api(serde_json::from_value::<Status>(status).unwrap().boxed()).into()
    }

    #[test]
    fn codes_are_classes() {
        let outcome = |code: u16| class(json!({"code": code, "message": "m"})).outcome();
        let table =
            [(409, "conflict"), (404, "gone"), (410, "gone"), (403, "denied"), (400, "invalid"), (413, "invalid")];
        for (code, wanted) in table.into_iter().chain([401, 408, 429, 500, 503, 504].map(|code| (code, "transient"))) {
            assert_eq!(outcome(code), wanted, "{code}");
        }
    }

    /// Answers as kube-apiserver 1.36 gives them.
    #[test]
    fn a_failed_test_or_another_uid_is_a_conflict_and_a_failed_validation_is_not() {
        let answer = |details: serde_json::Value| {
            class(json!({"code": 422, "reason": "Invalid", "message": "m", "details": details})).outcome()
        };
        assert_eq!(class(json!({"code": 422, "reason": "Invalid", "message": "m"})).outcome(), "conflict");
        assert_eq!(answer(json!({})), "conflict", "failed test operation");
        let uid = json!([{"field": "metadata.uid", "message": "field is immutable"}]);
        assert_eq!(answer(json!({"kind": "Pod", "name": "a", "causes": uid})), "conflict");
        assert_eq!(answer(json!({"kind": "Pod", "name": "a", "causes": [{"field": "spec"}]})), "invalid");
        assert_eq!(answer(json!({"causes": [{"field": "patch", "message": "cannot unmarshal"}]})), "invalid");
    }

    #[test]
    fn a_busy_server_says_when_to_come_back() {
        let busy = class(json!({"code": 429, "message": "slow", "details": {"retryAfterSeconds": 3}}));
        assert_eq!(busy, WriteError::Transient { message: "slow".into(), retry_after: Some(Duration::from_secs(3)) });
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_ends_and_is_counted() {
        let mut registry = Registry::default();
        let writes = Writes::register(&mut registry);
        writes.expect(&["pods", "pods/status"]);
        let result = writes.send("pods", std::future::pending::<kube::Result<()>>()).await;
        assert!(matches!(result, Err(WriteError::Transient { .. })));
        writes.send("pods", async { Ok(()) }).await.unwrap();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains(r#"hitless_api_writes_total{resource="pods",outcome="transient"} 1"#), "{text}");
        assert!(text.contains(r#"hitless_api_writes_total{resource="pods",outcome="ok"} 1"#), "{text}");
        assert!(text.contains(r#"hitless_api_writes_total{resource="pods/status",outcome="denied"} 0"#), "{text}");
    }
}
