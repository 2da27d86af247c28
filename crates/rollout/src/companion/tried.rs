//! What became of the last companion pod that was not to serve: the value of the annotation `hitless.dev/tried`.

use serde::{Deserialize, Serialize};

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The version runs.
    Good,
    /// The version does not run, or does not get ready.
    Bad,
    /// It could not be tried.
    Skipped,
}

/// What became of the last companion pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// Revision of the workload that was tried.
    pub revision: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Time from the start of its containers to ready, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_milliseconds: Option<u32>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Tried {
    /// Reads the annotation for this revision; what is about another one, or not understood, counts as nothing known.
    #[must_use]
    pub fn parse(annotation: Option<&str>, revision: &str) -> Option<Self> {
        serde_json::from_str(annotation?).ok().filter(|tried: &Self| tried.revision == revision)
    }

    /// The annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_for_its_revision_only() {
        let tried = Tried {
            revision: "r2".to_owned(),
            outcome: Outcome::Good,
            start_milliseconds: Some(1000),
            message: String::new(),
        };
        assert_eq!(tried.text(), r#"{"revision":"r2","outcome":"Good","startMilliseconds":1000}"#);
        assert_eq!(Tried::parse(Some(&tried.text()), "r2"), Some(tried.clone()));
        assert_eq!(Tried::parse(Some(&tried.text()), "r3"), None);
        assert_eq!(Tried::parse(Some("nonsense"), "r3"), None);
    }
}
