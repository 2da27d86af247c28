//! A small cluster for tests: Deployment `web` of namespace `team`, held in the middle of a rollout to `web:v2`.

use std::sync::Arc;

use hitless_api::names::annotations;
use hitless_api::{DrainPolicy, GrantOp, NodeTransition, PodTransitionRule, TransitionBudget, TransitionLedger};
use hitless_rollout::snapshot::{LedgerView, Snapshot as Cluster, Unknown};
use hitless_workloads::Template;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::snapshot::{EventView, Snapshot, WorkloadObject};

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn template(image: &str, mixed: bool) -> Value {
    let mut template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}});
    if mixed {
        template["metadata"]["annotations"] = json!({"hitless.dev/mixed": "1"});
        template["metadata"]["labels"]["pod-template-hash"] = "h".into();
    }
    template
}

pub(crate) fn pod(name: &str, image: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-h", "uid": "rs", "controller": true}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "web", "image": image}],
            "readinessGates": [{"conditionType": "hitless.dev/InService"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    })
}

/// Brought to this image in place.
pub(crate) fn brought(mut pod: Value, image: &str) -> Value {
    let revision = Template::new(template(image, false)).revision().to_owned();
    pod["metadata"]["annotations"][annotations::REVISION] = revision.into();
    pod
}

pub(crate) fn rollout(pods: &[Value]) -> Snapshot {
    let count = pods.len();
    let before = Template::new(template("web:v1", false));
    let annotations = before.shape().annotations.digest();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team", "uid": "deployment",
            "annotations": {"hitless.dev/update": "in-place", "hitless.dev/rollout": "held", "hitless.dev/companion": "Never"}},
        "spec": {"replicas": count, "paused": true, "template": template("web:v2", false)}
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-h", "namespace": "team", "uid": "rs", "generation": 1, "labels": {"hitless.dev/live": annotations},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "deployment", "controller": true}]},
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": "web"}}, "template": template("web:v2", true)},
        "status": {"replicas": count, "observedGeneration": 1}
    });
    let cluster = Cluster {
        pods: pods.iter().map(|pod| Arc::new(view(pod))).collect(),
        // Neither nodes nor agents may be read.
        unknown: Unknown { nodes: true, agents: true, images: true, ..Unknown::default() },
        ..Cluster::default()
    };
    let objects = [deployment, set].into_iter().filter_map(WorkloadObject::of).map(Arc::new).collect();
    Snapshot { cluster, namespace: Some("team".to_owned()), ..Snapshot::default() }.with_objects(objects)
}

/// With a change of the workload's object of that number: the Deployment, its ReplicaSet.
pub(crate) fn with_object(snapshot: Snapshot, number: usize, change: impl FnOnce(&mut Value)) -> Snapshot {
    let mut objects = snapshot.objects.clone();
    let mut raw = objects[number].raw.clone();
    change(&mut raw);
    objects[number] = Arc::new(WorkloadObject::of(raw).unwrap());
    snapshot.with_objects(objects)
}

/// The same after the rollout: nothing is to be done.
pub(crate) fn idle(pods: &[Value]) -> Snapshot {
    let snapshot = with_object(rollout(pods), 0, |deployment| {
        deployment["spec"]["paused"] = false.into();
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    });
    let template = snapshot.objects[0].raw["spec"]["template"].clone();
    with_object(snapshot, 1, |set| set["spec"]["template"] = template)
}

/// Three pods that are to be restarted: one has been, one is being operated, one waits.
pub(crate) fn restarting() -> Snapshot {
    let pod = |name: &str, annotations: Value| {
        let mut pod = pod(name, "web:v2");
        pod["metadata"]["annotations"] = annotations;
        pod["status"]["containerStatuses"] = json!([{"name": "web", "image": "docker.io/library/web:v2", "ready": true,
            "restartCount": 0, "imageID": format!("docker.io/library/web@sha256:{}", "0".repeat(64)),
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]);
        pod
    };
    let wanted = || json!({"hitless.dev/restart": "token"});
    let restarted = json!({"hitless.dev/restart": "token", "hitless.dev/restarted": "token"});
    let snapshot = idle(&[pod("web-0", restarted), pod("web-1", wanted()), pod("web-2", wanted())]);
    let mut snapshot = with_reservation(with_grant(snapshot, "web-1", &Value::Null), "web-1");
    let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
    node.spec.grants[0].op = GrantOp::Restart;
    node.spec.grants[0].containers.clear();
    snapshot
}

/// With a ReplicaSet that keeps an earlier template of the Deployment.
pub(crate) fn with_history(snapshot: Snapshot, image: &str, number: u64) -> Snapshot {
    let mut objects = snapshot.objects.clone();
    let mut history = objects[1].raw.clone();
    history["metadata"]["name"] = format!("web-{number}").into();
    history["metadata"]["uid"] = format!("history-{number}").into();
    history["metadata"]["labels"] = json!({"hitless.dev/history": "x"});
    history["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": number.to_string()});
    history["spec"]["replicas"] = 0.into();
    history["spec"]["template"] = template(image, false);
    objects.push(Arc::new(WorkloadObject::of(history).unwrap()));
    snapshot.with_objects(objects)
}

