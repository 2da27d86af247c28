//! What the controller may do to StatefulSets and DaemonSets.

use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, Set, apps, set};
use crate::request::{Call, Who};

pub(super) fn sets() -> Vec<Row> {
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
        {"op": "add", "path": "/spec/template/metadata/labels/helm.sh~1chart", "value": "web-1"},
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
                ("/spec/template/metadata/labels/helm.sh~1chart", json!("web-1")),
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
        (
            "no label of the template that is Kubernetes' own",
            "/metadata/labels/batch.kubernetes.io~1job-name",
            json!("b"),
        ),
        ("nor one that hitless reads", "/metadata/labels/hitless.dev~1gate", json!("enabled")),
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
        ("nor what its restarts are", json!({"annotations": {"hitless.dev/restarts": "containers"}})),
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
