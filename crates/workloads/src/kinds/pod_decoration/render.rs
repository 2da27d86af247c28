//! A template with what decorations add to it.

use std::collections::BTreeMap;

use hitless_api::pod_decoration::{DecorationAffinity, DecorationMetadata, DecorationTemplate, PrimaryContainer};
use serde_json::{Map, Value};

use crate::field::{change_list, items, set};

/// The template of a pod that gets these, one after the other.
pub(super) fn render(template: &Value, decorations: &[DecorationTemplate]) -> Value {
    let mut pod = template.clone();
    let own: Vec<String> = names(&template["spec"]["containers"]);
    for each in decorations {
        each.metadata.iter().for_each(|with| metadata(&mut pod, with));
        add(&mut pod, "initContainers", &each.init_containers, |known, new| known["name"] == new["name"]);
        // Those of the pod's own template: what another decoration has brought is that one's.
        each.primary_containers.iter().for_each(|with| primary(&mut pod, &own, with));
        containers(&mut pod, &each.containers);
        put(&mut pod, &["spec", "volumes"], &each.volumes);
        if let Some(with) = &each.affinity {
            affinity(&mut pod, with);
        }
        add(&mut pod, "tolerations", &each.tolerations, |known, new| known == new);
        if let Some(name) = &each.runtime_class_name {
            set(&mut pod, &["spec", "runtimeClassName"], name.as_str());
        }
    }
    pod
}

fn names(containers: &Value) -> Vec<String> {
    items(containers).filter_map(|each| each["name"].as_str().map(ToOwned::to_owned)).collect()
}

fn metadata(pod: &mut Value, with: &DecorationMetadata) {
    let policy = with.patch_policy.as_deref().unwrap_or("Retain");
    for (field, all) in [("labels", &with.labels), ("annotations", &with.annotations)] {
        merge(pod, field, all, policy);
    }
}

fn merge(pod: &mut Value, field: &str, with: &BTreeMap<String, String>, policy: &str) {
    for (key, value) in with {
        let known = pod["metadata"][field][key].as_str();
        let value = match (policy, known) {
            ("Overwrite", _) | (_, None) => value.clone(),
            ("MergePatchJson", Some(known)) => merged(known, value),
            (_, Some(_)) => continue,
        };
        set(pod, &["metadata", field, key], value);
    }
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
    let mut fields = match to.take() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge_patch(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
    *to = fields.into();
}

fn containers(pod: &mut Value, with: &[Value]) {
    if with.is_empty() {
        return;
    }
    change_list(pod, &["spec", "containers"], |all| {
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
    });
}

fn primary(pod: &mut Value, own: &[String], with: &PrimaryContainer) {
    let meant = match (with.target_policy.as_deref(), &with.name) {
        (Some("All"), _) | (None, None) => own,
        (Some("First"), _) => own.get(..1).unwrap_or_default(),
        (Some("Last"), _) => own.get(own.len().saturating_sub(1)..).unwrap_or_default(),
        (_, Some(name)) => own.iter().position(|each| each == name).map_or(&[][..], |at| &own[at..=at]),
        (_, None) => &[],
    };
    let is_meant =
        |container: &Value| container["name"].as_str().is_some_and(|name| meant.iter().any(|own| own == name));
    change_list(pod, &["spec", "containers"], |all| {
        for container in all.iter_mut().filter(|container| is_meant(container)) {
            if let Some(image) = &with.image {
                set(container, &["image"], image.as_str());
            }
            put(container, &["env"], &with.env);
            put(container, &["volumeMounts"], &with.volume_mounts);
        }
    });
}

fn affinity(pod: &mut Value, with: &DecorationAffinity) {
    if let Some(affinity) = &with.override_affinity {
        set(pod, &["spec", "affinity"], affinity.clone());
    }
    if !with.node_selector_terms.is_empty() {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        change_list(pod, &["spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"], |terms| {
            terms.extend(with.node_selector_terms.iter().cloned());
        });
    }
}

/// Adds each to a list of the spec, but one that is the same as one that is there.
fn add(pod: &mut Value, list: &str, with: &[Value], is_same: impl Fn(&Value, &Value) -> bool) {
    for each in with {
        change_list(pod, &["spec", list], |all| {
            if !all.iter().any(|known| is_same(known, each)) {
                all.push(each.clone());
            }
        });
    }
}

/// Adds each to the list, in place of the one of its name.
fn put(to: &mut Value, path: &[&str], with: &[Value]) {
    for each in with {
        change_list(to, path, |all| match all.iter_mut().find(|known| known["name"] == each["name"]) {
            Some(known) => *known = each.clone(),
            None => all.push(each.clone()),
        });
    }
}

#[cfg(test)]
mod tests;
