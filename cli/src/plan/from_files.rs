//! A picture of a cluster made from files: what is not in them is assumed, and said.

mod made_up;

use std::sync::Arc;

use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_api::{DrainPolicy, PodTransitionRule, TrafficProvider, TransitionBudget};
use hitless_rollout::snapshot::{NodeView, Snapshot as Cluster, Unknown};
use hitless_workloads::registry;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files::{self, Misread, Object};
use crate::lint;
use crate::snapshot::{Snapshot, WorkloadObject};

/// The picture, and what was assumed. `nodes`: over how many made pods are spread.
pub(super) fn snapshot(objects: &[Object], nodes: Option<u32>) -> Result<(Snapshot, Vec<String>), Failure> {
    let mut snapshot = Cluster {
        unknown: Unknown { nodes: true, agents: true, images: true, pools: true, ..Unknown::default() },
        ..Cluster::default()
    };
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
            (names::GROUP, "TrafficProvider") => {
                snapshot.providers.push(Arc::new(kept::<TrafficProvider>(object)?.into()));
            }
            (names::GROUP, "TransitionBudget") => {
                snapshot.budgets.push(Arc::new(kept::<TransitionBudget>(object)?.into()));
            }
            ("policy", "PodDisruptionBudget") => {
                snapshot.disruption_budgets.push(Arc::new(kept::<PodDisruptionBudget>(object)?.into()));
            }
            _ => {}
        }
        if !is_of_workload(object.group(), object.kind()) && object.kind() != "Pod" {
            said.extend(lint::refused(object));
        }
    }
    let names: Vec<String> = match nodes {
        Some(count) => (1..=count).map(|number| format!("node-{number}")).collect(),
        None => known_nodes.iter().map(|node| node.name.clone()).collect(),
    };
    snapshot.nodes = known_nodes.into_iter().map(|node| (node.name.clone(), Arc::new(node))).collect();
    for object in objects {
        said.extend(made_up::complete(object, &mut raw, &mut pods, &names));
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
    registry::resources().any(|(_, resource)| resource.group_kind.is(group, kind))
}

fn workload(object: &Object) -> Result<WorkloadObject, Failure> {
    const TEMPLATE: [&str; 4] = ["spec", "template", "metadata", "labels"];
    let maps = [&TEMPLATE[..2], &["spec", "template", "spec"], &TEMPLATE[..3], &TEMPLATE];
    if let Some(path) = files::no_map(&object.value, &maps) {
        let text = format!("{} is no map of fields", path.join("."));
        return Err(misread(object, Misread { line: object.node.line_of(path), text }));
    }
    if let Some(Err(error)) = registry::read(with_uid(object)) {
        return Err(misread(object, lint::better(object, whole(object, error.to_string()))));
    }
    let none = || misread(object, whole(object, "it is of no workload's kind".to_owned()));
    WorkloadObject::of(with_uid(object)).ok_or_else(none)
}

fn whole(object: &Object, text: String) -> Misread {
    Misread { line: object.node.line, text }
}

fn kept<K: serde::de::DeserializeOwned>(object: &Object) -> Result<K, Failure> {
    object.read().map_err(|error| misread(object, lint::better(object, error)))
}

fn misread(object: &Object, misread: Misread) -> Failure {
    let Misread { line, text } = misread;
    let what = format!("{}/{}", object.kind(), object.name());
    let file = &object.file;
    Failure::Failed(format!("{file}:{line}: {what}: {text}; check it with: kubectl hitless lint {file}"))
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
