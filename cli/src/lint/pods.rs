//! The pods that rules and budgets are checked with, each counted once.

use std::collections::{BTreeMap, BTreeSet};

use hitless_workloads::World;
use serde_json::Value;

use crate::files::Object;
use crate::snapshot::Snapshot;

/// So many are assumed where their number is not known. No words name it.
pub(super) const MANY: u32 = 1000;

/// Pods of one workload, or a pod that is there.
#[derive(Clone, Debug)]
pub(super) struct Pods {
    pub(super) namespace: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) count: u32,
    /// The number is not known, but assumed.
    pub(super) is_assumed: bool,
    /// `<kind>/<name>`.
    pub(super) of: String,
}

/// The pods of all objects of the files. What a workload of the files has made is not counted beside it.
pub(super) fn of_files(objects: &[Object]) -> Vec<Pods> {
    let all: Vec<(Pods, &Object)> = objects.iter().filter_map(|object| Some((made_by(object)?, object))).collect();
    let makers: Vec<&(Pods, &Object)> = all.iter().filter(|(_, object)| object.kind() != "Pod").collect();
    let own = all.iter().filter(|part| !makers.iter().any(|maker| has_made(maker, part)));
    let mut pods = together(own.map(|(pods, object)| {
        let owner = owner(object);
        let of = owner["kind"].as_str().zip(owner["name"].as_str()).map(|(kind, name)| format!("{kind}/{name}"));
        Pods { of: of.unwrap_or_else(|| pods.of.clone()), ..pods.clone() }
    }));
    autoscale(&mut pods, objects);
    pods
}

/// The pods of a cluster. Workloads of the files are as the files say.
pub(super) fn of_cluster(snapshot: &Snapshot, files: &[Pods]) -> Vec<Pods> {
    let world = World::new(&snapshot.cluster.objects, &snapshot.cluster.pods, BTreeSet::new());
    let pods = snapshot.pods().map(|pod| {
        let owner = world.top(pod).map(|owner| format!("{}/{}", owner.group_kind.kind, owner.name));
        Pods {
            namespace: pod.id.namespace.clone(),
            labels: BTreeMap::clone(&pod.labels),
            count: 1,
            is_assumed: false,
            of: owner.unwrap_or_else(|| format!("Pod/{}", pod.id.name)),
        }
    });
    let is_in_files = |pods: &Pods| files.iter().any(|each| each.of == pods.of && each.namespace == pods.namespace);
    together(pods).into_iter().filter(|pods| !is_in_files(pods)).collect()
}

/// The pods of any object with a pod template, and pods themselves. A DaemonSet has as many as there are nodes, which is not
/// known here.
fn made_by(object: &Object) -> Option<Pods> {
    let value = &object.value;
    let (labels, count) = match object.kind() {
        "Pod" => (&value["metadata"]["labels"], Some(1)),
        "Job" | "CronJob" => return None,
        _ => {
            let spec = value["spec"].as_object()?;
            spec.get("template")?.get("spec")?.get("containers")?;
            let replicas = spec.get("replicas").and_then(Value::as_u64);
            let replicas = if object.kind() == "DaemonSet" { None } else { Some(replicas.unwrap_or(1)) };
            let count = replicas.map(|replicas| u32::try_from(replicas).unwrap_or(u32::MAX));
            (&value["spec"]["template"]["metadata"]["labels"], count)
        }
    };
    let labels = labels.as_object().into_iter().flatten();
    Some(Pods {
        namespace: object.namespace().to_owned(),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        count: count.unwrap_or(MANY),
        is_assumed: count.is_none(),
        of: format!("{}/{}", object.kind(), object.name()),
    })
}

fn owner(object: &Object) -> &Value {
    &object.value["metadata"]["ownerReferences"][0]
}

fn has_made((by, maker): &(Pods, &Object), (pods, object): &(Pods, &Object)) -> bool {
    let owner = owner(object);
    if by.namespace != pods.namespace {
        return false;
    }
    if owner.is_null() {
        // A pod that names no owner is one of the workload whose labels it has.
        let has = |(key, value): (&String, &String)| pods.labels.get(key) == Some(value);
        return object.kind() == "Pod" && !by.labels.is_empty() && by.labels.iter().all(has);
    }
    maker.is_owner(owner)
}

/// Pods of one owner count together.
fn together(all: impl Iterator<Item = Pods>) -> Vec<Pods> {
    let mut known: BTreeMap<(String, String), Pods> = BTreeMap::new();
    for pods in all {
        let count = pods.count;
        let key = (pods.namespace.clone(), pods.of.clone());
        let same = known.entry(key).or_insert(Pods { count: 0, ..pods });
        same.count = same.count.saturating_add(count);
    }
    known.into_values().collect()
}

/// An autoscaler's workload has as many pods as that keeps at least, whatever its own replicas say.
fn autoscale(pods: &mut [Pods], objects: &[Object]) {
    for object in objects.iter().filter(|object| object.kind() == "HorizontalPodAutoscaler") {
        let spec = &object.value["spec"];
        let target = &spec["scaleTargetRef"];
        let of = |field: &str| target[field].as_str().unwrap_or_default();
        let of = format!("{}/{}", of("kind"), of("name"));
        let least = spec["minReplicas"].as_u64().and_then(|least| u32::try_from(least).ok()).unwrap_or(1);
        for pods in pods.iter_mut().filter(|pods| pods.of == of && pods.namespace == object.namespace()) {
            pods.count = pods.count.max(least);
        }
    }
}
