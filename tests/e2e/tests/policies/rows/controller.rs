//! What the controller's accounts may do: `policies/controller.yaml`.

use hitless_api::names::{CONTROLLER, IN_SERVICE, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{BARE, NAMESPACE, Set, apps, pods, set, workload};
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    [stand_in(), deployments(), halt_reports(), reload(), sets(), replica_sets(), services(), rights()]
        .into_iter()
        .flatten()
        .collect()
}

fn status(name: &str, value: Value) -> Call {
    Call::strategic(format!("{}/{name}/status", pods(NAMESPACE)), value)
}

fn in_service(name: &str, value: &str) -> Call {
    status(name, json!({"status": {"conditions": [{"type": IN_SERVICE, "status": value}]}}))
}

fn stand_in() -> Vec<Row> {
    let (add, only) = ("only add", "only set the condition");
    let with = |more: Value| {
        let mut body = json!({"status": {"conditions": [{"type": IN_SERVICE, "status": "True"}]}});
        for (key, value) in more.as_object().into_iter().flatten() {
            for (inner, value) in value.as_object().into_iter().flatten() {
                body[key][inner] = value.clone();
            }
        }
        body
    };
    let ready = json!({"status": {"conditions": [{"type": IN_SERVICE, "status": "True"}, {"type": "Ready", "status": "True", "reason": "Forged"}]}});
    vec![
        allowed(Who::Controller, "the controller stands in where the condition is absent", in_service("fresh", "True")),
        denied(Who::Controller, "but never takes out of service", add, in_service("fresh", "False")),
        denied(Who::Controller, "nor lowers what an agent has raised", add, in_service("free", "False")),
        denied(Who::Controller, "nor raises what an agent has lowered", add, in_service("left", "True")),
        denied(Who::Controller, "nor sets another condition", only, status("fresh", ready)),
        denied(Who::Controller, "nor the phase", only, status("fresh", with(json!({"status": {"phase": "Failed"}})))),
        denied(
            Who::Controller,
            "nor a label",
            only,
            status("fresh", with(json!({"metadata": {"labels": {"a": "b"}}}))),
        ),
        allowed(Who::Uninstall, "at the end everything is put into service", in_service("left", "True")),
        denied(Who::Uninstall, "and nothing out of it", add, in_service("free", "False")),
        allowed(Who::Uninstall, "but companion pods that are not needed", in_service("companion", "False")),
        denied(Who::Controller, "which agents take out at all other times", add, in_service("companion", "False")),
    ]
}

fn deployments() -> Vec<Row> {
    let held = |value: Value| Call::merge(format!("{}/held", apps("deployments")), value);
    let lift = json!({"metadata": {"annotations": {"hitless.dev/rollout": null}}, "spec": {"paused": false}});
    let gap = json!({"metadata": {"annotations": {"hitless.dev/gap": "{}"}}});
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}});
    let (spec, meta) = ("only set paused", "only set annotations hitless.dev/");
    vec![
        allowed_as(
            Who::Controller,
            "the controller lifts mark and pause in one patch",
            held(lift.clone()),
            [("/spec/paused", Value::Null), ("/metadata/annotations/hitless.dev~1rollout", Value::Null)],
        ),
        allowed_as(Who::Uninstall, "and so does the account it leaves by", held(lift), [("/spec/paused", Value::Null)]),
        allowed(Who::Controller, "it notes the learned gap", held(gap)),
        denied(Who::Controller, "it does not scale", spec, held(json!({"spec": {"replicas": 5}}))),
        denied(Who::Controller, "it does not change the template", "where the Deployment opted in", held(image)),
        denied(
            Who::Controller,
            "nor the strategy",
            spec,
            held(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})),
        ),
        denied(Who::Controller, "nor labels", meta, held(json!({"metadata": {"labels": {"a": "b"}}}))),
        denied(
            Who::Controller,
            "nor foreign annotations",
            meta,
            held(json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
    ]
}

