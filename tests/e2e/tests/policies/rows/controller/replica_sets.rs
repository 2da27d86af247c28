//! What the controller may do to ReplicaSets: `policies/controller-replicasets.yaml`.

use hitless_api::names::{DEFAULT_SYSTEM_NAMESPACE, KUBE_SYSTEM};
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, apps, owned, system_replica_sets, workload};
use crate::request::{Call, Who};

pub(super) fn replica_sets() -> Vec<Row> {
    [history(), template(), rest()].into_iter().flatten().collect()
}

fn of(name: &str) -> String {
    format!("{}/{name}", apps("replicasets"))
}

/// A history entry of the Deployment `deployment`.
fn entry(deployment: &str, replicas: i64) -> Value {
    let metadata = owned(deployment, &json!("unknown"), json!({"hitless.dev/history": "x"}));
    let mut body = workload(deployment, replicas, &metadata);
    body["metadata"]["name"] = json!("entry");
    body
}

fn history() -> Vec<Row> {
    let create = |body: Value| Call::create(apps("replicasets"), body);
    let mut free = entry("owner", 0);
    free["metadata"]["ownerReferences"] = json!([]);
    let mut other = entry("owner", 0);
    other["spec"]["template"]["spec"]["hostPID"] = json!(true);
    let mut plain = entry("owner", 0);
    plain["metadata"]["labels"] = json!({"app": "owner"});
    let system = Call::create(system_replica_sets(), entry("owner", 0));
    vec![
        allowed(Who::Controller, "the controller keeps history", create(entry("owner", 0))),
        denied(Who::Controller, "history has no pods", "only create history entries", create(entry("owner", 1))),
        denied(Who::Controller, "it makes no other ReplicaSet", "only create history entries", create(plain)),
        denied(Who::Controller, "history belongs to a Deployment", "controlled by a Deployment", create(free)),
        denied(Who::Controller, "never in kube-system", "never in kube-system", system),
        denied(
            Who::Controller,
            "nor of one that has not opted in",
            "only where the Deployment has opted in",
            create(entry("unwilling", 0)),
        ),
        denied(Who::Controller, "history is what ran", "that has the Deployment's pods", create(other)),
        allowed(Who::Controller, "it deletes history", Call::delete(of("history"))),
        denied(Who::Controller, "and no other ReplicaSet", "only delete history entries", Call::delete(of("ordinary"))),
    ]
}

