//! What a decision takes beside a namespace that somebody has filled with policies: `cargo xtask bench round` runs this, in a fresh process
//! for each variant.
//!
//! `round_bench PODS POLICIES` prints one JSON object. A namespace has a CollaSet of so many pods, and so many PodDecorations, DrainPolicies
//! and PodTransitionRules whose long selectors match none of them. In another namespace a pod is to be restarted.

#![allow(clippy::unwrap_used, reason = "it measures")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hitless_api::pod::PodView;
use hitless_api::{Lenient, PodTransitionRule};
use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::mode::PolicyView;
use hitless_rollout::prefetch::{NamePool, NodeImages};
use hitless_rollout::round::round;
use hitless_rollout::round::write::node_content;
use hitless_rollout::snapshot::{AgentState, NodeView, RuleView, Snapshot};
use hitless_workloads::{COMPONENTS, Installed, registry};
use jiff::Timestamp;
use serde_json::{Value, json};

const LONG_AGO: &str = "2026-01-01T00:00:00Z";
const ROUNDS: usize = 5;

fn meta(namespace: &str, name: &str) -> Value {
    json!({"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"), "resourceVersion": "1", "generation": 1,
        "creationTimestamp": LONG_AGO})
}

fn pod(metadata: &Value) -> Arc<PodView> {
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": LONG_AGO});
    let status = json!({"name": "web", "image": "web:v1", "imageID": "web@sha256:1", "ready": true, "restartCount": 0,
        "containerID": "containerd://1", "state": {"running": {"startedAt": LONG_AGO}}});
    let pod = json!({"metadata": metadata,
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "hitless.dev/InService"}],
            "containers": [{"name": "web", "image": "web:v1"}]},
        "status": {"conditions": [condition("Ready"), condition("ContainersReady"), condition("hitless.dev/InService")],
            "containerStatuses": [status]}});
    Arc::new(PodView::from(&serde_json::from_value(pod).unwrap()))
}

/// A hundred requirements with as many values as fit, of which only the last one is not met.
fn selector(number: usize) -> Value {
    let values: Vec<String> = (0..64).map(|value| format!("v{value}")).chain(["web".to_owned()]).collect();
    let last = json!({"key": "team", "operator": "In", "values": [format!("team-{number}")]});
    let met = json!({"key": "app", "operator": "In", "values": values});
    json!({"matchExpressions": std::iter::repeat_n(met, 15).chain([last]).collect::<Vec<_>>()})
}

fn snapshot(pods: usize, policies: usize) -> Snapshot {
    let group = "apps.kusionstack.io/v1alpha1";
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}});
    let owner =
        json!([{"apiVersion": group, "kind": "CollaSet", "name": "set", "uid": "crowd-set", "controller": true}]);
    let mut revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta("crowd", "set-1"), "revision": 1,
        "data": {"spec": {"template": template}}});
    revision["metadata"]["ownerReferences"] = owner.clone();
    let set = json!({"apiVersion": group, "kind": "CollaSet", "metadata": meta("crowd", "set"),
        "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let decorations = (0..policies).map(|number| {
        json!({"apiVersion": group, "kind": "PodDecoration", "metadata": meta("crowd", &format!("d-{number:05}")),
            "spec": {"selector": selector(number), "template": {}}})
    });
    let objects = [set, revision].into_iter().chain(decorations);
    let member = |number: usize| {
        let mut metadata = meta("crowd", &format!("set-{number}"));
        metadata["ownerReferences"] = owner.clone();
        metadata["labels"] = json!({"app": "web", "kusionstack.io/control": "true", "controller-revision-hash": "set-1",
            "collaset.kusionstack.io/instance-id": number.to_string()});
        pod(&metadata)
    };
    let mut other = meta("shop", "web");
    other["annotations"] = json!({"hitless.dev/restart": "now"});
    let images = NodeImages::of([["web:v1"]], &mut NamePool::default());
    let node = NodeView { name: "n1".to_owned(), uid: "n1".to_owned(), images, ..NodeView::default() };
    let drain_policy = |number: usize| {
        let spec = serde_json::from_value(json!({"selector": selector(number), "drain": {"minSeconds": 1}})).unwrap();
        let (namespace, name, uid) = ("crowd".to_owned(), format!("p-{number:05}"), format!("p-{number}"));
        Arc::new(PolicyView { namespace, name, uid, spec, unreadable: None })
    };
    let rule = |number: usize| {
        let rules = json!([{"name": "max", "availablePolicy": {"maxUnavailableValue": 1}}]);
        let object = json!({"apiVersion": group, "kind": "PodTransitionRule", "metadata": meta("crowd", &format!("r-{number:05}")),
            "spec": {"selector": selector(number), "rules": rules}});
        Arc::new(RuleView::from(serde_json::from_value::<Lenient<PodTransitionRule>>(object).unwrap()))
    };
    Snapshot {
        epoch: 1,
        holder: "bench".to_owned(),
        objects: objects.map(|object| Arc::new(registry::read(object).unwrap().unwrap())).collect(),
        nodes: BTreeMap::from([("n1".to_owned(), Arc::new(node))]),
        agents: BTreeMap::from([("n1".to_owned(), AgentState::Ready)]),
        drain_policies: (0..policies).map(drain_policy).collect(),
        rules: (0..policies).map(rule).collect(),
        ..Snapshot::default()
    }
    .with_pods((0..pods).map(member).chain([pod(&other)]).collect())
    .leaving_alone(&Installed::with(&COMPONENTS), PresentManagers::default())
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (pods, policies) = (arguments.next().unwrap_or(500), arguments.next().unwrap_or(5_000));
    let snapshot = snapshot(pods, policies);
    let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
    let mut cache = GateCache::default();
    let (mut times, mut first_grant) = (Vec::new(), None);
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let decided = round(&snapshot, &mut cache, now);
        times.push(start.elapsed());
        let mut granted =
            decided.steps.iter().filter_map(|step| node_content(&step.write)).flat_map(|spec| spec.grants);
        let is_granted = granted.any(|grant| grant.pod.namespace == "shop");
        first_grant = first_grant.or(is_granted.then(|| begun.elapsed()));
    }
    let first = times.first().copied().unwrap_or_default();
    times.sort_unstable();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let figures = json!({"pods": pods, "policies": policies, "first_round_ms": milliseconds(first),
        "round_p50_ms": milliseconds(times[ROUNDS / 2]), "first_grant_seconds": first_grant.map(|time| time.as_secs_f64())});
    println!("{figures}");
}