/// What `kubectl rollout status` is told of a halted Deployment.
fn halt_reports() -> Vec<Row> {
    let deployment = |name: &str, status: Value| {
        Call::strategic(format!("{}/{name}/status", apps("deployments")), json!({"status": status}))
    };
    let conditions = |status: &str, reason: &str, message: &str| json!([{"type": "Progressing", "status": status, "reason": reason, "message": message}]);
    let ended = || conditions("False", "ProgressDeadlineExceeded", "hitless: bad");
    let paused = || conditions("Unknown", "DeploymentPaused", "Deployment is paused");
    let (only, nothing_else) = ("only say in the condition Progressing", "only set the condition Progressing");
    let available = json!([{"type": "Available", "status": "True"}]);
    let is_paused = json!("DeploymentPaused");
    vec![
        allowed(
            Who::Controller,
            "of a halted Deployment the controller says that it makes no progress",
            deployment("halted", json!({"conditions": ended()})),
        ),
        allowed(Who::Controller, "and takes that back", deployment("held", json!({"conditions": paused()}))),
        denied(Who::Controller, "of no other one", only, deployment("held", json!({"conditions": ended()}))),
        denied(
            Who::Controller,
            "nothing of availability",
            only,
            deployment("halted", json!({"conditions": available})),
        ),
        denied(
            Who::Controller,
            "and no numbers",
            nothing_else,
            deployment("halted", json!({"conditions": ended(), "replicas": 7})),
        ),
        allowed_as(
            Who::DeploymentController,
            "as soon as another template is observed it is not so any more",
            deployment("halted", json!({"conditions": ended(), "observedGeneration": 1000})),
            [("/status/conditions/0/reason", is_paused)],
        ),
        allowed_as(
            Who::DeploymentController,
            "until then it stays",
            deployment("halted", json!({"conditions": ended()})),
            [("/status/conditions/0/reason", json!("ProgressDeadlineExceeded"))],
        ),
    ]
}

/// A restart because of a ConfigMap or Secret.
fn reload() -> Vec<Row> {
    const HASH: &str = "0123456789abcdef";
    const TEMPLATE: &str = "/spec/template/metadata/annotations";
    let annotate = |annotations: Value| json!([{"op": "add", "path": TEMPLATE, "value": annotations}]);
    let config = |value: &str| annotate(json!({"hitless.dev/config": value}));
    let (opted, only) = ("opted in and reloads", "only set the annotation hitless.dev/config");
    let deployment =
        |name: &str, operations: Value| Call::json_patch(format!("{}/{name}", apps("deployments")), operations);
    let opt_in = json!({"op": "add", "path": "/metadata/annotations/hitless.dev~1reload", "value": "auto"});
    let both = json!([opt_in, config(HASH)[0]]);
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:0"}]);
    let set = |of: Set, name: &str, operations: Value| {
        Call::json_patch(format!("{}/{name}", apps(of.resource())), operations)
    };
    let mark = || ("/metadata/annotations/hitless.dev~1rollout", json!("held"));
    let written = || ("/spec/template/metadata/annotations/hitless.dev~1config", json!(HASH));
    let mut rows = vec![
        allowed_as(
            Who::Controller,
            "a Deployment that reloads is restarted by its template, and held in the same write",
            deployment("reloads", config(HASH)),
            [written(), mark(), ("/spec/paused", json!(true))],
        ),
        denied(
            Who::Controller,
            "where it does not reload its template stays",
            opted,
            deployment("opted", config(HASH)),
        ),
        denied(Who::Controller, "also where the controller says that it does", opted, deployment("opted", both)),
        denied(
            Who::Controller,
            "and it does not even say so",
            "none of those that are the owner's",
            deployment("opted", json!([opt_in])),
        ),
        denied(Who::Uninstall, "the account it leaves by restarts nothing", opted, deployment("reloads", config(HASH))),
        denied(Who::Controller, "nothing but a hash", only, deployment("reloads", config("anything else"))),
        denied(
            Who::Controller,
            "no other restart annotation",
            only,
            deployment("reloads", annotate(json!({"rollme": "x"}))),
        ),
        denied(Who::Controller, "no image of a Deployment that reloads", only, deployment("reloads", image)),
    ];
    for of in [Set::StatefulSet, Set::DaemonSet] {
        rows.extend([
            allowed_as(
                Who::Controller,
                "a set that reloads is restarted by its template, and held in the same write",
                set(of, "reloads", config(HASH)),
                [written(), mark(), ("/spec/updateStrategy/type", json!("OnDelete"))],
            ),
            denied(
                Who::Controller,
                "one that does not is not",
                "only set images of containers",
                set(of, "opted", config(HASH)),
            ),
            denied(
                Who::Controller,
                "nothing but a hash on a set",
                "only set images of containers",
                set(of, "reloads", config("x")),
            ),
            denied(
                Who::Controller,
                "no opt-in of a set to reload",
                "none of those that are the owner's",
                set(of, "opted", json!([opt_in])),
            ),
        ]);
    }
    rows
}

