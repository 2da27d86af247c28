//! One thing that the doctor has looked at.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    Warning,
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) what: String,
    /// What follows from that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) to_do: String,
}

impl Finding {
    pub(super) fn ok(what: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.into(), why: String::new(), to_do: String::new() }
    }

    pub(super) fn warning(what: impl Into<String>, why: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { level: Level::Warning, what: what.into(), why: why.into(), to_do: to_do.into() }
    }

    pub(super) fn error(what: impl Into<String>, why: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { level: Level::Error, ..Self::warning(what, why, to_do) }
    }
}
