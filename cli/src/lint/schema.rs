//! What the API server would say of an object: unknown fields, wrong types, values that are not allowed.

use hitless_api::names;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::finding::Finding;
use super::object::{Disruption, schema_of};
use crate::files::{Node, Object};

pub(super) fn check(object: &Object) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_ours = schema_of(object.group(), object.kind()).is_some();
    let is_known = is_ours || matches!(object.group(), "" | "apps" | "policy");
    if is_known && object.name().is_empty() && object.value["metadata"]["generateName"].is_null() {
        found.push((object.node.line_of(&["metadata"]), "has no metadata.name; give it one".to_owned()));
    }
    let versions = match object.group() {
        "apps.kusionstack.io" | names::GROUP => Some("v1alpha1"),
        "policy" | "apps" => Some("v1"),
        _ => None,
    };
    let version = object.value["apiVersion"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    if let Some(known) = versions.filter(|known| *known != version) {
        let text = format!("apiVersion {version} of group {} is not known; use {known}", object.group());
        found.push((object.node.line_of(&["apiVersion"]), text));
    }
    match (object.group(), object.kind()) {
        ("policy", "PodDisruptionBudget") => typed::<Disruption>(object, &mut found),
        ("apps", "Deployment") => typed::<Deployment>(object, &mut found),
        ("apps", "StatefulSet") => typed::<StatefulSet>(object, &mut found),
        ("apps", "DaemonSet") => typed::<DaemonSet>(object, &mut found),
        ("apps", "ReplicaSet") => typed::<ReplicaSet>(object, &mut found),
        ("", "Pod") => typed::<Pod>(object, &mut found),
        (group, kind) => {
            if let Some(schema) = schema_of(group, kind) {
                walk("spec", object.node.get("spec"), &schema["properties"]["spec"], &mut found);
                let known = ["apiVersion", "kind", "metadata", "spec", "status"];
                let top = object.node.entries().iter().filter(|(key, _)| !known.contains(&key.as_str()));
                found.extend(top.map(|(key, value)| (value.line, unknown(key, &known))));
                if object.node.get("spec").is_none() {
                    found.push((object.node.line, "has no spec; it limits nothing".to_owned()));
                }
            }
        }
    }
    found.into_iter().map(|(line, text)| Finding::error(object, line, text)).collect()
}

fn unknown(path: &str, known: &[&str]) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    let same = |text: &str| text.to_lowercase();
    let close = known.iter().find(|known| same(known) == same(name)).or_else(|| {
        known.iter().find(|known| same(known).starts_with(&same(name)) || same(name).starts_with(&same(known)))
    });
    let hint = match close {
        Some(close) => format!("did you mean {close}?"),
        None => format!("known are: {}", known.join(", ")),
    };
    format!("field {path} is not known and would be dropped; {hint}")
}

type Found = Vec<(u64, String)>;

/// Compares a value with the schema of its CRD.
fn walk(path: &str, node: Option<&Node>, schema: &Value, found: &mut Found) {
    let Some(node) = node else { return };
    let value = node.to_json();
    if value.is_null() {
        return;
    }
    if let Some(text) = wrong_value(&value, schema) {
        found.push((node.line, format!("{path} {text}")));
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        for (key, child) in node.entries() {
            let path = format!("{path}.{key}");
            match properties.get(key) {
                Some(schema) => walk(&path, Some(child), schema, found),
                None => found.push((child.line, unknown(&path, &known))),
            }
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if node.get(required).is_none() {
                found.push((node.line, format!("{path}.{required} is missing; it is required")));
            }
        }
    }
    for (index, item) in node.items().iter().enumerate() {
        walk(&format!("{path}[{index}]"), Some(item), &schema["items"], found);
    }
}

/// Why the value itself, without what is in it, is not allowed.
fn wrong_value(value: &Value, schema: &Value) -> Option<String> {
    let int_or_string = schema["x-kubernetes-int-or-string"] == true;
    let fits = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ if int_or_string => value.is_i64() || value.is_u64() || value.is_string(),
        _ => true,
    };
    if !fits {
        let wanted = if int_or_string { "a whole number or a percentage" } else { schema["type"].as_str()? };
        return Some(format!("is {value}; it must be {wanted}"));
    }
    let allowed: Vec<&Value> = schema["enum"].as_array().into_iter().flatten().collect();
    if !allowed.is_empty() && !allowed.contains(&value) {
        let allowed: Vec<String> = allowed.iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect();
        return Some(format!("is {value}; use {}", allowed.join(", ")));
    }
    let number = value.as_f64();
    if let (Some(number), Some(least)) = (number, schema["minimum"].as_f64())
        && number < least
    {
        return Some(format!("is {value}; it must be {least} or more"));
    }
    if let (Some(number), Some(most)) = (number, schema["maximum"].as_f64())
        && number > most
    {
        return Some(format!("is {value}; it must be {most} or less"));
    }
    let length =
        value.as_str().map(|text| text.chars().count() as u64).or(value.as_array().map(|all| all.len() as u64));
    if let (Some(length), Some(most)) = (length, schema["maxLength"].as_u64().or(schema["maxItems"].as_u64()))
        && length > most
    {
        return Some(format!("is too long ({length}); at most {most} fit"));
    }
    (length == Some(0) && schema["minLength"].as_u64() > Some(0)).then(|| "is empty; it must not be".to_owned())
}

/// For kinds of Kubernetes itself: what our types don't keep is unknown to them.
fn typed<T: DeserializeOwned + Serialize>(object: &Object, found: &mut Found) {
    let parsed = serde_json::from_value::<T>(object.node.to_json()).and_then(serde_json::to_value);
    match parsed {
        Err(error) => found.push((object.node.line, format!("can't be understood: {error}"))),
        Ok(kept) => dropped("", &object.node, &kept, found),
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
