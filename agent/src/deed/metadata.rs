//! Labels and annotations of a pod that a grant changes.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::{Change, Grant, JsonPatch};

use super::Reason;
use crate::decision::Direction;
use crate::view::NodePod;

/// Domains of annotations that no template changes on a running pod (admission allows none of them).
const OF_OTHERS: [&str; 3] = ["kubernetes.io", "k8s.io", "kusionstack.io"];

/// Whether agents write the annotation: one by which hitless knows pods, or one of a template.
fn is_written(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |known: &&str| domain.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    Grant::is_own_annotation(annotation) || !OF_OTHERS.iter().any(is_of)
}

/// Why the grant's labels and annotations can't be set on this pod.
pub(super) fn refusal(grant: &Grant, pod: &PodView) -> Option<Reason<'static>> {
    if let Some(key) = grant.annotations.keys().find(|key| !is_written(key)) {
        let text = format!("agents write no annotations of {}, such as {key}", OF_OTHERS.join(", "));
        return Some(("UnsupportedAnnotation", text));
    }
    let key = changed(own(grant), &pod.annotations).or(changed(grant.labels.iter(), &pod.labels))?;
    Some(("MetadataChanged", format!("{key} has neither the value before nor the one after")))
}

/// Annotations whose values are known of every pod.
pub(super) fn own(grant: &Grant) -> impl Iterator<Item = (&String, &Change)> {
    grant.annotations.iter().filter(|(key, _)| Grant::is_own_annotation(key))
}

/// A key whose value is neither the one before nor the one after. What is absent before is not tested, as in the patch.
fn changed<'a>(
    mut changes: impl Iterator<Item = (&'a String, &'a Change)>,
    present: &BTreeMap<String, String>,
) -> Option<&'a str> {
    let is_known = |(key, change): &(&String, &Change)| {
        let value = present.get(*key);
        change.from.is_none() || value == change.from.as_ref() || value == change.to.as_ref()
    };
    changes.find(|change| !is_known(change)).map(|(key, _)| key.as_str())
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
        let place: [&str; 3] = ["metadata", map, key];
        let is_of_template = map == "annotations" && !Grant::is_own_annotation(key);
        patch = match (from, to) {
            // Others may write it, too, and nobody here knows its value: it becomes what the template says, also where it is gone.
            (_, Some(to)) if is_of_template => patch.add(&place, to),
            (Some(_), None) if is_of_template => patch.add(&place, "").remove(&place),
            (from, to) => patch.change(&place, from, to),
        };
    }
    patch
}
