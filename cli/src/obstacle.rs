//! What is in the way of a pod and no rule, as it is printed.

use std::borrow::Cow;
use std::fmt;

use hitless_rollout::round::WaitReason;
use serde::Serialize;

/// Something that is in the way and no rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InTheWay {
    /// In CamelCase, for machines; the controller's own name for it.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) text: String,
    /// The smallest change that would unblock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unblock: Option<Cow<'static, str>>,
}

impl From<&WaitReason> for InTheWay {
    fn from(waiting: &WaitReason) -> Self {
        Self { reason: waiting.reason(), text: waiting.what(), unblock: waiting.unblock() }
    }
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.text)?;
        self.unblock.as_ref().map_or(Ok(()), |unblock| write!(f, "; {unblock}"))
    }
}
