//! A picture of a cluster made from files: what is not in them is assumed, and said.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_api::{DrainPolicy, PodTransitionRule, TransitionBudget};
use hitless_gate::selector;
use hitless_rollout::snapshot::{NodeView, Snapshot as Cluster, Unknown};
use hitless_workloads::kind;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files::Object;
use crate::snapshot::{Snapshot, WorkloadObject};

/// Most pods that are made for a Deployment.
const MOST: u64 = 10_000;

/// The picture, and what was assumed. `nodes`: over how many made pods are spread.
pub(super) fn snapshot(objects: &[Object], nodes: Option<u32>) -> Result<(Snapshot, Vec<String>), Failure> {
    let mut snapshot =
        Cluster { unknown: Unknown { nodes: true, agents: true, ..Unknown::default() }, ..Cluster::default() };
    let mut said = Vec::new();
    let mut known_nodes: Vec<NodeView> = Vec::new();
    let (mut pods, mut raw) = (Vec::new(), Vec::new());
    for object in objects {
        match (object.group(), object.kind()) {
            (group, kind) if is_of_workload(group, kind) => raw.push(workload(object)?),
            ("", "Pod") => pods.push(with_uid(object)),
            ("", "Node") => {
                let meta: ObjectMeta = serde_json::from_value(object.value["metadata"].clone()).unwrap_or_default();
                known_nodes.push(NodeView::from(&meta));
            }
            ("apps.kusionstack.io", "PodTransitionRule") => {
                snapshot.rules.push(Arc::new(kept::<PodTransitionRule>(object)?.into()));
            }
            ("", "Service") => snapshot.services.push(Arc::new((&kept::<Service>(object)?).into())),
            (names::GROUP, "DrainPolicy") => {
                snapshot.drain_policies.push(Arc::new(kept::<DrainPolicy>(object)?.into()));
            }
            (names::GROUP, "TransitionBudget") => {
                snapshot.budgets.push(Arc::new(kept::<TransitionBudget>(object)?.into()));
            }
            ("policy", "PodDisruptionBudget") => {
                snapshot.disruption_budgets.push(Arc::new(kept::<PodDisruptionBudget>(object)?.into()));
            }
            _ => {}
        }
    }
    let names: Vec<String> = match nodes {
        Some(count) => (1..=count).map(|number| format!("node-{number}")).collect(),
        None => known_nodes.iter().map(|node| node.name.clone()).collect(),
    };
    snapshot.nodes = known_nodes.into_iter().map(|node| (node.name.clone(), Arc::new(node))).collect();
    for object in objects.iter().filter(|object| (object.group(), object.kind()) == ("apps", "Deployment")) {
        let made = make_pods(object, &mut raw, &mut pods, &names);
        if made > 0 {
            let place = if names.is_empty() { ", each on a node of its own (spread them with --nodes)" } else { "" };
            said.push(format!(
                "the files have no pods of deployment/{}; as many as it wishes ({made}) were made up{place}",
                object.name()
            ));
        }
    }
    if !pods.is_empty() {
        said.push("pods without a status are assumed to be Ready and to have the readiness gate".to_owned());
        said.push("what the nodes' agents can do is not known; they are assumed to be able to hold pods".to_owned());
    }
    for pod in pods {
        snapshot.pods.push(Arc::new(view(pod)?));
    }
    let snapshot = Snapshot { cluster: snapshot, ..Snapshot::default() };
    Ok((snapshot.with_objects(raw.into_iter().map(Arc::new).collect()), said))
}

fn is_of_workload(group: &str, kind: &str) -> bool {
    kind::resources().any(|(_, resource)| resource.group_kind.is(group, kind))
}

fn workload(object: &Object) -> Result<WorkloadObject, Failure> {
    match kind::read(with_uid(object)) {
        Some(Err(error)) => Err(misread(object, &error.to_string())),
        Some(Ok(_)) | None => {
            WorkloadObject::of(with_uid(object)).ok_or_else(|| misread(object, "it is of no workload's kind"))
        }
    }
}

