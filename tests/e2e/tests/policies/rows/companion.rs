//! Which companion pods the controller may make and delete: `policies/controller-companion.yaml`.

use std::collections::BTreeMap;

use hitless_api::names::DEFAULT_SYSTEM_NAMESPACE;
use hitless_api::{GroupKind, ObjectRef};
use hitless_rollout::companion::{key, manifest};
use hitless_world::images::{SPELLINGS, references, strange};
use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, pods, sidecar, spelt, workload};
use crate::request::{Call, Who, uid};

const BESIDE: &str = "nor the pods that run";
const CONTAINERS: &str = "has the containers that the template";
/// What the template does not have is refused by either of two policies, and the API server names one of them.
const EITHER: &str = "a companion pod has ";
/// So is what is a right on the node.
const ANY: &str = "ValidatingAdmissionPolicy 'hitless-controller-";
const LIST: &str = "/metadata/annotations/hitless.dev~1from-template";

/// The companion of a Deployment, as the controller makes it, and with one thing changed.
pub(super) fn rows() -> Vec<Row> {
    [form(), added(), images(), spellings(), contents(), place()].into_iter().flatten().collect()
}

/// The companion of this Deployment.
pub(super) fn companion(name: &str) -> Value {
    pod(NAMESPACE, name)
}

fn pod(namespace: &str, name: &str) -> Value {
    let group_kind = GroupKind::new("apps", "Deployment");
    let owner =
        ObjectRef { group_kind, namespace: namespace.to_owned(), name: name.to_owned(), uid: uid("Deployment", name) };
    let own = workload(name, 1, &json!({}))["spec"]["template"].clone();
    let pinned = |name: &str| (name.to_owned(), format!("{name}:1.hitless-01@sha256:22"));
    manifest(&owner, &key(&owner, "r"), &own, &BTreeMap::from([pinned("web"), pinned("proxy")]), "n1")
}

fn make(name: &str, changes: &[(&str, Value)]) -> Call {
    let mut pod = pod(NAMESPACE, name);
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
    make("opted", &[(path, value)])
}

fn first(field: &str, value: Value) -> Call {
    one(&format!("/spec/containers/0/{field}"), value)
}

/// With an item more that is said to be the template's.
fn listed(item: &str, path: &str, value: Value) -> Call {
    make("opted", &[(LIST, json!(format!("web,setup,proxy,label/app,{item}"))), (path, value)])
}

fn web() -> Value {
    json!({"name": "web", "image": "web:1"})
}

/// With the sidecar of the Deployment `meshed`.
fn mesh(name: &str, changes: &[(&str, Value)]) -> Call {
    let mut mesh = sidecar();
    for (key, value) in changes {
        mesh[*key] = value.clone();
    }
    make(name, &[("/spec/containers", json!([web(), mesh]))])
}

fn volume() -> Value {
    json!([{"name": "v", "emptyDir": {}}])
}

fn mount() -> Value {
    json!([{"name": "v", "mountPath": "/x"}])
}

fn capable() -> Value {
    json!({"capabilities": {"add": ["SYS_ADMIN"]}})
}

fn variable() -> Value {
    json!([{"name": "NODE_OPTIONS", "value": "--import=data:"}])
}

fn form() -> Vec<Row> {
    let (form, opted) = ("controlled by a Deployment", "only where a Deployment has opted in");
    vec![
        allowed(Who::Controller, "the controller makes a companion pod", make("opted", &[])),
        denied(Who::Controller, "none of who has not opted in", opted, make("plain", &[])),
        denied(Who::Controller, "none beside no pod", opted, make("zero", &[])),
        denied(
            Who::Controller,
            "none is beside hitless",
            "ValidatingAdmissionPolicy 'hitless-controller-",
            Call::create(pods(DEFAULT_SYSTEM_NAMESPACE), pod(DEFAULT_SYSTEM_NAMESPACE, "hitless-controller")),
        ),
        denied(Who::Controller, "it has the gate", form, one("/spec/readinessGates", json!([]))),
        denied(Who::Controller, "and belongs to somebody", ANY, one("/metadata/ownerReferences", json!([]))),
        denied(Who::Uninstall, "who leaves makes none", "make and delete pods that fetch", make("opted", &[])),
    ]
}

