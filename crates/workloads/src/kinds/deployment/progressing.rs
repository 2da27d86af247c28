//! The condition Progressing of a Deployment.

use serde::Deserialize;

/// What the message of our condition begins with.
pub(crate) const OURS: &str = "hitless: ";

/// The condition Progressing, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progressing {
    /// How many conditions there are.
    pub(crate) count: usize,
    /// Its place among them.
    pub(crate) index: Option<usize>,
    /// Its message, if it is ours.
    pub(crate) reported: Option<String>,
}

/// A condition of `status.conditions`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawCondition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    message: String,
}

impl Progressing {
    pub(crate) fn of(conditions: Vec<RawCondition>) -> Self {
        let (count, index) = (conditions.len(), conditions.iter().position(|each| each.r#type == "Progressing"));
        let message = conditions.into_iter().nth(index.unwrap_or(usize::MAX)).map(|condition| condition.message);
        Self { count, index, reported: message.filter(|message| message.starts_with(OURS)) }
    }
}