fn sets() -> Vec<Row> {
    let both = |of: Set| [strategy(of), template(of), rest(of)].into_iter().flatten();
    both(Set::StatefulSet).chain(both(Set::DaemonSet)).chain(stateful_set()).collect()
}

fn held(of: Set) -> String {
    format!("{}/held", apps(of.resource()))
}

fn plain(of: Set) -> String {
    format!("{}/plain", apps(of.resource()))
}

/// How a hold of a StatefulSet or DaemonSet ends.
fn strategy(of: Set) -> Vec<Row> {
    let marks = json!({"hitless.dev/rollout": null, "hitless.dev/update-strategy": null, "hitless.dev/halted": "x"});
    let lift = json!({"metadata": {"annotations": marks}, "spec": {"updateStrategy": of.rolling()}});
    let lift = || Call::merge(held(of), lift.clone());
    let lifted = || {
        let mark = "/metadata/annotations/hitless.dev~1rollout";
        [("/spec/updateStrategy/type", json!("RollingUpdate")), (mark, Value::Null)]
    };
    let hold = json!({"metadata": {"annotations": {"hitless.dev/rollout": "held"}}, "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
    vec![
        allowed_as(Who::Controller, "the controller lifts marks and strategy of a set in one patch", lift(), lifted()),
        allowed_as(Who::Uninstall, "and so does the account it leaves by, of a set", lift(), lifted()),
        allowed(Who::Controller, "it may hold a set", Call::merge(plain(of), hold)),
    ]
}

/// What it may do to put the last good version back.
fn template(of: Set) -> Vec<Row> {
    let patch = |operations: Value| Call::json_patch(held(of), operations);
    let image = || json!({"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:0"});
    let proxy = json!({"op": "replace", "path": "/spec/template/spec/initContainers/1/image", "value": "proxy:0"});
    let back = json!([image(), proxy,
        {"op": "add", "path": "/spec/template/metadata/annotations", "value": {"kubectl.kubernetes.io/restartedAt": "then"}},
        {"op": "replace", "path": "/spec/updateStrategy", "value": of.rolling()}]);
    let opt_in = json!({"op": "add", "path": "/metadata/annotations", "value": {"hitless.dev/update": "in-place"}});
    let unselected = json!([{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]);
    let mut whole = set(of, "held", &json!({}), of.rolling())["spec"]["template"].clone();
    whole["spec"]["containers"][0]["image"] = json!("web:0");
    let (opted, only) = ("never in kube-system", "only set images of containers");
    let restarts = json!({"rollme": "x", "checksum/config": "x", "reloader.stakater.com/last-reloaded-from": "x", "keel.sh/update-time": "x",
        "own": "x", "example.com/config": "x"});
    let mut rows = vec![
        allowed_as(
            Who::Controller,
            "it puts the last good template back",
            patch(back),
            [
                ("/spec/template/spec/containers/0/image", json!("web:0")),
                ("/spec/template/spec/initContainers/1/image", json!("proxy:0")),
                ("/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt", json!("then")),
            ],
        ),
        allowed_as(
            Who::Controller,
            "and with all restart annotations, the owner's, too",
            patch(json!([{"op": "add", "path": "/spec/template/metadata/annotations", "value": restarts}])),
            [("/spec/template/metadata/annotations", restarts.clone())],
        ),
        denied(Who::Uninstall, "the account it leaves by changes no image of a set", opted, patch(json!([image()]))),
        denied(
            Who::Controller,
            "no image where the set did not opt in",
            opted,
            Call::json_patch(plain(of), json!([image()])),
        ),
        denied(
            Who::Controller,
            "not even with an opt-in of its own making",
            opted,
            Call::json_patch(plain(of), json!([opt_in, image()])),
        ),
        denied(
            Who::Controller,
            "no template in kube-system",
            opted,
            Call::json_patch(held(of).replace(NAMESPACE, "kube-system"), json!([image()])),
        ),
        denied(Who::Controller, "no lost node selector", only, patch(unselected)),
    ];
    for (says, path, value) in [
        ("no environment in a set's template", "/spec/containers/0/env", json!([{"name": "A", "value": "b"}])),
        ("no command", "/spec/containers/0/command", json!(["sh"])),
        ("no privileges", "/spec/containers/0/securityContext", json!({"privileged": true})),
        ("no container of another name", "/spec/containers/0/name", json!("other")),
        ("no more containers", "/spec/containers/-", json!({"name": "more", "image": "more:1"})),
        ("no init container", "/spec/initContainers", json!([{"name": "init", "image": "init:1"}])),
        ("no more init containers", "/spec/initContainers/-", json!({"name": "init", "image": "init:1"})),
        ("no image of an init container that has run", "/spec/initContainers/0/image", json!("setup:0")),
        ("nor one that is made restartable", "/spec/initContainers/0/restartPolicy", json!("Always")),
        ("nor a command of one that runs", "/spec/initContainers/1/command", json!(["sh"])),
        ("no volume", "/spec/volumes", json!([{"name": "v", "emptyDir": {}}])),
        ("no account of the pods", "/spec/serviceAccountName", json!("other")),
        ("no network of the host", "/spec/hostNetwork", json!(true)),
        ("no other annotation of the template", "/metadata/annotations", json!({"a": "b"})),
        ("no key that only begins like an own one", "/metadata/annotations", json!({"owner": "b"})),
        ("no annotation that hitless reads from pods", "/metadata/annotations", json!({"hitless.dev/hooks": "b"})),
        ("no label of the template", "/metadata/labels/a", json!("b")),
    ] {
        let operation = json!([{"op": "add", "path": format!("/spec/template{path}"), "value": value}]);
        rows.push(denied(Who::Controller, says, only, patch(operation)));
    }
    rows
}

/// Everything else of a StatefulSet or DaemonSet.
fn rest(of: Set) -> Vec<Row> {
    let (spec, meta) = ("only set updateStrategy", "only set annotations hitless.dev/");
    let mut rows: Vec<Row> = [Who::Controller, Who::Uninstall]
        .map(|who| {
            let body = json!({"spec": {"minReadySeconds": 5}});
            denied(who, "no other field of a set", spec, Call::merge(held(of), body))
        })
        .into();
    let opt_in = json!({"annotations": {"hitless.dev/update": "in-place"}});
    rows.push(denied(Who::Controller, "no opt-in of a set", meta, Call::merge(plain(of), json!({"metadata": opt_in}))));
    for (says, value) in [
        ("no end of an opt-in of a set", json!({"annotations": {"hitless.dev/update": null}})),
        ("no foreign annotation of a set", json!({"annotations": {"a": "b"}})),
        ("no restart annotations of its own making", json!({"annotations": {"hitless.dev/restart-annotations": "a"}})),
        ("nor takes it the owner's away", json!({"annotations": {"hitless.dev/restart-annotations": null}})),
        ("nor pauses it", json!({"annotations": {"hitless.dev/paused": "true"}})),
        ("no label of a set", json!({"labels": {"a": "b"}})),
        ("no finalizer of a set", json!({"finalizers": ["example.com/x"]})),
        (
            "no owner of a set",
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "free", "uid": "u"}]}),
        ),
    ] {
        rows.push(denied(Who::Controller, says, meta, Call::merge(held(of), json!({"metadata": value}))));
    }
    rows
}