fn kept<K: serde::de::DeserializeOwned>(object: &Object) -> Result<K, Failure> {
    object.read().map_err(|text| misread(object, &text))
}

fn misread(object: &Object, text: &str) -> Failure {
    let Object { file, node, .. } = object;
    let what = format!("{}/{}", object.kind(), object.name());
    Failure::Failed(format!("{file}:{}: {what}: {text}; check it with: kubectl hitless lint {file}", node.line))
}

/// Objects that were never created have no uid.
fn with_uid(object: &Object) -> Value {
    let mut value = object.value.clone();
    if value["metadata"]["uid"].as_str().is_none_or(str::is_empty) {
        value["metadata"]["uid"] = uid_of(object).into();
    }
    value
}

fn uid_of(object: &Object) -> String {
    format!("{}/{}/{}", object.kind(), object.namespace(), object.name())
}

/// Gives the Deployment a ReplicaSet and pods where the files have none; returns how many pods were made.
fn make_pods(object: &Object, raw: &mut Vec<WorkloadObject>, pods: &mut Vec<Value>, nodes: &[String]) -> u64 {
    let value = with_uid(object);
    let uid = value["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let is_owned = |each: &&WorkloadObject| each.view.owner.as_ref().is_some_and(|owner| owner.uid == uid);
    let owned: BTreeSet<String> = raw.iter().filter(is_owned).map(|each| each.view.id.uid.clone()).collect();
    let replicas = value["spec"]["replicas"].as_u64().unwrap_or(1);
    let set_uid = owned.first().cloned().unwrap_or_else(|| format!("ReplicaSet of {}", uid_of(object)));
    if owned.is_empty() {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": format!("{}-files", object.name()), "namespace": object.namespace(), "uid": set_uid,
                "generation": 1, "ownerReferences": [owner("Deployment", object.name(), &uid)]},
            "spec": {"replicas": replicas, "selector": value["spec"]["selector"], "template": value["spec"]["template"]},
            "status": {"replicas": replicas, "observedGeneration": 1}
        });
        raw.extend(WorkloadObject::of(set));
    }
    let wanted: Option<LabelSelector> = serde_json::from_value(value["spec"]["selector"].clone()).ok();
    let mut has_pods = false;
    for pod in pods.iter_mut().filter(|pod| pod["metadata"]["namespace"] == object.namespace()) {
        let labels = serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap_or_default();
        let controller = pod["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
        if owned.contains(controller) {
            has_pods = true;
        } else if wanted.as_ref().is_some_and(|wanted| selector::matches(wanted, &labels)) {
            // Its ReplicaSet is not in the files.
            pod["metadata"]["ownerReferences"] = json!([owner("ReplicaSet", "files", &set_uid)]);
            has_pods = true;
        }
    }
    if has_pods {
        return 0;
    }
    let count = replicas.min(MOST);
    let width = count.to_string().len();
    for number in 0..count {
        let name = format!("{}-{number:0width$}", object.name());
        let mut pod = value["spec"]["template"].clone();
        let node = usize::try_from(number).ok().and_then(|number| nodes.get(number % nodes.len().max(1)));
        pod["metadata"]["name"] = name.clone().into();
        pod["metadata"]["namespace"] = object.namespace().into();
        pod["metadata"]["uid"] = format!("Pod/{}/{name}", object.namespace()).into();
        pod["metadata"]["ownerReferences"] = json!([owner("ReplicaSet", "files", &set_uid)]);
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.clone().into();
        }
        pods.push(pod);
    }
    count
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true})
}

fn view(mut pod: Value) -> Result<PodView, Failure> {
    if pod["status"]["conditions"].is_null() {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        pod["spec"]["readinessGates"] = json!([{"conditionType": names::IN_SERVICE}]);
    }
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod)
        .map_err(|error| Failure::Failed(format!("pod {name} can't be understood: {error}; check its template")))?;
    Ok(PodView::from(&pod))
}
