//! Labels and annotations of a pod that a grant changes.

use std::collections::BTreeMap;

use hitless_api::names::{PREFIX, annotations};
use hitless_api::pod::PodView;
use hitless_api::{Change, Grant, JsonPatch};

use super::Reason;
use crate::decision::Direction;
use crate::view::NodePod;

/// Whether agents write the annotation (admission allows no others).
fn is_written(annotation: &str) -> bool {
    annotation.starts_with(PREFIX) || annotation == annotations::DECORATIONS
}

/// Why the grant's labels and annotations can't be set on this pod.
pub(super) fn refusal(grant: &Grant, pod: &PodView) -> Option<Reason<'static>> {
    if let Some(key) = grant.annotations.keys().find(|key| !is_written(key)) {
        let own = format!("{PREFIX}... and {}", annotations::DECORATIONS);
        return Some(("UnsupportedAnnotation", format!("agents write only annotations {own}, not {key}")));
    }
    let key = changed(&grant.annotations, &pod.annotations).or(changed(&grant.labels, &pod.labels))?;
    Some(("MetadataChanged", format!("{key} has neither the value before nor the one after")))
}

/// A key whose value is neither the one before nor the one after. What is absent before is not tested, as in the patch.
fn changed<'a>(changes: &'a BTreeMap<String, Change>, present: &BTreeMap<String, String>) -> Option<&'a str> {
    let is_known = |(key, change): &(&String, &Change)| {
        let value = present.get(*key);
        change.from.is_none() || value == change.from.as_ref() || value == change.to.as_ref()
    };
    changes.iter().find(|change| !is_known(change)).map(|(key, _)| key.as_str())
}

/// `patch`, and what it changes of labels and annotations; with an annotation that the grant does not know.
pub(super) fn patch(
    patch: JsonPatch,
    grant: &Grant,
    pod: &NodePod,
    direction: Direction,
    annotation: Option<(String, Change)>,
) -> JsonPatch {
    let patch = map(patch, "labels", &grant.labels, pod.has_labels, direction);
    let annotations = grant.annotations.clone().into_iter().chain(annotation).collect();
    map(patch, "annotations", &annotations, pod.has_annotations, direction)
}

fn map(
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
