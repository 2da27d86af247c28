//! What of a template tells revisions apart.

use std::collections::BTreeMap;

use hitless_api::digest;
use serde_json::Value;

use crate::annotations::Annotations;
use crate::containers;

/// What has to be known of a template that pods were made from or brought to: little, because a cluster keeps many old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Hash of the content, see [`crate::Template::revision`].
    pub revision: String,
    /// Hash of what can't be changed in a running pod, whatever it is changed to.
    pub fixed: String,
    /// Image of each container that runs as long as the pod does.
    pub images: BTreeMap<String, String>,
    /// All annotations: which of them are restart annotations is asked when two templates are compared.
    pub annotations: Annotations,
    /// All labels but the one that only tells ReplicaSets apart: which of them may be changed is asked when two templates are compared.
    pub labels: BTreeMap<String, String>,
}

impl Shape {
    pub(crate) fn of(content: &Value) -> Self {
        let containers = containers::running(content);
        let image = |each: &Value| Some((each["name"].as_str()?.to_owned(), each["image"].as_str()?.to_owned()));
        Self {
            revision: digest::short(content),
            fixed: digest::short(&fixed(content)),
            images: containers.filter_map(image).collect(),
            annotations: Annotations::of(content),
            labels: labels_of(content),
        }
    }

    /// Image of one container.
    #[must_use]
    pub fn image(&self, container: &str) -> Option<&str> {
        self.images.get(container).map(String::as_str)
    }
}

/// A template's content without what can be changed in a running pod, if it is changed to the right thing.
pub(crate) fn fixed(content: &Value) -> Value {
    let mut value = content.clone();
    containers::each_running(&mut value, |container| {
        if let Some(container) = container.as_object_mut() {
            container.remove("image");
        }
    });
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("annotations");
        meta.remove("labels");
    }
    value
}

/// All labels of a template.
fn labels_of(template: &Value) -> BTreeMap<String, String> {
    let all = template["metadata"]["labels"].as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
