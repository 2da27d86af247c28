//! A pod as admission makes it: what the policy in `manifests/kruise/policies` does, in Rust. The policy is compared with this on a real API
//! server, and this says of a SidecarSet alone what the API server is asked about (docs/contract.md#sidecarset).

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::{InjectedSet, selector};
use serde_json::{Map, Value, json};

use super::names::{HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, IS_INJECTED, SIDECAR_SETS};
use crate::field::items;

/// Fields of a sidecar that are not a container's, and those that are made from several places.
const NOT_COPIED: [&str; 9] = [
    "podInjectPolicy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "shareVolumeDevicePolicy",
    "transferEnv",
    "resourcesPolicy",
    "env",
    "volumeMounts",
    "volumeDevices",
];

/// Where a pod is to be made.
pub struct PodPlace<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The labels of that.
    pub labels: &'a BTreeMap<String, String>,
}

/// The pod with all that these SidecarSets, in the order of their names, put into it.
#[must_use]
pub fn render(pod: Value, sets: &[InjectedSet], place: &PodPlace<'_>) -> Value {
    let labels = strings(&pod["metadata"]["labels"]);
    let is_selected = |set: &&InjectedSet| {
        let selects =
            |own: &_, labels: &BTreeMap<String, String>| selector::read(own).is_ok_and(|own| own.matches(labels));
        set.namespace.as_deref().is_none_or(|own| own == place.namespace)
            && selects(&set.selector, &labels)
            && set.namespace_selector.as_ref().is_none_or(|own| selects(own, place.labels))
    };
    let selecting: Vec<&InjectedSet> = sets.iter().filter(is_selected).collect();
    let has_canary = |set: &InjectedSet| selecting.iter().any(|other| other.base.as_deref() == Some(&set.name));
    let sets: Vec<&InjectedSet> = selecting.iter().copied().filter(|set| !has_canary(set)).collect();
    if sets.is_empty() { pod } else { with(pod, &sets) }
}

/// The pod with all that these put into it.
pub(super) fn with(mut pod: Value, sets: &[&InjectedSet]) -> Value {
    let sources = Sources::of(&pod);
    put_containers(&mut pod, sets, &sources);
    put_volumes(&mut pod, sets);
    let secrets = sets.iter().flat_map(|set| &set.image_pull_secrets).map(|secret| json!({"name": secret.name}));
    put_named(&mut pod, "imagePullSecrets", secrets.collect());
    put_annotations(&mut pod, sets);
    pod
}

