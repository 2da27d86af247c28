//! Labels of a template. Another value is set on the running pods, in the same patch as other images or alone, unless somebody would
//! lose or find the pods by it, or has read it when they were made (docs/contract.md#template-labels).

mod selections;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::Change;
use hitless_api::names::{PREFIX, labels as names};
use hitless_api::pod::PodView;

pub(crate) use selections::AllSelections;
pub use selections::{By, Selection, Selections};

use crate::because::Because;
use crate::downward::{self, Metadata, Reader};
use crate::shape::Shape;
use crate::template::Template;

/// Labels by which Kubernetes' own controllers know their pods.
const OF_CONTROLLERS: [&str; 3] =
    [names::POD_TEMPLATE_HASH, names::CONTROLLER_REVISION_HASH, names::POD_TEMPLATE_GENERATION];
/// Domains whose labels Kubernetes and its nodes set on pods or read from them, but for [`FREE`].
const OF_KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Of these the labels only tell people and tools what a pod is (<https://kubernetes.io/docs/reference/labels-annotations-taints/>).
const FREE: &str = "app.kubernetes.io";
/// Domains whose labels we read from pods ourselves.
const READ_HERE: [&str; 2] = ["kusionstack.io", "kruise.io"];
/// Domains whose labels are read when a pod is made, by those who then put something into it.
const READ_WHEN_MADE: [&str; 11] = [
    "istio.io",
    "linkerd.io",
    "kuma.io",
    "dapr.io",
    "hashicorp.com",
    "opentelemetry.io",
    "azure.workload.identity",
    "eks.amazonaws.com",
    "gke.io",
    "admission.datadoghq.com",
    "karpenter.sh",
];

/// Why a label or an annotation is never changed on a running pod, whatever its values are: a clause.
pub(crate) fn never(key: &str) -> Option<&'static str> {
    let (domain, name) = key.split_once('/').unwrap_or(("", key));
    let is_of = |all: &[&str]| {
        all.iter().any(|known| domain.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    if OF_CONTROLLERS.contains(&key) || (domain != FREE && is_of(&OF_KUBERNETES)) {
        Some("because Kubernetes sets it on pods or reads it from them")
    } else if key.starts_with(PREFIX) || is_of(&READ_HERE) {
        Some("because hitless reads it from the pods")
    } else if is_of(&READ_WHEN_MADE) || name.contains("inject") {
        Some("because it is read when a pod is made")
    } else {
        None
    }
}

/// Keys whose values differ, and those that only one has.
pub fn differing<'a>(from: &'a Shape, to: &'a Shape) -> impl Iterator<Item = &'a str> {
    let keys: BTreeSet<&String> = from.labels.keys().chain(to.labels.keys()).collect();
    keys.into_iter().filter(|key| from.labels.get(*key) != to.labels.get(*key)).map(String::as_str)
}

/// Why the labels of one template can't be changed to the other's in running pods; `None` if they can, or are the same.
pub(crate) fn first_native_change(from: &Shape, to: &Template, selections: &Selections<'_>) -> Option<Because> {
    let mut readers: Option<Vec<Reader>> = None;
    let own = differing(from, to.shape()).find_map(|key| {
        if let Some(why) = never(key) {
            return Some(Because::label(key, why));
        }
        let readers = readers.get_or_insert_with(|| downward::readers(to.content(), Metadata::Labels));
        let mut meant = readers.iter().filter(|reader| reader.reads(key));
        let once = meant.find_map(|reader| downward::once(reader, to.content()))?;
        Some(Because::label(
            key,
            &format!("because init container {once} reads it, and runs only when a pod is started"),
        ))
    });
    own.or_else(|| {
        let (key, who) = selections.first_moved(&from.labels, &to.shape().labels)?;
        Some(Because::label(key, &format!("because {who} selects pods by it")))
    })
}

/// The labels of the target that differ from those that the pod was made with or brought to, in what the pod has now. Others write labels
/// of a pod, too, so one that the template has not changed is left as it is.
///
/// `base` is that template; where it is not known, all labels of the target count, and those that one of `known` has besides.
pub(crate) fn changes<'a>(
    pod: &PodView,
    target: &'a Shape,
    base: Option<&'a Shape>,
    known: impl Iterator<Item = &'a Shape>,
) -> BTreeMap<String, Change> {
    let keys: BTreeSet<String> = match base {
        Some(base) => differing(base, target).map(ToOwned::to_owned).collect(),
        None => known.chain([target]).flat_map(|shape| shape.labels.keys()).cloned().collect(),
    };
    let change = |key: String| {
        let (from, to) = (pod.labels.get(&key).cloned(), target.labels.get(&key).cloned());
        (from != to && never(&key).is_none()).then_some((key, Change { from, to }))
    };
    keys.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests;