/// What admission adds to all pods of a Deployment.
fn added() -> Vec<Row> {
    vec![
        allowed(Who::Controller, "also where all pods have a container that admission adds", mesh("meshed", &[])),
        allowed(Who::Controller, "of another tag", mesh("meshed", &[("image", json!("mesh.io:5000/mesh:2"))])),
        denied(Who::Controller, "not one that they do not have", BESIDE, mesh("opted", &[])),
        denied(
            Who::Controller,
            "nor under another image",
            BESIDE,
            mesh("meshed", &[("image", json!("mesh.io:5000/mesh2:1"))]),
        ),
        denied(Who::Controller, "nor with other rights", ANY, mesh("meshed", &[("securityContext", capable())])),
        denied(Who::Controller, "nor with another command", BESIDE, mesh("meshed", &[("command", json!(["/bin/sh"]))])),
        denied(Who::Controller, "nor with other arguments", BESIDE, mesh("meshed", &[("args", json!(["x"]))])),
        denied(Who::Controller, "nor with other environment", BESIDE, mesh("meshed", &[("env", variable())])),
        denied(Who::Controller, "nor with a mount", BESIDE, {
            let mut mesh = sidecar();
            mesh["volumeMounts"] = mount();
            let list = "web,setup,proxy,label/app,mesh/mount//x";
            make(
                "meshed",
                &[(LIST, json!(list)), ("/spec/containers", json!([web(), mesh])), ("/spec/volumes", volume())],
            )
        }),
        denied(
            Who::Controller,
            "whatever it says that the template has",
            EITHER,
            listed("mesh,mesh/env/MESH", "/spec/containers", json!([web(), sidecar()])),
        ),
    ]
}

fn images() -> Vec<Row> {
    let images = "has the images that the template";
    let image = |image: &str| first("image", json!(image));
    let untagged = |image: &str| make("untagged", &[("/spec/containers/0/image", json!(image))]);
    vec![
        allowed(Who::Controller, "with the template's image, too", image("web:1")),
        allowed(Who::Controller, "or with a digest beside it", image("web:1@sha256:22")),
        denied(Who::Controller, "it runs no other image", images, image("other:1")),
        denied(Who::Controller, "nor one whose name begins like it", images, image("web.evil.io/x:1")),
        denied(Who::Controller, "nor under a longer name", images, image("web:1evil@sha256:22")),
        denied(Who::Controller, "nor from below it", images, image("web:1/evil@sha256:22")),
        denied(Who::Controller, "nor another tag", images, image("web:2")),
        allowed(Who::Controller, "a template without a tag has the digest", untagged("web@sha256:22")),
        allowed(Who::Controller, "also with the tag that is meant", untagged("web:latest.hitless-01@sha256:22")),
        denied(Who::Controller, "but no name that begins like it", images, untagged("web.evil.io/x:1")),
        denied(Who::Controller, "nor one that ends like a tag", images, untagged("web.hitless-01@sha256:22")),
        denied(Who::Controller, "nor a tag of its choice", images, untagged("web:1")),
        denied(
            Who::Controller,
            "nor another image in an init container",
            images,
            one("/spec/initContainers/0/image", json!("other:1")),
        ),
        denied(
            Who::Controller,
            "nor another digest in one that has run",
            images,
            one("/spec/initContainers/0/image", json!("setup:1@sha256:22")),
        ),
    ]
}

/// Whatever the product makes of an image is admitted, in whichever way that is written, and nothing that looks like it.
fn spellings() -> Vec<Row> {
    let rows = SPELLINGS.iter().enumerate().flat_map(|(index, template)| {
        let make = move |image: &String| make(&spelt(index), &[("/spec/containers/0/image", json!(image))]);
        let written =
            references(template).into_iter().map(move |image| allowed(Who::Controller, template, make(&image)));
        let strange = strange(template).into_iter();
        written.chain(
            strange
                .map(move |image| denied(Who::Controller, template, "has the images that the template", make(&image))),
        )
    });
    rows.collect()
}

