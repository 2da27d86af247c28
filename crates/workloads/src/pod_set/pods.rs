//! Which pods count.

use hitless_api::names::labels;
use hitless_api::pod::PodView;

/// Whether the pod is there to stay.
pub(crate) fn stays(pod: &PodView) -> bool {
    !pod.terminating && !pod.finished
}

/// Name of the revision that the pod's label names; empty: none.
pub(crate) fn revision_of(pod: &PodView) -> &str {
    pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str)
}

/// Whether the pod's label names this revision.
pub(crate) fn is_at(pod: &PodView, revision: &str) -> bool {
    pod.labels.get(labels::CONTROLLER_REVISION_HASH).is_some_and(|label| label == revision)
}