/// What containers get from the pod's own.
struct Sources {
    own: Vec<Value>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Sources {
    fn of(pod: &Value) -> Self {
        let is_injected = |container: &Value| {
            items(&container["env"]).any(|env| env["name"] == IS_INJECTED && env["value"] == "true")
        };
        let own = items(&pod["spec"]["containers"]).filter(|container| !is_injected(container)).cloned().collect();
        let of = |field: &str| strings(&pod["metadata"][field]);
        Self { own, labels: of("labels"), annotations: of("annotations") }
    }

    /// The container that an entry of `transferEnv` names.
    fn named(&self, transfer: &Value) -> String {
        if let Some(name) = transfer["sourceContainerName"].as_str().filter(|name| !name.is_empty()) {
            return name.to_owned();
        }
        let path = transfer["sourceContainerNameFrom"]["fieldRef"]["fieldPath"].as_str().unwrap_or_default();
        let parts: Vec<&str> = path.split('\'').collect();
        let from = match parts.as_slice() {
            [head, key, _] if head.starts_with("metadata.labels[") => self.labels.get(*key),
            [head, key, _] if head.starts_with("metadata.annotations[") => self.annotations.get(*key),
            _ => None,
        };
        from.cloned().unwrap_or_default()
    }

    fn transferred(&self, sidecar: &Value) -> Vec<Value> {
        let mut all = Vec::new();
        for transfer in items(&sidecar["transferEnv"]) {
            let is_named = |env: &&Value| {
                env["name"] == transfer["envName"] || items(&transfer["envNames"]).any(|name| *name == env["name"])
            };
            let source = self.named(transfer);
            for own in self.own.iter().filter(|own| own["name"] == source.as_str()) {
                let mut named: Vec<&Value> = items(&own["env"]).filter(is_named).collect();
                named.sort_by_key(|env| env["name"].as_str().unwrap_or_default());
                all.extend(named.into_iter().cloned());
            }
        }
        if is_enabled(&sidecar["shareVolumePolicy"]) {
            for own in &self.own {
                let is_used = |env: &&Value| {
                    let variable = format!("$({})", env["name"].as_str().unwrap_or_default());
                    items(&own["volumeMounts"])
                        .any(|mount| mount["subPathExpr"].as_str().is_some_and(|path| path.contains(&variable)))
                };
                all.extend(items(&own["env"]).filter(is_used).cloned());
            }
        }
        all
    }

    fn shared(&self, policy: &Value, list: &str) -> Vec<Value> {
        let own = if is_enabled(policy) { self.own.as_slice() } else { &[] };
        own.iter().flat_map(|own| items(&own[list])).cloned().collect()
    }

    /// The container as it is put into the pod.
    fn container(&self, sidecar: &Value) -> Value {
        let copied = sidecar.as_object().into_iter().flatten().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
        let mut container: Map<String, Value> = copied.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut env: Vec<Value> = items(&sidecar["env"]).filter(|env| env["name"] != IS_INJECTED).cloned().collect();
        env.push(json!({"name": IS_INJECTED, "value": "true"}));
        add_new(&mut env, self.transferred(sidecar), "name", &BTreeSet::new());
        let lists = [
            ("volumeMounts", "mountPath", &sidecar["shareVolumePolicy"]),
            ("volumeDevices", "devicePath", &sidecar["shareVolumeDevicePolicy"]),
        ];
        let paths = lists
            .iter()
            .flat_map(|(list, path, _)| items(&sidecar[*list]).map(|each| each[*path].to_string()))
            .collect();
        for (list, path, policy) in lists {
            let mut all: Vec<Value> = items(&sidecar[list]).cloned().collect();
            add_new(&mut all, self.shared(policy, list), path, &paths);
            container.insert(list.to_owned(), json!(all));
        }
        container.insert("env".to_owned(), json!(env));
        Value::Object(container)
    }
}

/// Those whose key none has yet, and that are not taken.
fn add_new(all: &mut Vec<Value>, more: Vec<Value>, key: &str, taken: &BTreeSet<String>) {
    for each in more {
        if !taken.contains(&each[key].to_string()) && !all.iter().any(|known| known[key] == each[key]) {
            all.push(each);
        }
    }
}

fn put_containers(pod: &mut Value, sets: &[&InjectedSet], sources: &Sources) {
    let names = |pod: &Value, list: &str| -> BTreeSet<String> {
        items(&pod["spec"][list]).filter_map(|each| Some(each["name"].as_str()?.to_owned())).collect()
    };
    let (mut taken, mut taken_init) = (names(pod, "initContainers"), names(pod, "containers"));
    let new = |container: &&Value, taken: &mut BTreeSet<String>| taken.insert(name(container).to_owned());
    let containers: Vec<&Value> =
        sets.iter().flat_map(|set| &set.containers).filter(|each| new(each, &mut taken)).collect();
    taken_init.extend(containers.iter().map(|each| name(each).to_owned()));
    let init = sets.iter().flat_map(|set| &set.init_containers).filter(|each| new(each, &mut taken_init));
    let mut init: Vec<&Value> = init.collect();
    init.sort_by_key(|each| name(each));
    put(pod, "containers", &containers, "BeforeAppContainer", sources);
    put(pod, "initContainers", &init, "AfterAppContainer", sources);
}

/// One of the name that a container has replaces it; others come in front or at the end.
fn put(pod: &mut Value, list: &str, sidecars: &[&Value], usual: &str, sources: &Sources) {
    let mut all: Vec<Value> = items(&pod["spec"][list]).cloned().collect();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for sidecar in sidecars {
        let container = sources.container(sidecar);
        let is_before = sidecar["podInjectPolicy"].as_str().unwrap_or(usual) == "BeforeAppContainer";
        match all.iter_mut().find(|each| each["name"] == container["name"]) {
            Some(own) => *own = container,
            None if is_before => before.push(container),
            None => after.push(container),
        }
    }
    let all: Vec<Value> = before.into_iter().chain(all).chain(after).collect();
    if !all.is_empty() {
        pod["spec"][list] = json!(all);
    }
}

/// Those that one of the containers of the same SidecarSet mounts.
fn put_volumes(pod: &mut Value, sets: &[&InjectedSet]) {
    let volumes = sets.iter().flat_map(|set| {
        let is_mounted = |volume: &&Value| {
            set.containers.iter().chain(&set.init_containers).any(|container| {
                let mut mounted = items(&container["volumeMounts"]).chain(items(&container["volumeDevices"]));
                mounted.any(|mount| mount["name"] == volume["name"])
            })
        };
        set.volumes.iter().filter(is_mounted).cloned()
    });
    put_named(pod, "volumes", volumes.collect());
}

fn put_named(pod: &mut Value, list: &str, more: Vec<Value>) {
    let mut all: Vec<Value> = items(&pod["spec"][list]).cloned().collect();
    add_new(&mut all, more, "name", &BTreeSet::new());
    if !all.is_empty() {
        pod["spec"][list] = json!(all);
    }
}

fn put_annotations(pod: &mut Value, sets: &[&InjectedSet]) {
    let mut annotations = strings(&pod["metadata"]["annotations"]);
    for patch in sets.iter().flat_map(|set| &set.patch_pod_metadata) {
        let retains = patch.patch_policy.as_deref().unwrap_or("Retain") == "Retain";
        for (key, value) in &patch.annotations {
            if !retains || !annotations.contains_key(key) {
                annotations.insert(key.clone(), value.clone());
            }
        }
    }
    let joined = |each: &dyn Fn(&InjectedSet) -> String| sets.iter().map(|set| each(set)).collect::<Vec<_>>().join(",");
    let json = |of: fn(&InjectedSet) -> &str| format!("{{{}}}", joined(&|set| format!("\"{}\":{}", set.name, of(set))));
    annotations.insert(SIDECAR_SETS.to_owned(), joined(&|set| format!("{}={}", set.name, set.hash)));
    annotations.insert(INJECTED_LIST.to_owned(), joined(&|set| set.name.clone()));
    annotations.insert(HASH.to_owned(), json(|set| &set.pod_hash));
    annotations.insert(HASH_WITHOUT_IMAGE.to_owned(), json(|set| &set.pod_hash_without_image));
    pod["metadata"]["annotations"] = json!(annotations);
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

fn is_enabled(policy: &Value) -> bool {
    policy["type"] == "enabled"
}

fn strings(map: &Value) -> BTreeMap<String, String> {
    let all = map.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
