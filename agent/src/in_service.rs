//! Who is in service without any operation: every gated pod, as soon as it is bound.

use hitless_api::names::labels;
use hitless_api::pod::PodView;

/// Reason of the condition on a pod that has just been bound.
const FIRST: &str = "InService";
/// Reason of the condition on a pod that was out of service and has no operation that could want that.
const NO_TRANSITION: &str = "NoTransition";

/// With which reason InService is to be raised, if it is to be.
///
/// `synced`: the grants are known, so that a missing one means that there is none. `live`: some grant for the pod has not
/// ended.
#[must_use]
pub fn reason_to_raise(pod: &PodView, synced: bool, live: bool) -> Option<&'static str> {
    // When a companion pod serves is the controller's to say (docs/contract.md#companion-pod).
    if !pod.gated || pod.terminating || pod.finished || pod.labels.contains_key(labels::COMPANION) {
        return None;
    }
    match pod.in_service() {
        None => Some(FIRST),
        Some(condition) if condition.is_true => None,
        Some(_) => (synced && !live).then_some(NO_TRANSITION),
    }
}
