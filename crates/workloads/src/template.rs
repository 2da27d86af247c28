//! A pod template as raw JSON: fields that no type of ours knows must survive being copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::large::{MOST_VALUES, TooLarge};
use hitless_api::names::{annotations, labels as names};
use hitless_api::{digest, json_text, selector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use crate::annotations::Annotations;
use crate::field::set;
use crate::shape::Shape;
use crate::{containers, large};

/// `spec.template` of a Deployment or ReplicaSet, without what only tells ReplicaSets apart: the label `pod-template-hash`
/// and the annotation `hitless.dev/mixed`, which are kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    content: Arc<Value>,
    shape: Shape,
    hash: Option<String>,
    mixed: bool,
    large: Option<TooLarge>,
}

impl Template {
    /// Takes a template as the API server returns it, or what stands in for one that is too large.
    #[must_use]
    pub fn new(mut value: Value) -> Self {
        if let Some((large, digest)) = value.as_str().and_then(large::marked) {
            return Self::unknown(large, digest.to_owned());
        }
        let hash = take(&mut value, "labels", names::POD_TEMPLATE_HASH);
        let mixed = take(&mut value, "annotations", annotations::MIXED).is_some();
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            // Written by older API servers where newer ones write nothing.
            meta.retain(|_, value| !value.is_null());
        }
        let values = json_text::count_tree(&value);
        if values > MOST_VALUES {
            return Self::unknown(TooLarge(values), digest::short(&value));
        }
        Self { shape: Shape::of(&value), content: Arc::new(value), hash, mixed, large: None }
    }

    /// One of which nothing is kept but which one it is.
    fn unknown(large: TooLarge, revision: String) -> Self {
        // It can't be brought to any other in a running pod, nor any other to it.
        let fixed = revision.clone();
        let annotations = Annotations::of(&Value::Null);
        let shape = Shape { revision, fixed, images: BTreeMap::new(), annotations, labels: BTreeMap::new() };
        Self { content: Arc::default(), shape, hash: None, mixed: false, large: Some(large) }
    }

    /// Why it is not looked after, if it is too large: then nothing of it is known but its revision, and it is never written.
    #[must_use]
    pub const fn too_large(&self) -> Option<TooLarge> {
        self.large
    }

    /// Hash of the content: what `hitless.dev/revision` on a pod means.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.shape.revision
    }

    /// Label `pod-template-hash`, which a Deployment's own template lacks.
    #[must_use]
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// Whether it carries `hitless.dev/mixed`: pods of a rollout that has not ended stand behind it.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.mixed
    }

    /// The template itself, without hash and mark.
    #[must_use]
    pub fn content(&self) -> &Value {
        &self.content
    }

    /// The same without its content: its shape tells revisions apart.
    pub(crate) fn without_content(&self) -> Self {
        Self { content: Arc::default(), ..self.clone() }
    }

    /// Whether it is no one [`Self::without_content`]: all is known of it that will ever be.
    #[must_use]
    pub(crate) fn has_content(&self) -> bool {
        self.large.is_some() || !self.content.is_null()
    }

    /// Name and image of each container that runs as long as the pod does, in order; entries without a name are left out.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        containers::running(&self.content).filter_map(|container| {
            Some((container.get("name")?.as_str()?, container.get("image").and_then(Value::as_str).unwrap_or_default()))
        })
    }

    /// For people: its images, and the revision, which tells restarts apart.
    #[must_use]
    pub fn label(&self) -> String {
        if self.large.is_some() {
            return format!("a template that is too large to look after (revision {})", self.revision());
        }
        let images: Vec<&str> = self.images().map(|(_, image)| image).collect();
        format!("{} (revision {})", images.join(", "), self.revision())
    }

    /// Image of one container.
    #[must_use]
    pub fn image(&self, container: &str) -> Option<&str> {
        self.images().find(|(name, _)| *name == container).map(|(_, image)| image)
    }

    /// The same under another revision's name: what decorations add is not part of it.
    pub(crate) fn with_revision(self, revision: &str) -> Self {
        let shape = Shape { revision: revision.to_owned(), ..self.shape };
        Self { shape, ..self }
    }

    /// What has to be known of it once it is left.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// This template as it was in another shape that differs only in what can be changed in a running pod.
    #[must_use]
    pub fn reshaped(&self, shape: &Shape) -> Value {
        let mut value = Value::clone(&self.content);
        containers::each_running(&mut value, |container| {
            let image = container["name"].as_str().and_then(|name| shape.image(name));
            if let (Some(image), Some(container)) = (image.map(ToOwned::to_owned), container.as_object_mut()) {
                container.insert("image".to_owned(), image.into());
            }
        });
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("annotations");
            meta.extend(shape.annotations.to_field().map(|all| ("annotations".to_owned(), all)));
            meta.remove("labels");
            // Absent and empty are the same.
            meta.extend((!shape.labels.is_empty()).then(|| ("labels".to_owned(), json!(shape.labels))));
        }
        value
    }

    /// Value of `hitless.dev/mixed` in it. It reaches the pods that are made meanwhile, and tells later which annotations they were made
    /// with, and of which revision they are.
    #[must_use]
    pub fn mixed_mark(&self) -> String {
        format!("{}.{}", self.shape.annotations.digest(), self.revision())
    }

    /// The template as a ReplicaSet has it: with its hash, and marked as mixed or not.
    #[must_use]
    pub fn for_replica_set(&self, hash: Option<&str>, mixed: bool) -> Value {
        let mut value = Value::clone(&self.content);
        if let Some(hash) = hash {
            set(&mut value, &["metadata", "labels", names::POD_TEMPLATE_HASH], hash);
        }
        if mixed {
            set(&mut value, &["metadata", "annotations", annotations::MIXED], self.mixed_mark());
        }
        value
    }
}

/// Removes one entry of a map in the metadata, and the map if it is empty then: absent and empty are the same.
/// Why a workload's selector does not find the pods of its template, with these labels; and what to do.
pub(crate) fn not_selected(own: &LabelSelector, labels: &BTreeMap<String, String>) -> Option<String> {
    if selector::is_empty(own) {
        return Some("spec.selector is empty; name a label of the template there".to_owned());
    }
    match selector::read(own) {
        Err(fault) => Some(format!("spec.selector: {fault}")),
        Ok(wanted) => (!wanted.matches(labels))
            .then(|| format!("spec.selector ({wanted}) does not select the labels of spec.template; make them match")),
    }
}

fn take(template: &mut Value, map: &str, key: &str) -> Option<String> {
    let meta = template.get_mut("metadata")?.as_object_mut()?;
    let entries = meta.get_mut(map)?.as_object_mut()?;
    let taken = entries.remove(key);
    if entries.is_empty() {
        meta.remove(map);
    }
    taken.map(|value| value.as_str().unwrap_or_default().to_owned())
}
