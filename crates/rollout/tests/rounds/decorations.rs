//! Pods of a CollaSet whose PodDecoration has another image, as a round decides it.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::Grant;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{Round, WaitReason, explain};
use hitless_rollout::snapshot::{NodeTransitionView, Snapshot};
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, agent, grants, meta, now, transition, view};

const GROUP: &str = "apps.kusionstack.io/v1alpha1";

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": GROUP, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
}

fn revision(name: &str, number: u32, owner: Value, template: &Value) -> Value {
    let mut revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name), "revision": number,
        "data": {"spec": {"template": template}}});
    revision["metadata"]["ownerReferences"] = owner;
    revision
}

/// A pod with the sidecar `log` at v1; its decoration is at v2. The agent of its node has these features.
fn snapshot(features: &[&str]) -> Snapshot {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "r.io/web:v1"}]}});
    let sidecar = |version: &str| json!({"containers": [{"name": "log", "image": format!("r.io/log:{version}"), "injectPolicy": "AfterPrimaryContainer"}]});
    let selector = json!({"matchLabels": {"app": "web"}});
    let objects = [
        json!({"apiVersion": GROUP, "kind": "CollaSet", "metadata": meta("set"),
            "spec": {"replicas": 1, "selector": selector, "template": template}}),
        json!({"apiVersion": GROUP, "kind": "PodDecoration", "metadata": meta("log"),
            "spec": {"selector": selector, "template": sidecar("v2")}, "status": {"currentRevision": "log-1"}}),
        revision("set-1", 1, owner("CollaSet", "set"), &template),
        revision("log-1", 1, owner("PodDecoration", "log"), &sidecar("v1")),
        revision("log-2", 2, owner("PodDecoration", "log"), &sidecar("v2")),
    ];
    let container = |name: &str| {
        json!({"name": name, "image": format!("r.io/{name}:v1"), "imageID": format!("r.io/{name}@sha256:1"), "ready": true, "restartCount": 0,
            "containerID": format!("containerd://{name}"), "state": {"running": {"startedAt": LONG_AGO}}})
    };
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": LONG_AGO});
    let mut pod = json!({"metadata": meta("web"),
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "hitless.dev/InService"}],
            "containers": [{"name": "web", "image": "r.io/web:v1"}, {"name": "log", "image": "r.io/log:v1"}]},
        "status": {"conditions": [condition("Ready"), condition("hitless.dev/InService")],
            "containerStatuses": [container("web"), container("log")]}});
    pod["metadata"]["ownerReferences"] = owner("CollaSet", "set");
    pod["metadata"]["labels"] = json!({"app": "web", "kusionstack.io/control": "true", "collaset.kusionstack.io/instance-id": "0",
        "controller-revision-hash": "set-1", "poddecoration.kusionstack.io/pd-log": "log-1"});
    let known = NodeTransitionView { agent: Some(agent(features)), ..transition(Vec::new(), &json!([])) };
    Snapshot {
        node_transitions: BTreeMap::from([("n1".to_owned(), Arc::new(known))]),
        ..scene::snapshot(&objects, view(&pod), &["r.io/web:v1", "r.io/log:v1", "r.io/log:v2"])
    }
}

fn decide(features: &[&str]) -> Round {
    scene::decide(&snapshot(features))
}

fn grant(round: &Round) -> Option<Grant> {
    grants(round)?.into_iter().next()
}

#[test]
fn the_grant_names_the_image_the_label_and_the_annotation() {
    let round = decide(&["hold", "decorations"]);
    let grant = grant(&round).unwrap_or_else(|| panic!("{:?}", round.verdicts));
    assert_eq!(grant.containers.keys().collect::<Vec<_>>(), ["log"]);
    assert_eq!(grant.containers["log"].to, "r.io/log:v2");
    assert_eq!(grant.labels["poddecoration.kusionstack.io/pd-log"].to.as_deref(), Some("log-2"));
    assert_eq!(grant.labels.len(), 1, "{:?}", grant.labels);
    let annotation = grant.annotations["poddecoration.kusionstack.io/revisions"].to.as_deref();
    assert_eq!(annotation, Some(r#"[{"name":"log","revision":"log-2"}]"#));
}

/// It would refuse it as `UnsupportedAnnotation`, and the rollout would stop.
#[test]
fn an_agent_of_an_earlier_version_is_not_asked() {
    let round = decide(&["hold"]);
    assert!(grant(&round).is_none());
    let waiting = round.verdicts.iter().find_map(|verdict| verdict.waiting.as_ref()).map(WaitReason::reason);
    assert_eq!(waiting, Some("AgentTooOld"));
}

#[test]
fn a_decoration_is_no_workload_to_people() {
    let explained = explain(&snapshot(&["hold"]), &mut GateCache::default(), now(), |_| true);
    let kinds: Vec<_> = explained.workloads.iter().map(|each| each.id.group_kind.kind.to_string()).collect();
    assert_eq!(kinds, ["CollaSet"]);
}
