//! What marks a pod that has decorations: a label for each of them, and one annotation that lists all.

use std::collections::BTreeMap;

use hitless_api::names::annotations::DECORATIONS;
use hitless_api::pod::PodView;
use serde_json::{Value, json};

use super::Choice;
use super::names::{LABEL, label};
use crate::field::set;

/// The labels that the pod has.
pub(super) fn on(pod: &PodView) -> impl Iterator<Item = (&String, &String)> {
    pod.labels.range(LABEL.to_owned()..).take_while(|(key, _)| key.starts_with(LABEL))
}

/// The marks of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) labels: BTreeMap<String, String>,
    /// Value of the annotation; none where there are no decorations.
    pub(crate) annotation: Option<String>,
}

impl Marks {
    /// Of a pod that has these.
    pub(crate) fn of(choice: &Choice) -> Self {
        let labels = choice.iter().map(|(name, revision)| (label(name), revision.clone())).collect();
        let list: Vec<Value> =
            choice.iter().map(|(name, revision)| json!({"name": name, "revision": revision})).collect();
        let annotation = (!list.is_empty()).then(|| Value::from(list).to_string());
        Self { labels, annotation }
    }

    /// Puts them on a pod that is to be made. Those that its template brings go: the pod would never have what it is to have.
    pub(crate) fn put_on(&self, pod: &mut Value) {
        if let Some(labels) = pod.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|name, _| !name.starts_with(LABEL));
        }
        for (key, value) in &self.labels {
            set(pod, &["metadata", "labels", key], value.as_str());
        }
        if let Some(annotation) = &self.annotation {
            set(pod, &["metadata", "annotations", DECORATIONS], annotation.as_str());
        }
    }
}
