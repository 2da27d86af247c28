//! Which companion pods the controller may make and delete: `policies/controller.yaml`.

use std::collections::BTreeMap;

use hitless_api::{GroupKind, ObjectRef};
use hitless_rollout::companion::{key, manifest};
use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, pods, workload};
use crate::request::{Call, Who};

/// The companion of a Deployment, as the controller makes it, and with one thing changed.
pub(super) fn rows() -> Vec<Row> {
    let (form, opted, template) =
        ("controlled by a Deployment", "only where a Deployment has opted in", "runs what the template");
    let make = |name: &str, changes: &[(&str, Value)]| {
        let group_kind = GroupKind::new("apps", "Deployment");
        let owner =
            ObjectRef { group_kind, namespace: NAMESPACE.to_owned(), name: name.to_owned(), uid: "u".to_owned() };
        let own = workload(name, 1, &json!({}))["spec"]["template"].clone();
        let pinned = |name: &str| (name.to_owned(), format!("{name}:1.hitless-01@sha256:22"));
        let images = BTreeMap::from([pinned("web"), pinned("proxy")]);
        let mut pod = manifest(&owner, &key(&owner, "r"), &own, &images, "n1");
        for (path, value) in changes {
            if let Some(at) = path.rsplit_once('/').and_then(|(parent, key)| Some(&mut pod.pointer_mut(parent)?[key])) {
                *at = value.clone();
            }
        }
        Call::create(pods(NAMESPACE), pod)
    };
    let one = |path: &str, value: Value| make("opted", &[(path, value)]);
    let host = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let sidecar = |privileged: bool| {
        let web = json!({"name": "web", "image": "web:1"});
        json!([web, {"name": "mesh", "image": "mesh:1", "securityContext": {"privileged": privileged}}])
    };
    vec![
        allowed(Who::Controller, "the controller makes a companion pod", make("opted", &[])),
        allowed(Who::Controller, "also where a webhook adds a container", one("/spec/containers", sidecar(false))),
        denied(Who::Controller, "not one with rights", template, one("/spec/containers", sidecar(true))),
        denied(Who::Controller, "none of who has not opted in", opted, make("plain", &[])),
        denied(Who::Controller, "it runs no other image", template, one("/spec/containers/0/image", json!("other:1"))),
        denied(Who::Controller, "nor another command", template, one("/spec/containers/0/command", json!(["/bin/sh"]))),
        denied(
            Who::Controller,
            "nor another image in an init container",
            template,
            one("/spec/initContainers/0/image", json!("other:1")),
        ),
        denied(
            Who::Controller,
            "nor another command there",
            template,
            one("/spec/initContainers/1/command", json!(["/bin/sh"])),
        ),
        denied(Who::Controller, "with all init containers", template, one("/spec/initContainers", json!([]))),
        denied(Who::Controller, "nor with the node's processes", template, one("/spec/hostPID", json!(true))),
        denied(Who::Controller, "nothing of the node is mounted", template, one("/spec/volumes", host)),
        denied(Who::Controller, "it has the gate", form, one("/spec/readinessGates", json!([]))),
        denied(Who::Controller, "and belongs to somebody", form, one("/metadata/ownerReferences", json!([]))),
        denied(Who::Uninstall, "who leaves makes none", "make and delete pods that fetch", make("opted", &[])),
    ]
}
