//! The cluster around the objects of a test.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::PodView;
use hitless_api::{Grant, NodeTransitionSpec, TransitionBudget, TransitionLedgerSpec};
use hitless_gate::Budget;
use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::prefetch::{NamePool, NodeImages};
use hitless_rollout::round::write::{ledger_content, node_content};
use hitless_rollout::round::{Round, round};
use hitless_rollout::snapshot::{AgentState, NodeTransitionView, NodeView, Snapshot, Version};
use hitless_workloads::{COMPONENTS, Installed, Object, Write, registry};
use hitless_world::objects;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

pub(crate) const LONG_AGO: &str = "2026-01-01T00:00:00Z";

pub(crate) fn now() -> Timestamp {
    "2026-01-03T00:00:00Z".parse().unwrap()
}

pub(crate) fn meta(name: &str) -> Value {
    json!({"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
        "creationTimestamp": LONG_AGO})
}

/// Template of the container `web`.
pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

/// A pod on `n1` that serves and runs this image. Its containers have run for as long as it is Ready.
pub(crate) fn pod(metadata: &Value, image: &str, image_id: &str, since: &str) -> Value {
    let pod = objects::Pod::of(metadata).on("n1").gated().container("web", image);
    pod.running(image_id, since).conditions(&["Ready", "hitless.dev/InService"], Some(since)).json()
}

pub(crate) fn view(pod: &Value) -> PodView {
    PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap())
}

pub(crate) fn read(object: &Value) -> Arc<Object> {
    Arc::new(registry::read(object.clone()).unwrap().unwrap())
}

/// These objects and the pod, on a node that has these images.
pub(crate) fn snapshot(objects: &[Value], pod: PodView, images: &[&str]) -> Snapshot {
    let images = NodeImages::of(images.iter().map(|image| [*image]), &mut NamePool::default());
    let node = NodeView { name: "n1".to_owned(), uid: "uid-n1".to_owned(), images, ..NodeView::default() };
    Snapshot {
        epoch: 1,
        holder: "a".to_owned(),
        objects: objects.iter().map(read).collect(),
        nodes: BTreeMap::from([("n1".to_owned(), Arc::new(node))]),
        agents: BTreeMap::from([("n1".to_owned(), AgentState::Ready)]),
        ..Snapshot::default()
    }
    .with_pods(vec![Arc::new(pod)])
    .leaving_alone(&Installed::with(&COMPONENTS), PresentManagers::default())
}

/// The node's NodeTransition, with these grants and reports of its agent.
pub(crate) fn transition(grants: Vec<Grant>, reports: &Value) -> NodeTransitionView {
    NodeTransitionView {
        node: "n1".to_owned(),
        version: Version { uid: "t".to_owned(), resource_version: "1".to_owned() },
        fence: None,
        spec: NodeTransitionSpec { node_uid: "uid-n1".to_owned(), epoch: 1, grants, propagation: None },
        agent: None,
        transitions: serde_json::from_value(reports.clone()).unwrap(),
    }
}

/// What an agent with these features says of itself.
pub(crate) fn agent(features: &[&str]) -> AgentInfo {
    AgentInfo { features: features.iter().map(|each| (*each).to_owned()).collect(), ..AgentInfo::default() }
}

pub(crate) fn decide(snapshot: &Snapshot) -> Round {
    round(snapshot, &mut GateCache::default(), now())
}

/// All grants as the round writes them; `None`: it writes none of the node's.
pub(crate) fn grants(round: &Round) -> Option<Vec<Grant>> {
    let writes = round.steps.iter().filter_map(|step| node_content(&step.write));
    let writes: Vec<Vec<Grant>> = writes.map(|spec| spec.grants).collect();
    (!writes.is_empty()).then(|| writes.into_iter().flatten().collect())
}

/// The ledgers that it writes.
pub(crate) fn ledgers(round: &Round) -> Vec<TransitionLedgerSpec> {
    round.steps.iter().filter_map(|step| ledger_content(&step.write)).collect()
}

/// Its writes with this verb.
pub(crate) fn written<'r>(round: &'r Round, verb: &str) -> Vec<&'r Write> {
    round.steps.iter().map(|step| &step.write).filter(|write| write.verb == verb).collect()
}

/// Of all pods of the namespace.
pub(crate) fn two_may_be_away() -> Arc<Budget> {
    let budget = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget",
        "metadata": {"name": "wide", "namespace": "shop"}, "spec": {"selector": {}, "maxUnavailable": 2}});
    Arc::new(serde_json::from_value::<TransitionBudget>(budget).unwrap().into())
}
