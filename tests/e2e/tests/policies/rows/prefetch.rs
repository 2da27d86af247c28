//! Which pods the controller's accounts may make and delete: `policies/controller.yaml`.

use hitless_api::names::{DEFAULT_SYSTEM_NAMESPACE, KUBE_SYSTEM};
use hitless_api::{GroupKind, ObjectRef, PullIdentity, PullPolicy};
use hitless_rollout::prefetch::{Extra, Pull, Resources, manifest};
use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, pods};
use crate::request::{Call, Who};

/// Several policies say no, and the API server names the one that it asked first.
const ANY: &str = "ValidatingAdmissionPolicy 'hitless-controller-";

/// The pod that fetches an image, as the controller makes it, and with one thing changed.
pub(super) fn rows() -> Vec<Row> {
    [form(), labels(), runs_nothing()].into_iter().flatten().collect()
}

fn pod() -> Value {
    let pull = Pull {
        namespace: NAMESPACE.to_owned(),
        node: "n1".to_owned(),
        image: "web:v2".to_owned(),
        policy: PullPolicy::IfNotPresent,
        identity: PullIdentity::default(),
        resources: None,
        extra: Extra::default(),
        is_other_repository: false,
    };
    let group_kind = GroupKind::new("apps", "Deployment");
    let owner = ObjectRef { group_kind, namespace: NAMESPACE.to_owned(), name: "held".to_owned(), uid: "u".to_owned() };
    manifest(&pull, 1, Resources::None, &owner)
}

fn make(changes: &[(&str, Value)]) -> Call {
    let mut pod = pod();
    for (path, value) in changes {
        let at = path.rsplit_once('/');
        let at = at.and_then(|(parent, key)| Some(&mut pod.pointer_mut(parent)?[key.replace("~1", "/")]));
        if let Some(at) = at {
            *at = value.clone();
        }
    }
    Call::create(pods(NAMESPACE), pod)
}

fn one(path: &str, value: Value) -> Call {
    make(&[(path, value)])
}

fn first(field: &str, value: Value) -> Call {
    one(&format!("/spec/containers/0/{field}"), value)
}

fn mounted(path: &str, volume: &Value) -> Call {
    let mounts = json!([{"name": "v", "mountPath": path}]);
    make(&[("/spec/containers/0/volumeMounts", mounts), ("/spec/volumes", json!([volume]))])
}

fn form() -> Vec<Row> {
    let (ours, nothing, no_right) = ("make and delete pods that fetch", "nothing that would run", "without any right");
    let system = "no pod in kube-system";
    let token = json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    let plain =
        json!([{"name": "A", "value": "b"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    let stated = json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}});
    let elsewhere = |namespace: &str| {
        let mut pod = pod();
        pod["metadata"]["namespace"] = json!(namespace);
        Call::create(pods(namespace), pod)
    };
    let escalation = "/spec/containers/0/securityContext/allowPrivilegeEscalation";
    vec![
        allowed(Who::Controller, "the controller makes a pod that fetches an image", make(&[])),
        allowed(Who::Controller, "also where a webhook adds a volume", mounted("/var/run/secrets/x.example", &token)),
        denied(Who::Controller, "no other pod", ANY, one("/metadata/labels", json!({}))),
        denied(Who::Controller, "under no other name", ANY, one("/metadata/name", json!("web"))),
        allowed(Who::Controller, "or environment", first("env", plain)),
        allowed(Who::Controller, "or with what its container asks for", first("resources", stated)),
        denied(Who::Controller, "none in kube-system", system, elsewhere(KUBE_SYSTEM)),
        denied(Who::Controller, "nor beside hitless", system, elsewhere(DEFAULT_SYSTEM_NAMESPACE)),
        denied(
            Who::Controller,
            "it does not live for ever",
            no_right,
            one("/spec/activeDeadlineSeconds", json!(86_400)),
        ),
        denied(
            Who::Controller,
            "it puts nobody out",
            ANY,
            one("/spec/priorityClassName", json!("system-node-critical")),
        ),
        denied(Who::Controller, "it does not share the node's network", ANY, one("/spec/hostNetwork", json!(true))),
        denied(Who::Controller, "it gets no token", no_right, one("/spec/automountServiceAccountToken", json!(true))),
        denied(Who::Controller, "nor a privilege", no_right, one(escalation, json!(true))),
        denied(Who::Controller, "and belongs to somebody", no_right, one("/metadata/ownerReferences", json!([]))),
        denied(Who::Uninstall, "who leaves makes none", nothing, make(&[])),
        denied(
            Who::Controller,
            "the controller deletes no other pod",
            ours,
            Call::delete(format!("{}/free", pods(NAMESPACE))),
        ),
        allowed(
            Who::Controller,
            "but one of a StatefulSet that does not start again",
            Call::delete(format!("{}/settled-0", pods(NAMESPACE))),
        ),
        denied(
            Who::Controller,
            "not one that has never crashed",
            ours,
            Call::delete(format!("{}/owners-0", pods(NAMESPACE))),
        ),
        denied(Who::Uninstall, "nor does who leaves", ours, Call::delete(format!("{}/settled-0", pods(NAMESPACE)))),
        denied(Who::Uninstall, "nor any other one", ours, Call::delete(format!("{}/free", pods(NAMESPACE)))),
    ]
}

