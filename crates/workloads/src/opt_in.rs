//! How a workload opted in.

use hitless_api::event::Severity;
use hitless_api::names::{self, annotations};

/// How a workload opted in (annotation `hitless.dev/update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptIn {
    /// Not at all.
    No,
    /// In place where possible, else the native way.
    InPlace,
    /// In place or not at all.
    InPlaceOnly,
}

impl OptIn {
    /// For people, where one was there.
    pub(crate) const GONE: &str = "hitless.dev/update asks for nothing any more, so its hold is lifted";

    /// What is said where this was the opt-in, a change came without it, and this controller makes the pods anew; how severe that is.
    pub(crate) fn removed(self, by: &str) -> Option<(Severity, String)> {
        let (severity, value) = match self {
            Self::No => return None,
            Self::InPlace => (Severity::Normal, names::UPDATE_IN_PLACE),
            Self::InPlaceOnly => (Severity::Warning, names::UPDATE_IN_PLACE_ONLY),
        };
        let text = format!(
            "it has {}={value} no more, so {by} makes its pods anew for this change. If that is not meant, set the annotation again \
             and keep it in what is applied",
            annotations::UPDATE
        );
        Some((severity, text))
    }
}
