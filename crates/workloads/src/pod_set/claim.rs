//! A PersistentVolumeClaim, and the templates of claims.

use hitless_api::digest;
use serde::Deserialize;
use serde_json::{Value, json};

/// What only a PersistentVolumeClaim has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Raw")]
pub struct ClaimBody {
    /// `status.phase`.
    pub phase: String,
    /// uids of all `metadata.ownerReferences`, in their order.
    pub owners: Vec<String>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    status: Value,
}

impl From<Raw> for ClaimBody {
    fn from(Raw { metadata, status }: Raw) -> Self {
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            phase: status["phase"].as_str().unwrap_or_default().to_owned(),
            owners: owners.map(|owner| owner["uid"].as_str().unwrap_or_default().to_owned()).collect(),
        }
    }
}

/// Claim templates without what only Kubernetes or a serializer adds.
pub(crate) fn normal(templates: &[Value]) -> Vec<Value> {
    let mut templates = templates.to_vec();
    for template in &mut templates {
        if let Some(template) = template.as_object_mut() {
            template.remove("status");
            template.remove("kind");
            template.remove("apiVersion");
            template.get_mut("metadata").and_then(Value::as_object_mut).map(|meta| meta.remove("creationTimestamp"));
        }
    }
    templates
}

/// Tells templates of claims apart.
pub(crate) fn hash(template: &Value) -> String {
    digest::short(&json!(normal(std::slice::from_ref(template))))
}

/// Name of a claim template.
pub(crate) fn name_of(template: &Value) -> &str {
    template["metadata"]["name"].as_str().unwrap_or_default()
}
