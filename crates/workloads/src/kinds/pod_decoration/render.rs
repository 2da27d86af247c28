//! A template with what decorations add to it.

use std::collections::BTreeMap;

use hitless_api::pod_decoration::{DecorationAffinity, DecorationMetadata, DecorationTemplate, PrimaryContainer};
use serde_json::{Map, Value, json};

use crate::template::items;

/// The template of a pod that gets these, one after the other.
pub(super) fn render<'d>(template: &Value, decorations: impl IntoIterator<Item = &'d DecorationTemplate>) -> Value {
    let mut pod = template.clone();
    let own: Vec<String> = names(&template["spec"]["containers"]);
    for each in decorations {
        each.metadata.iter().for_each(|with| metadata(&mut pod["metadata"], with));
        let spec = &mut pod["spec"];
        init_containers(spec, &each.init_containers);
        // Those of the pod's own template: what another decoration has brought is that one's.
        each.primary_containers.iter().for_each(|with| primary(spec, &own, with));
        containers(spec, &each.containers);
        put_all(&mut spec["volumes"], &each.volumes);
        if let Some(with) = &each.affinity {
            affinity(spec, with);
        }
        for toleration in &each.tolerations {
            let all = list(&mut spec["tolerations"]);
            if !all.contains(toleration) {
                all.push(toleration.clone());
            }
        }
        if let Some(name) = &each.runtime_class_name {
            spec["runtimeClassName"] = json!(name);
        }
        // Absent and empty are the same, and only one of them is equal to the template.
        for field in ["volumes", "tolerations", "initContainers"] {
            if spec[field].as_array().is_some_and(Vec::is_empty) || spec[field].is_null() {
                spec.as_object_mut().map(|spec| spec.remove(field));
            }
        }
    }
    pod
}

fn names(containers: &Value) -> Vec<String> {
    items(containers).filter_map(|each| each["name"].as_str().map(ToOwned::to_owned)).collect()
}

fn metadata(to: &mut Value, with: &DecorationMetadata) {
    for (field, all) in [("labels", &with.labels), ("annotations", &with.annotations)] {
        merge(to, field, all, with.patch_policy.as_deref().unwrap_or("Retain"));
    }
}

fn merge(to: &mut Value, field: &str, with: &BTreeMap<String, String>, policy: &str) {
    if with.is_empty() {
        return;
    }
    let known = map(&mut map(to).entry(field).or_insert(Value::Null).clone()).clone();
    let mut next = known.clone();
    for (key, value) in with {
        let value = match (policy, known.get(key).and_then(Value::as_str)) {
            ("Overwrite", _) | (_, None) => value.clone(),
            ("MergePatchJson", Some(known)) => merged(known, value),
            (_, Some(known)) => known.to_owned(),
        };
        next.insert(key.clone(), value.into());
    }
    map(to).insert(field.to_owned(), next.into());
}

/// Both as JSON; where one is none, the new one.
fn merged(known: &str, with: &str) -> String {
    let (Ok(mut known), Ok(patch)) = (serde_json::from_str::<Value>(known), serde_json::from_str::<Value>(with)) else {
        return with.to_owned();
    };
    merge_patch(&mut known, &patch);
    known.to_string()
}

/// RFC 7386.
fn merge_patch(to: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *to = patch.clone();
        return;
    };
    let to = map(to);
    for (key, value) in patch {
        if value.is_null() {
            to.remove(key);
        } else {
            merge_patch(to.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn init_containers(spec: &mut Value, with: &[Value]) {
    let all = list(&mut spec["initContainers"]);
    for each in with {
        if !all.iter().any(|known| known["name"] == each["name"]) {
            all.push(each.clone());
        }
    }
}

fn containers(spec: &mut Value, with: &[Value]) {
    let all = list(&mut spec["containers"]);
    let mut before = Vec::new();
    for each in with {
        let mut container = each.clone();
        let policy = container.as_object_mut().and_then(|each| each.remove("injectPolicy"));
        if let Some(known) = all.iter_mut().find(|known| known["name"] == container["name"]) {
            *known = container;
        } else if policy.as_ref().and_then(Value::as_str) == Some("AfterPrimaryContainer") {
            all.push(container);
        } else {
            before.push(container);
        }
    }
    all.splice(0..0, before);
}

fn primary(spec: &mut Value, own: &[String], with: &PrimaryContainer) {
    let meant = match (with.target_policy.as_deref(), &with.name) {
        (Some("All"), _) | (None, None) => own,
        (Some("First"), _) => own.get(..1).unwrap_or_default(),
        (Some("Last"), _) => own.get(own.len().saturating_sub(1)..).unwrap_or_default(),
        (_, Some(name)) => own.iter().position(|each| each == name).map_or(&[][..], |at| &own[at..=at]),
        (_, None) => &[],
    };
    for container in list(&mut spec["containers"]) {
        if !container["name"].as_str().is_some_and(|name| meant.iter().any(|each| each == name)) {
            continue;
        }
        if let Some(image) = &with.image {
            container["image"] = json!(image);
        }
        for (field, all) in [("env", &with.env), ("volumeMounts", &with.volume_mounts)] {
            if !all.is_empty() {
                put_all(&mut container[field], all);
            }
        }
    }
}

fn affinity(spec: &mut Value, with: &DecorationAffinity) {
    if let Some(affinity) = &with.override_affinity {
        spec["affinity"] = affinity.clone();
    }
    if !with.node_selector_terms.is_empty() {
        let required = &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        list(&mut required["nodeSelectorTerms"]).extend(with.node_selector_terms.iter().cloned());
    }
}

/// Adds each, in place of the one of its name.
fn put_all(to: &mut Value, with: &[Value]) {
    let all = list(to);
    for each in with {
        match all.iter_mut().find(|known| known["name"] == each["name"]) {
            Some(known) => *known = each.clone(),
            None => all.push(each.clone()),
        }
    }
}

/// The value as a list, made one if it is none.
fn list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("it was made a list"),
    }
}

/// The value as a map, made one if it is none.
fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made a map"),
    }
}

#[cfg(test)]
mod tests;
