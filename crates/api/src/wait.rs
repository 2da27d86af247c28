//! What an operation waits for outside of its pod: a load balancer, or somebody else's finalizers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lifecycle;

/// What a wait comes before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitPoint {
    /// The image patch; of an operation that only drains: its end. At the drain's deadline the straggler policy decides.
    Operate,
    /// The result, once the pod is back in service and Ready. It ends after `verify.progressSeconds`.
    Done,
    /// A value this build does not know: parsed, and refused by name.
    #[serde(untagged)]
    Unknown(String),
}

impl fmt::Display for WaitPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operate => "Operate",
            Self::Done => "Done",
            Self::Unknown(word) => word,
        })
    }
}

/// Whether a wait is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitState {
    /// Not yet.
    Pending,
    /// It is, and stays so.
    Passed,
    /// A value this build does not know: parsed, and refused by name.
    #[serde(untagged)]
    Unknown(String),
}

/// One wait of a grant. The controller writes it; the agent only reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// What is waited for: `<TrafficProvider>/<pool>`.
    #[schemars(length(max = 320))]
    pub name: String,
    /// What it comes before.
    #[schemars(with = "String")]
    pub before: WaitPoint,
    /// Whether it is over.
    #[schemars(with = "String")]
    pub state: WaitState,
    /// What is missing, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
}

impl Wait {
    /// What an agent's features must contain to be given a grant with waits.
    pub const FEATURE: &str = "waits";
    /// Most waits of a grant (its schema).
    pub const MOST: usize = 16;
    /// Most bytes of [`Self::message`] that are written; its schema allows 512 characters.
    const LONGEST_MESSAGE: usize = 512;

    /// One that is not over.
    #[must_use]
    pub fn pending(name: String, before: WaitPoint, message: &str) -> Self {
        let message = message.chars().take(Self::LONGEST_MESSAGE).collect();
        Self { name, before, state: WaitState::Pending, message }
    }

    /// Whether it is for others to end it, who have put a finalizer on the pod: its name is [`lifecycle::PROTECTION`], with which such
    /// finalizers begin. Then no deadline does.
    #[must_use]
    pub fn is_for_finalizers(&self) -> bool {
        self.name == lifecycle::PROTECTION
    }

    /// Whether it is not over.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        match self.state {
            // What is not understood is not taken for over.
            WaitState::Pending | WaitState::Unknown(_) => true,
            WaitState::Passed => false,
        }
    }

    /// The word in it that this build does not know.
    #[must_use]
    pub fn unknown_word(&self) -> Option<&str> {
        match (&self.before, &self.state) {
            (WaitPoint::Unknown(word), _) | (_, WaitState::Unknown(word)) => Some(word),
            (WaitPoint::Operate | WaitPoint::Done, WaitState::Pending | WaitState::Passed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_word_that_is_not_known_is_kept_and_never_taken_for_over() {
        let wait = json!({"name": "edge/shop", "before": "Lunch", "state": "Eaten"});
        let read: Wait = serde_json::from_value(wait.clone()).unwrap();
        assert_eq!((read.unknown_word(), read.is_pending()), (Some("Lunch"), true));
        assert_eq!(serde_json::to_value(&read).unwrap(), wait);
        let known = Wait::pending("edge/shop".to_owned(), WaitPoint::Operate, "it drains");
        assert_eq!((known.unknown_word(), known.is_pending()), (None, true));
    }
}
