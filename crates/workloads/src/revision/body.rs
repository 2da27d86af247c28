//! What only ControllerRevisions have.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::field::items;
use crate::shape::Shape;
use crate::template::Template;

/// What only a ControllerRevision has. The template itself is kept only where pods are made from it: a cluster has many of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct RevisionBody {
    /// `revision`: the newest has the highest.
    pub number: i64,
    /// Of the template.
    pub shape: Shape,
    /// The template, if an object of one of those kinds has the revision.
    pub template: Option<Arc<Value>>,
    /// The claim templates, if a CollaSet has the revision.
    pub claims: Vec<Value>,
}

/// Kinds whose pods, or what pods have beside the template, are made here of it.
const KEPT: [&str; 3] = ["CollaSet", "PodDecoration", "CloneSet"];

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    revision: i64,
    #[serde(default)]
    data: Value,
}

impl From<Raw> for RevisionBody {
    fn from(mut raw: Raw) -> Self {
        let mut template = raw.data["spec"]["template"].take();
        let claims = raw.data["spec"]["volumeClaimTemplates"].take();
        if let Some(template) = template.as_object_mut() {
            // The native controllers keep a patch that replaces the whole template.
            template.remove("$patch");
        }
        let owners = items(&raw.metadata["ownerReferences"]);
        let is_kept = owners.into_iter().any(|owner| KEPT.iter().any(|kind| owner["kind"] == *kind));
        let kept = (is_kept && template.is_object()).then(|| Arc::new(template.clone()));
        let claims = match claims {
            Value::Array(claims) if is_kept => claims,
            _ => Vec::new(),
        };
        Self { number: raw.revision, shape: Template::new(template).shape().clone(), template: kept, claims }
    }
}
