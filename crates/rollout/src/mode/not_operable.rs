//! Why there is no operation that could be done.

use hitless_api::InvalidDrain;

/// Why a pod can't be operated in any way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOperable {
    /// What is said of its drain makes no sense.
    #[error(transparent)]
    Drain(#[from] InvalidDrain),
    /// It has hooks, and the agent on its node does not have this feature.
    #[error("the agent on its node does not have the feature {0}, which its hooks need")]
    HooksUnsupported(&'static str),
    /// It has to leave service and has no readiness gate; with the reason why.
    #[error("it has no readiness gate {0}")]
    NoReadinessGate(&'static str),
}
