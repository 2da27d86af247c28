//! The writes to a pod, each with its preconditions.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::{Change, Grant, names};
use hitless_runtime::write::JsonPatch;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::instant::whole_seconds;
use crate::view::NodePod;

/// Strategic merge patch of `pods/status` that sets the InService condition and nothing else. It fails unless the pod is
/// still the one that was looked at.
#[must_use]
pub fn in_service(pod: &PodView, is_true: bool, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "metadata": {"uid": pod.id.uid, "resourceVersion": pod.resource_version},
        "status": {"conditions": [{
            "type": names::IN_SERVICE,
            "status": if is_true { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastTransitionTime": whole_seconds(now).to_string(),
        }]},
    })
}

/// Which way a container is operated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the images before to those after.
    Forward,
    /// The way back.
    Back,
}

impl Direction {
    fn order<T>(self, from: T, to: T) -> (T, T) {
        match self {
            Self::Forward => (from, to),
            Self::Back => (to, from),
        }
    }
}

/// JSON patch of the pod that sets images, labels and annotations of the grant at once, and fails if any of them is not what
/// it should be before. A container that the pod does not have is left out; decisions have excluded that.
#[must_use]
pub fn images(pod: &NodePod, grant: &Grant, direction: Direction) -> JsonPatch {
    let mut patch = JsonPatch::of(&pod.view.id.uid);
    for (index, container) in pod.view.containers.iter().enumerate() {
        let Some(change) = grant.containers.get(&container.name) else { continue };
        let index = index.to_string();
        let image = ["spec", "containers", &index, "image"];
        let (from, to) = direction.order(change.from.as_str(), change.to.as_str());
        patch = patch
            .test(&["spec", "containers", &index, "name"], container.name.as_str())
            .test(&image, from)
            .replace(&image, to);
    }
    let patch = metadata(patch, "labels", &grant.labels, pod.has_labels, direction);
    metadata(patch, "annotations", &grant.annotations, pod.has_annotations, direction)
}

fn metadata(
    mut patch: JsonPatch,
    map: &str,
    changes: &BTreeMap<String, Change>,
    exists: bool,
    direction: Direction,
) -> JsonPatch {
    if !exists && !changes.is_empty() {
        patch = patch.new_map(&["metadata", map]);
    }
    for (key, change) in changes {
        let (from, to) = direction.order(change.from.as_deref(), change.to.as_deref());
        patch = patch.change(&["metadata", map, key], from, to);
    }
    patch
}
