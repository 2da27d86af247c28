//! What the API server would say of an object: unknown kinds and fields, wrong types, values that are not allowed.

mod value;
mod walk;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::finding::Finding;
use super::ours;
use crate::files::{Misread, Node, Object};

/// Lines and what is wrong there.
type Found = Vec<(u64, String)>;

pub(crate) fn check(object: &Object) -> Vec<Finding> {
    let mut found = Vec::new();
    let ours = ours::definition(object);
    let is_known = ours.is_some() || matches!(object.group(), "" | "apps" | "policy");
    found.extend(nameless(object).filter(|_| is_known));
    found.extend(other_version(object));
    match (object.group(), object.kind()) {
        ("policy", "PodDisruptionBudget") => {
            typed::<PodDisruptionBudget>(&object.node, &mut found);
            found.extend(both_sides(object));
        }
        ("apps", "Deployment") => typed::<Deployment>(&object.node, &mut found),
        ("apps", "StatefulSet") => typed::<StatefulSet>(&object.node, &mut found),
        ("apps", "DaemonSet") => typed::<DaemonSet>(&object.node, &mut found),
        ("apps", "ReplicaSet") => typed::<ReplicaSet>(&object.node, &mut found),
        ("", "Pod") => typed::<Pod>(&object.node, &mut found),
        _ => {
            if let Some(definition) = ours {
                custom(object, &definition.schema, &mut found);
            }
        }
    }
    found.into_iter().map(|(line, text)| Finding::error(object, line, text)).collect()
}

fn nameless(object: &Object) -> Option<(u64, String)> {
    let metadata = &object.value["metadata"];
    // One that is no text has been named by its type.
    let has_none = object.name().is_empty() && metadata["generateName"].is_null();
    let is_absent = metadata["name"].is_null() || metadata["name"].is_string();
    (has_none && is_absent)
        .then(|| (object.node.line_of(&["metadata", "name"]), "has no metadata.name; give it one".to_owned()))
}

fn other_version(object: &Object) -> Option<(u64, String)> {
    let known = match object.group() {
        "policy" | "apps" => "v1",
        _ => ours::definition(object)?.version.as_str(),
    };
    let version = object.value["apiVersion"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let text = || format!("apiVersion {version} of group {} is not known; use {known}", object.group());
    (version != known).then(|| (object.node.line_of(&["apiVersion"]), text()))
}

/// Admission takes one of them only (policy/v1).
fn both_sides(object: &Object) -> Option<(u64, String)> {
    let spec = &object.value["spec"];
    let has_both = !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null();
    let text = "has both minAvailable and maxUnavailable, and the API server takes only one of them; remove one";
    has_both.then(|| (object.node.line_of(&["spec", "minAvailable"]), text.to_owned()))
}

/// An object of ours, by the schema of its CRD.
fn custom(object: &Object, schema: &Value, found: &mut Found) {
    if let Some(metadata) = object.node.get("metadata") {
        typed_at::<ObjectMeta>("metadata", metadata, found);
    }
    walk::walk("spec", object.node.get("spec"), &schema["properties"]["spec"], found);
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let top = object.node.entries().iter().filter(|(key, _)| !known.contains(&key.as_str()));
    found.extend(top.map(|(key, value)| (value.line, walk::unknown(key, &known))));
    if object.node.get("spec").is_none() {
        found.push((object.node.line, "has no spec, so it does nothing; add one".to_owned()));
    }
}

/// For kinds of Kubernetes itself: what our types don't keep is unknown to them.
fn typed<T: DeserializeOwned + Serialize>(node: &Node, found: &mut Found) {
    typed_at::<T>("", node, found);
}

fn typed_at<T: DeserializeOwned + Serialize>(path: &str, node: &Node, found: &mut Found) {
    match serde_path_to_error::deserialize::<_, T>(&node.to_json()) {
        Err(error) => {
            let Misread { line, text } = Misread::of(node, &error);
            found.push((line, if path.is_empty() { text } else { format!("{path}.{text}") }));
        }
        Ok(kept) => dropped(path, node, &serde_json::to_value(kept).unwrap_or_default(), found),
    }
}

fn dropped(path: &str, node: &Node, kept: &Value, found: &mut Found) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, child) in node.entries() {
        match kept.get(key) {
            Some(kept) => dropped(&join(key), child, kept, found),
            None if child.to_json().is_null() => {}
            None => {
                found.push((child.line, format!("field {} is not known and would be dropped; remove it", join(key))));
            }
        }
    }
    for (index, (item, kept)) in node.items().iter().zip(kept.as_array().into_iter().flatten()).enumerate() {
        dropped(&format!("{path}[{index}]"), item, kept, found);
    }
}