pub(crate) fn with_rule(mut snapshot: Snapshot, max_unavailable: u32) -> Snapshot {
    let rule: PodTransitionRule = serde_json::from_value(json!({
        "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule", "metadata": {"name": "never", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "rules": [{"name": "budget", "availablePolicy": {"maxUnavailableValue": max_unavailable}}]}
    }))
    .unwrap();
    snapshot.cluster.rules.push(Arc::new(rule.into()));
    snapshot
}

/// The operation of `name`, as the agent has reported it (`null`: not yet).
pub(crate) fn with_grant(mut snapshot: Snapshot, name: &str, transition: &Value) -> Snapshot {
    let granted = "2026-01-01T00:00:00.000000Z";
    let revision = snapshot.cluster.objects[0].deployment().unwrap().body.template.revision().to_owned();
    let transitions = match transition.clone() {
        Value::Null => json!([]),
        mut transition => {
            transition["granted"] = json!(granted);
            json!([transition])
        }
    };
    let node: NodeTransition = serde_json::from_value(json!({
        "apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition", "metadata": {"name": "n1"},
        "spec": {"nodeUID": "n", "grants": [{
            "id": "g", "epoch": 1, "pod": {"namespace": "team", "name": name, "uid": format!("uid-{name}")}, "op": "Update",
            "mode": "Leave", "containers": {"web": {"from": "web:v1", "to": "web:v2"}}, "before": {},
            "annotations": {"hitless.dev/restarted": {"to": "token"}, "hitless.dev/revision": {"to": revision}},
            "drain": {}, "verify": {}, "granted": granted, "ttlSeconds": 60}]},
        "status": {"transitions": transitions}
    }))
    .unwrap();
    snapshot.cluster.node_transitions.insert("n1".to_owned(), Arc::new(node.into()));
    snapshot
}

pub(crate) fn with_reservation(mut snapshot: Snapshot, name: &str) -> Snapshot {
    let ledger: TransitionLedger = serde_json::from_value(json!({
        "apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionLedger", "metadata": {"name": "ledger", "namespace": "team"},
        "spec": {"reservations": {format!("uid-{name}"): {"id": "g", "pod": name, "node": "n1", "images": {},
            "since": "2026-01-01T00:00:00.000000Z"}}}
    }))
    .unwrap();
    let ledger = LedgerView::of(ledger).unwrap();
    snapshot.cluster.ledgers.insert(ledger.namespace.clone(), Arc::new(ledger));
    snapshot
}

pub(crate) fn with_event(mut snapshot: Snapshot, reason: &str, note: &str) -> Snapshot {
    let event: Event = serde_json::from_value(json!({
        "metadata": {}, "eventTime": format!("2026-01-01T00:00:0{}.000000Z", snapshot.events.len()), "reason": reason, "note": note,
        "regarding": {"kind": "Deployment", "name": "web", "uid": "deployment"}
    }))
    .unwrap();
    snapshot.events.extend(EventView::of(event).map(Arc::new));
    snapshot
}

pub(crate) fn view(pod: &Value) -> hitless_api::pod::PodView {
    (&read::<Pod>(pod.clone())).into()
}

pub(crate) fn with_budget(mut snapshot: Snapshot, name: &str, namespace: &str, spec: &Value) -> Snapshot {
    let budget: TransitionBudget = serde_json::from_value(json!({
        "apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": name, "namespace": namespace},
        "spec": spec
    }))
    .unwrap();
    snapshot.cluster.budgets.push(Arc::new(budget.into()));
    snapshot
}

/// Service `web`, which selects all of its pods.
pub(crate) fn with_service(mut snapshot: Snapshot, port: &Value) -> Snapshot {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "team"}, "spec": {"selector": {"app": "web"}, "ports": [port]}
    }))
    .unwrap();
    snapshot.cluster.services.push(Arc::new((&service).into()));
    snapshot
}

pub(crate) fn with_drain_policy(mut snapshot: Snapshot, name: &str, namespace: &str, spec: &Value) -> Snapshot {
    let policy: DrainPolicy = serde_json::from_value(json!({
        "apiVersion": "hitless.dev/v1alpha1", "kind": "DrainPolicy", "metadata": {"name": name, "namespace": namespace},
        "spec": spec
    }))
    .unwrap();
    snapshot.cluster.drain_policies.push(Arc::new(policy.into()));
    snapshot
}

/// So long was the workload away of late.
pub(crate) fn with_annotation(snapshot: Snapshot, name: &str, value: &str) -> Snapshot {
    with_object(snapshot, 0, |deployment| deployment["metadata"]["annotations"][name] = value.into())
}

/// The same of the version that it is brought to: a pod has shown that.
pub(crate) fn with_known_start(snapshot: Snapshot, milliseconds: u32) -> Snapshot {
    let revision = Template::new(template("web:v2", false)).revision().to_owned();
    with_object(snapshot, 0, |deployment| {
        for known in [annotations::GAP, annotations::GAP_TO_READY] {
            deployment["metadata"]["annotations"][known] = format!(r#"{{"{revision}": {milliseconds}}}"#).into();
        }
    })
}

pub(crate) fn with_gap(snapshot: Snapshot, milliseconds: u32) -> Snapshot {
    with_object(snapshot, 0, |deployment| {
        for known in [annotations::GAP, annotations::GAP_TO_READY] {
            deployment["metadata"]["annotations"][known] = format!(r#"{{"h": {milliseconds}}}"#).into();
        }
    })
}
