//! Whom a round wants to be asked.

use hitless_api::PodRef;

/// An approver that is to be asked about an operation, or whose answer has just been used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// Namespace of the pod and the PodTransitionRule.
    pub namespace: String,
    /// Name of the PodTransitionRule.
    pub rule_set: String,
    /// Name of the rule in it.
    pub rule: String,
    /// The pod.
    pub pod: PodRef,
    /// Id of the operation: that of its grant.
    pub operation: String,
}