/// What a container runs and sees.
fn contents() -> Vec<Row> {
    let host = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let secret = json!([{"name": "v", "secret": {"secretName": "login"}}]);
    vec![
        denied(Who::Controller, "nor another command", CONTAINERS, first("command", json!(["/bin/sh"]))),
        denied(
            Who::Controller,
            "nor what is run beside it",
            CONTAINERS,
            first("lifecycle", json!({"postStart": {"exec": {"command": ["x"]}}})),
        ),
        denied(
            Who::Controller,
            "nor as a probe",
            CONTAINERS,
            first("livenessProbe", json!({"exec": {"command": ["x"]}})),
        ),
        denied(Who::Controller, "nor with another right", ANY, first("securityContext", capable())),
        denied(
            Who::Controller,
            "nor on a port of the node",
            ANY,
            first("ports", json!([{"containerPort": 80, "hostPort": 80}])),
        ),
        denied(Who::Controller, "nor with other environment", BESIDE, first("env", variable())),
        denied(
            Who::Controller,
            "nor as if it were the template's",
            EITHER,
            listed("web/env/NODE_OPTIONS", "/spec/containers/0/env", variable()),
        ),
        denied(
            Who::Controller,
            "nor with a Secret as environment",
            CONTAINERS,
            first("envFrom", json!([{"secretRef": {"name": "login"}}])),
        ),
        denied(Who::Controller, "nor with a volume", BESIDE, one("/spec/volumes", volume())),
        denied(
            Who::Controller,
            "nor with a mount",
            BESIDE,
            make("opted", &[("/spec/volumes", volume()), ("/spec/containers/0/volumeMounts", mount())]),
        ),
        denied(Who::Controller, "nor a Secret", BESIDE, one("/spec/volumes", secret.clone())),
        denied(
            Who::Controller,
            "nor as if it were the template's",
            EITHER,
            listed("volume/v", "/spec/volumes", secret),
        ),
        denied(
            Who::Controller,
            "nor another command there",
            CONTAINERS,
            one("/spec/initContainers/1/command", json!(["/bin/sh"])),
        ),
        denied(Who::Controller, "with all init containers", CONTAINERS, one("/spec/initContainers", json!([]))),
        denied(Who::Controller, "nothing of the node is mounted", ANY, one("/spec/volumes", host)),
    ]
}

/// What the pod is beside its containers.
fn place() -> Vec<Row> {
    let (place, labels) = ("the place that the template", "has the labels and annotations that the template");
    let tolerations = json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]);
    vec![
        denied(Who::Controller, "nor with the node's processes", ANY, one("/spec/hostPID", json!(true))),
        denied(Who::Controller, "nor as another user", place, one("/spec/securityContext", json!({"runAsUser": 0}))),
        denied(Who::Controller, "nor with another account", place, one("/spec/serviceAccountName", json!("other"))),
        denied(
            Who::Controller,
            "nor with names of its own",
            place,
            one("/spec/hostAliases", json!([{"ip": "192.0.2.1", "hostnames": ["a"]}])),
        ),
        denied(Who::Controller, "nor on a node of its choice", ANY, one("/spec/nodeName", json!("n1"))),
        denied(Who::Controller, "nor on one that is taken", place, one("/spec/tolerations", tolerations)),
        denied(Who::Controller, "nor where the template may not", place, one("/spec/nodeSelector", json!({}))),
        denied(
            Who::Controller,
            "nor before all others",
            ANY,
            one("/spec/priorityClassName", json!("system-node-critical")),
        ),
        denied(Who::Controller, "it has no labels of others", BESIDE, one("/metadata/labels/role", json!("db"))),
        denied(Who::Controller, "nor of a ReplicaSet", "label", one("/metadata/labels/pod-template-hash", json!("0"))),
        denied(Who::Controller, "and all of its own", labels, one("/metadata/labels/app", json!("other"))),
        denied(
            Who::Controller,
            "nor annotations that others obey",
            BESIDE,
            one("/metadata/annotations/iam.example.com~1role", json!("admin")),
        ),
    ]
}