fn template() -> Vec<Row> {
    let patch = |operations: Value| Call::json_patch(of("owner"), operations);
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let image = || json!({"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:0"});
    let proxy = json!({"op": "replace", "path": "/spec/template/spec/initContainers/1/image", "value": "proxy:0"});
    let live = || add("/metadata/labels/hitless.dev~1live", json!("x"));
    let restarts = json!({"rollme": "x", "checksum/config": "x", "own": "x", "example.com/config": "x", "hitless.dev/mixed": "1",
        "hitless.dev/config": "0123456789abcdef"});
    let notes = |value: Value| add("/spec/template/metadata/annotations", value);
    let chart = || add("/spec/template/metadata/labels/helm.sh~1chart", json!("web-2"));
    let (only, keys) = ("only set images of containers", "of a template's annotations");
    let mut rows = vec![
        allowed_as(
            Who::Controller,
            "it changes a label of the template",
            patch(json!([live(), chart()])),
            [("/spec/template/metadata/labels/helm.sh~1chart", json!("web-2"))],
        ),
        allowed_as(
            Who::Controller,
            "it writes the mixed template",
            patch(json!([live(), image(), proxy, notes(restarts.clone())])),
            [
                ("/spec/template/spec/containers/0/image", json!("web:0")),
                ("/spec/template/metadata/annotations", restarts),
            ],
        ),
        denied(
            Who::Controller,
            "no image where the Deployment did not opt in",
            "only where the Deployment has opted in",
            Call::json_patch(of("unwilling"), json!([image()])),
        ),
        allowed(
            Who::Controller,
            "but it puts back what it left in mid-rollout",
            Call::json_patch(
                of("left"),
                json!([image(), {"op": "remove", "path": "/spec/template/metadata/annotations"}]),
            ),
        ),
        denied(
            Who::Controller,
            "no image of a ReplicaSet without a Deployment",
            "that a Deployment controls",
            Call::json_patch(of("ordinary"), json!([image()])),
        ),
        denied(
            Who::Controller,
            "no template in kube-system",
            "never in kube-system",
            Call::json_patch(format!("{}/owner", system_replica_sets()), json!([image()])),
        ),
        denied(
            Who::Uninstall,
            "the account it leaves by changes no template of a ReplicaSet",
            "only the controller may change",
            patch(json!([image()])),
        ),
        denied(Who::Controller, "no foreign annotation", keys, patch(json!([notes(json!({"a": "b"}))]))),
        denied(
            Who::Controller,
            "none that hitless reads from pods",
            keys,
            patch(json!([notes(json!({"hitless.dev/hooks": "b"}))])),
        ),
        denied(
            Who::Controller,
            "none that excuses pods from rules",
            keys,
            patch(json!([notes(json!({"podtransitionrule.kusionstack.io/skip-rule-conditions": "b"}))])),
        ),
    ];
    for (says, path, value) in [
        ("no environment in a ReplicaSet's template", "/spec/containers/0/env", json!([{"name": "A", "value": "b"}])),
        ("no command", "/spec/containers/0/command", json!(["sh"])),
        ("no privileges", "/spec/containers/0/securityContext", json!({"privileged": true})),
        ("no more containers", "/spec/containers/-", json!({"name": "more", "image": "more:1"})),
        ("no more init containers", "/spec/initContainers/-", json!({"name": "init", "image": "init:1"})),
        ("no image of an init container that has run", "/spec/initContainers/0/image", json!("setup:0")),
        ("no volume", "/spec/volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
        ("no account of the pods", "/spec/serviceAccountName", json!("other")),
        ("no processes of the host", "/spec/hostPID", json!(true)),
        ("no network of the host", "/spec/hostNetwork", json!(true)),
        ("no rights for all containers", "/spec/securityContext", json!({"runAsUser": 0})),
        (
            "no label of the template that is Kubernetes' own",
            "/metadata/labels/batch.kubernetes.io~1job-name",
            json!("b"),
        ),
        ("nor one by which ReplicaSets know their pods", "/metadata/labels/pod-template-generation", json!("b")),
        ("nor one that hitless reads", "/metadata/labels/hitless.dev~1gate", json!("enabled")),
    ] {
        rows.push(denied(Who::Controller, says, only, patch(json!([add(&format!("/spec/template{path}"), value)]))));
    }
    rows
}

fn rest() -> Vec<Row> {
    let patch = |value: Value| Call::merge(of("owner"), value);
    let meta = "of a ReplicaSet's metadata";
    vec![
        denied(Who::Controller, "it does not scale", "does not scale", patch(json!({"spec": {"replicas": 0}}))),
        denied(
            Who::Controller,
            "nor changes when pods count as available",
            "only set the template",
            patch(json!({"spec": {"minReadySeconds": 7}})),
        ),
        denied(Who::Controller, "nor its owner", meta, patch(json!({"metadata": {"ownerReferences": null}}))),
        denied(Who::Controller, "nor foreign labels", meta, patch(json!({"metadata": {"labels": {"a": "b"}}}))),
        denied(Who::Controller, "nor annotations", meta, patch(json!({"metadata": {"annotations": {"a": "b"}}}))),
        allowed(
            Who::Uninstall,
            "the account it leaves by takes our labels off",
            Call::merge(of("live"), json!({"metadata": {"labels": {"hitless.dev/live": null}}})),
        ),
    ]
}

/// Everything that the controller has no business with, whatever RBAC says.
pub(super) fn nothing_else() -> Vec<Row> {
    let core = |namespace: &str, resource: &str| format!("/api/v1/namespaces/{namespace}/{resource}");
    let named = |name: &str| json!({"metadata": {"name": name}});
    let says = "the controller may not";
    vec![
        denied(
            Who::Controller,
            "the controller makes no ConfigMap",
            says,
            Call::create(core(NAMESPACE, "configmaps"), named("new")),
        ),
        denied(
            Who::Controller,
            "nor a Secret, not even where it lives",
            says,
            Call::create(core(DEFAULT_SYSTEM_NAMESPACE, "secrets"), named("new")),
        ),
        denied(Who::Controller, "nor a namespace", says, Call::create("/api/v1/namespaces", named("new"))),
        denied(
            Who::Uninstall,
            "nor a Deployment's size by its scale",
            says,
            Call::merge(format!("{}/held/scale", apps("deployments")), json!({"spec": {"replicas": 7}})),
        ),
        denied(
            Who::Controller,
            "nor anything of a node",
            says,
            Call::merge("/api/v1/nodes/policy-test-here", json!({"metadata": {"labels": {"a": "b"}}})),
        ),
        denied(
            Who::Controller,
            "and it runs nothing in pods",
            says,
            Call::connect(format!("{}/free/exec?command=id", core(NAMESPACE, "pods"))),
        ),
        denied(
            Who::Controller,
            "in kube-system as little as elsewhere",
            says,
            Call::create(core(KUBE_SYSTEM, "configmaps"), named("new")),
        ),
    ]
}
