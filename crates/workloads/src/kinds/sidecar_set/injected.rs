//! What a SidecarSet puts into pods, as admission reads it.

use hitless_api::{InjectedSet, digest};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::SidecarSet;
use super::fault::all;

/// What new pods are to get of it.
pub(super) fn of(set: SidecarSet<'_>, now: Timestamp) -> InjectedSet {
    let (id, spec) = (&set.object.id, &set.body.spec);
    let hash = digest::short(&versioned(set, Value::clone));
    let hash_without_image = digest::short(&versioned(set, |_| Value::from("")));
    // Upstream's list of what is updated: containers, and native sidecars.
    let mut names: Vec<&str> =
        all(spec).filter(|(list, each)| *list == "containers" || is_native(each)).filter_map(name).collect();
    names.sort_unstable();
    let entry = |hash: &str| {
        json!({"updateTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "hash": hash, "sidecarSetName": id.name, "sidecarList": names})
            .to_string()
    };
    InjectedSet {
        name: id.name.clone(),
        uid: id.uid.clone(),
        found: None,
        generation: set.object.generation,
        base: set.body.base.clone(),
        selector: spec.selector.clone(),
        namespace_selector: spec.namespace_selector.clone(),
        namespace: spec.namespace.clone(),
        init_containers: spec.init_containers.clone(),
        containers: spec.containers.clone(),
        volumes: spec.volumes.clone(),
        image_pull_secrets: spec.image_pull_secrets.clone(),
        patch_pod_metadata: spec.patch_pod_metadata.clone(),
        pod_hash: entry(&hash),
        pod_hash_without_image: entry(&hash_without_image),
        hash: format!("{hash}.{hash_without_image}"),
    }
}

fn name<'a>((_, container): (&str, &'a Value)) -> Option<&'a str> {
    container["name"].as_str()
}

fn is_native(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// What makes versions of it differ: its containers, and its init containers if one of them runs as long as the pod does (upstream's rule).
fn versioned(set: SidecarSet<'_>, image: impl Fn(&Value) -> Value) -> Value {
    let with = |containers: &[Value]| -> Vec<Value> {
        let each = |container: &Value| {
            let mut container = container.clone();
            container["image"] = image(&container["image"]);
            container
        };
        containers.iter().map(each).collect()
    };
    let spec = &set.body.spec;
    let mut versioned = json!({"containers": with(&spec.containers)});
    if spec.init_containers.iter().any(is_native) {
        versioned["initContainers"] = json!(with(&spec.init_containers));
    }
    versioned
}
