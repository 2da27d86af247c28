//! The condition Progressing of a Deployment.

use serde::Deserialize;

/// What the message of our condition begins with.
pub(crate) const OURS: &str = "hitless: ";

/// Its reason where a rollout has not got on in time.
const EXCEEDED: &str = "ProgressDeadlineExceeded";

/// The condition Progressing, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progressing {
    /// How many conditions there are.
    pub(crate) count: usize,
    /// Its place among them.
    pub(crate) index: Option<usize>,
    /// Its message, if it is ours.
    pub(crate) reported: Option<String>,
    /// Its message, if the Deployment controller says that the rollout has not got on within `progressDeadlineSeconds`.
    pub(crate) exceeded: Option<String>,
}

/// A condition of `status.conditions`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawCondition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    reason: String,
    message: String,
}

impl Progressing {
    pub(crate) fn of(conditions: Vec<RawCondition>) -> Self {
        let (count, index) = (conditions.len(), conditions.iter().position(|each| each.r#type == "Progressing"));
        let condition = conditions.into_iter().nth(index.unwrap_or(usize::MAX));
        let is_exceeded = condition.as_ref().is_some_and(|condition| condition.reason == EXCEEDED);
        let message = condition.map(|condition| condition.message);
        let (reported, theirs) = match message {
            Some(message) if message.starts_with(OURS) => (Some(message), None),
            message => (None, message),
        };
        Self { count, index, reported, exceeded: theirs.filter(|_| is_exceeded) }
    }
}