fn stateful_set() -> Vec<Row> {
    let spec = |value: Value| Call::merge(held(Set::StatefulSet), json!({"spec": value}));
    let words = "only set updateStrategy";
    let volumes = json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}});
    vec![
        denied(Who::Controller, "it does not scale a StatefulSet", words, spec(json!({"replicas": 5}))),
        denied(Who::Controller, "nor move its ordinals", words, spec(json!({"ordinals": {"start": 5}}))),
        denied(Who::Controller, "nor delete its volumes", words, spec(volumes)),
    ]
}

fn services() -> Vec<Row> {
    let service = |value: Value| Call::merge(format!("/api/v1/namespaces/{NAMESPACE}/services/web"), value);
    let mark = |open: bool, mark: Value| json!({"metadata": {"annotations": {"hitless.dev/held-by": mark}}, "spec": {"publishNotReadyAddresses": open}});
    let (spec, meta) = ("only set publishNotReadyAddresses", "only set the annotation");
    vec![
        allowed(
            Who::Controller,
            "the controller opens a Service and marks it",
            service(mark(true, json!("u.h,false"))),
        ),
        allowed(Who::Controller, "and closes it", service(mark(false, Value::Null))),
        allowed(Who::Uninstall, "and so does the account it leaves by", service(mark(false, Value::Null))),
        denied(
            Who::Controller,
            "it opens none without the mark",
            "carries hitless.dev/held-by",
            service(json!({"spec": {"publishNotReadyAddresses": true}})),
        ),
        denied(Who::Controller, "it changes no selector", spec, service(json!({"spec": {"selector": {"a": "b"}}}))),
        denied(Who::Controller, "nor its type", spec, service(json!({"spec": {"type": "NodePort"}}))),
        denied(Who::Controller, "nor labels", meta, service(json!({"metadata": {"labels": {"a": "b"}}}))),
        denied(
            Who::Controller,
            "nor foreign annotations",
            meta,
            service(json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
    ]
}

fn replica_sets() -> Vec<Row> {
    let history = json!({"labels": {"hitless.dev/history": "x"}});
    let of = |name: &str| format!("{}/{name}", apps("replicasets"));
    let template = json!({"metadata": {"labels": {"hitless.dev/live": "x"}}, "spec": {"template": {"metadata": {"annotations": {"hitless.dev/mixed": "1"}}}}});
    vec![
        allowed(
            Who::Controller,
            "the controller keeps history",
            Call::create(apps("replicasets"), workload("new", 0, &history)),
        ),
        denied(
            Who::Controller,
            "history has no pods",
            "only create history entries",
            Call::create(apps("replicasets"), workload("new", 1, &history)),
        ),
        denied(
            Who::Controller,
            "it makes no other ReplicaSet",
            "only create history entries",
            Call::create(apps("replicasets"), workload("new", 0, &json!({}))),
        ),
        allowed(Who::Controller, "it writes the mixed template", Call::merge(of("ordinary"), template)),
        denied(
            Who::Controller,
            "it does not scale",
            "does not scale",
            Call::merge(of("ordinary"), json!({"spec": {"replicas": 0}})),
        ),
        allowed(Who::Controller, "it deletes history", Call::delete(of("history"))),
        denied(Who::Controller, "and no other ReplicaSet", "only delete history entries", Call::delete(of("ordinary"))),
    ]
}

fn rights() -> Vec<Row> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let account = |name: &str| json!([{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}]);
    let role = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = |name: &str, subjects: Value| json!({"metadata": {"name": name}, "roleRef": role("hitless-agent-operator"), "subjects": subjects});
    let jane = json!([{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]);
    let farewell = json!({"metadata": {"name": "hitless-uninstall"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let other = json!({"metadata": {"name": "other"}, "rules": []});
    let bindings = || format!("{rbac}/namespaces/{BARE}/rolebindings");
    let accounts = |namespace: &str| format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    vec![
        allowed(
            Who::Controller,
            "the controller lets agents operate where it keeps a ledger",
            Call::create(bindings(), binding("hitless-agent", account("hitless-agent"))),
        ),
        denied(
            Who::Controller,
            "and nobody else",
            "may only bind",
            Call::create(bindings(), binding("hitless-agent", jane)),
        ),
        denied(
            Who::Controller,
            "under no other name",
            "may only bind",
            Call::create(bindings(), binding("other", account("hitless-agent"))),
        ),
        denied(
            Who::Controller,
            "nobody cluster-wide",
            "",
            Call::create(format!("{rbac}/clusterrolebindings"), binding("hitless-agent", account("hitless-agent"))),
        ),
        allowed(
            Who::Controller,
            "it makes the role that it leaves by",
            Call::create(format!("{rbac}/clusterroles"), farewell),
        ),
        denied(Who::Controller, "and no other", "may only create", Call::create(format!("{rbac}/clusterroles"), other)),
        denied(
            Who::Controller,
            "no other account",
            "may only create",
            Call::create(accounts(SYSTEM_NAMESPACE), json!({"metadata": {"name": CONTROLLER.to_owned() + "-2"}})),
        ),
    ]
}
