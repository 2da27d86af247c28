//! What makes no sense in a SidecarSet, or is not done here. Whether the API server takes its containers is asked of the API server.

use std::collections::BTreeSet;

use hitless_api::names::{self, PREFIX};
use hitless_api::{SidecarSetSpec, selector};
use serde_json::Value;

use super::names::{BASE, CANARY, HASH, INJECTED_LIST};
use crate::field::items;

/// Upstream's limit: it is a part of labels.
const LONGEST_NAME: usize = 63;

/// The first thing that makes no sense: a clause for people.
pub(super) fn of(name: &str, spec: &SidecarSetSpec, is_canary: bool, base: Option<&str>) -> Option<String> {
    if name.len() > LONGEST_NAME || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
        return Some(format!(
            "its name is longer than {LONGEST_NAME} characters, or has others than letters, digits and -"
        ));
    }
    match (is_canary, base) {
        (true, None) => return Some(format!("{CANARY} is true, and {BASE} names no other SidecarSet")),
        (true, Some(base)) if base == name => return Some(format!("{BASE} names the SidecarSet itself")),
        (true | false, _) => {}
    }
    selectors(spec)
        .or_else(|| containers(spec))
        .or_else(|| mounts(spec))
        .or_else(|| annotations(spec))
        .or_else(|| undone(spec))
}

fn selectors(spec: &SidecarSetSpec) -> Option<String> {
    if let Some(namespace) = spec.namespace.as_deref().filter(|namespace| names::is_system(namespace)) {
        return Some(format!("spec.namespace: pods of {namespace} never get containers"));
    }
    let selectors = [("selector", Some(&spec.selector)), ("namespaceSelector", spec.namespace_selector.as_ref())];
    selectors.into_iter().find_map(|(field, own)| Some(format!("spec.{field}: {}", selector::fault(own?)?)))
}

/// All containers, init containers first.
pub(super) fn all(spec: &SidecarSetSpec) -> impl Iterator<Item = (&'static str, &Value)> {
    let init = spec.init_containers.iter().map(|each| ("initContainers", each));
    init.chain(spec.containers.iter().map(|each| ("containers", each)))
}

fn containers(spec: &SidecarSetSpec) -> Option<String> {
    let mut seen = BTreeSet::new();
    all(spec).find_map(|(list, container)| {
        let Some(name) = container["name"].as_str().filter(|name| !name.is_empty()) else {
            return Some(format!("spec.{list}: a container has no name"));
        };
        let policy = &container["podInjectPolicy"];
        if !policy.is_null() && policy != "BeforeAppContainer" && policy != "AfterAppContainer" {
            return Some(format!("spec.{list}[{name}].podInjectPolicy: use BeforeAppContainer or AfterAppContainer"));
        }
        (!seen.insert(name)).then(|| format!("spec.{list}[{name}]: there are two containers of this name"))
    })
}

/// Upstream's rule: what a container mounts is among the SidecarSet's own volumes.
fn mounts(spec: &SidecarSetSpec) -> Option<String> {
    let has = |name: &Value| spec.volumes.iter().any(|volume| volume["name"] == *name);
    all(spec).find_map(|(list, container)| {
        let mounted = items(&container["volumeMounts"]).chain(items(&container["volumeDevices"]));
        let missing = mounted.map(|mount| &mount["name"]).find(|name| !has(name))?;
        let (name, missing) = (&container["name"], missing.as_str().unwrap_or_default());
        Some(format!(
            "spec.{list}[{}] mounts {missing}, which is not in spec.volumes",
            name.as_str().unwrap_or_default()
        ))
    })
}

fn annotations(spec: &SidecarSetSpec) -> Option<String> {
    let mut seen = BTreeSet::new();
    spec.patch_pod_metadata.iter().flat_map(|patch| patch.annotations.keys()).find_map(|key| {
        if key.starts_with(PREFIX) || key == INJECTED_LIST || key.starts_with(HASH) {
            return Some(format!("spec.patchPodMetadata: {key} is not a SidecarSet's to set"));
        }
        (!seen.insert(key)).then(|| format!("spec.patchPodMetadata has {key} twice"))
    })
}

/// What upstream does, and is not done here.
fn undone(spec: &SidecarSetSpec) -> Option<String> {
    if spec.injection_strategy.as_ref().is_some_and(|strategy| strategy.revision.is_some()) {
        return Some(
            "spec.injectionStrategy.revision is not done here: new pods get what the SidecarSet says now".to_owned(),
        );
    }
    if spec.patch_pod_metadata.iter().any(|patch| patch.patch_policy.as_deref() == Some("MergePatchJson")) {
        return Some(
            "spec.patchPodMetadata: patchPolicy MergePatchJson is not done here; use Retain or Overwrite".to_owned(),
        );
    }
    all(spec).find_map(|(list, container)| {
        let name = container["name"].as_str().unwrap_or_default();
        if container["upgradeStrategy"]["upgradeType"] == "HotUpgrade" {
            let text = "upgradeType HotUpgrade is not done here; use ColdUpgrade";
            return Some(format!("spec.{list}[{name}].upgradeStrategy: {text}"));
        }
        let text = "is not done here; give the container its resources";
        (!container["resourcesPolicy"].is_null()).then(|| format!("spec.{list}[{name}].resourcesPolicy {text}"))
    })
}