/// The administrator's setting is in `fixture/controller.rs`.
fn labels() -> Vec<Row> {
    let named = "labels that HITLESS_PREFETCH_LABELS of Deployment hitless-controller names";
    let label = |key: &str, value: &str| one(&format!("/metadata/labels/{key}"), json!(value));
    let lie = ("/metadata/annotations/hitless.dev~1labelled", json!("hitless.dev/prefetch"));
    vec![
        allowed(Who::Controller, "a label that the administrator names has any value", label("team", "shop")),
        allowed(Who::Controller, "or the one that he says", label("cost-center", "42")),
        denied(Who::Controller, "but no other value then", named, label("cost-center", "43")),
        denied(Who::Controller, "nor any other label", named, label("app", "web")),
        denied(Who::Controller, "nor one of hitless' own", named, label("hitless.dev~1instance", "x")),
        denied(
            Who::Controller,
            "whatever it says of its labels itself",
            named,
            make(&[lie, ("/metadata/labels/app", json!("web"))]),
        ),
    ]
}

fn runs_nothing() -> Vec<Row> {
    let nothing = "nothing that would run";
    let host = json!({"name": "v", "hostPath": {"path": "/"}});
    let secret = json!({"name": "v", "secret": {"secretName": "login"}});
    let hidden = json!({"name": "v", "projected": {"sources": [{"secret": {"name": "login"}}]}});
    let from_secret = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "login", "key": "a"}}}]);
    vec![
        denied(Who::Controller, "it runs nothing", nothing, first("command", json!(["/bin/sh"]))),
        denied(Who::Controller, "nor what the image runs", nothing, first("command", json!([]))),
        denied(
            Who::Controller,
            "nor a file that an image may have",
            nothing,
            first("command", json!(["/hitless.dev/prefetch"])),
        ),
        denied(Who::Controller, "nor a device in its place", nothing, first("command", json!(["/dev/null"]))),
        denied(Who::Controller, "nor arguments", nothing, first("args", json!(["x"]))),
        denied(
            Who::Controller,
            "it has no init container",
            nothing,
            one("/spec/initContainers", json!([{"name": "i", "image": "web:2"}])),
        ),
        denied(
            Who::Controller,
            "it takes no port of the node",
            ANY,
            first("ports", json!([{"containerPort": 80, "hostPort": 80}])),
        ),
        denied(Who::Controller, "it has no Secret", nothing, mounted("/x", &secret)),
        denied(Who::Controller, "nor in a roundabout way", nothing, mounted("/x", &hidden)),
        denied(Who::Controller, "nor as environment", nothing, first("env", from_secret)),
        denied(Who::Controller, "nor all of one", nothing, first("envFrom", json!([{"secretRef": {"name": "login"}}]))),
        denied(Who::Controller, "nothing of the node is mounted", ANY, mounted("/host", &host)),
    ]
}
