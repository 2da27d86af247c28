//! No pod that the controller makes has a right on its node, whoever it says that it is for: `policies/node-access.yaml`.
//!
//! Which fields of a pod give one is asked of the API server in `pod_spec`; these rows are about whose pods.

use hitless_api::names::{DEFAULT_SYSTEM_NAMESPACE, KUBE_SYSTEM};
use serde_json::{Value, json};

use super::companion::companion;
use super::{allowed, denied};
use crate::Row;
use crate::fixture::{BARE, NAMESPACE, NODE, NODES, colla_set_pod, node_rights, pod, pods};
use crate::request::{Call, Who};

/// What is said where this policy is the only one that says no.
const LABEL: &str = "hitless.dev/node-access=allowed";
/// Several policies say no, and the API server names the one that it asked first.
const ANY: &str = "ValidatingAdmissionPolicy 'hitless-controller-";

/// The pod with this merged into its spec, and of the owner with this name.
fn with(mut pod: Value, owner: &str, changes: &Value) -> Value {
    pod["metadata"]["ownerReferences"][0]["name"] = json!(owner);
    for (field, value) in changes.as_object().into_iter().flatten() {
        match field.as_str() {
            // Of the first container.
            "container" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    pod["spec"]["containers"][0][field] = value.clone();
                }
            }
            _ => pod["spec"][field] = value.clone(),
        }
    }
    pod
}

fn made(says: &'static str, words: &'static str, pod: Value) -> Row {
    denied(Who::Controller, says, words, Call::create(pods(NAMESPACE), pod))
}

pub(super) fn rows() -> Vec<Row> {
    [without_owner(), unproven(), of_an_owner(), by_label(), beside_the_cluster()].into_iter().flatten().collect()
}

fn without_owner() -> Vec<Row> {
    let host = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let everything = json!({"hostPID": true, "container": {"securityContext": {"privileged": true}}});
    let mut all = everything.clone();
    all["volumes"] = host.clone();
    let nobody = |changes: &Value| with(companion("opted"), "nope", changes);
    vec![
        made("a companion of nobody mounts nothing of the node", ANY, nobody(&json!({"volumes": host}))),
        made("nor does it see its processes", ANY, nobody(&everything)),
        made(
            "a pod of a CollaSet that is not there has no right either",
            ANY,
            with(colla_set_pod("colla", "new"), "nope", &all),
        ),
    ]
}

/// A pod whose owner or revision is not there is refused for that alone.
fn unproven() -> Vec<Row> {
    let (companions, sets) = ("Deployment that this companion pod names", "CollaSet or CloneSet that this pod names");
    let nothing = json!({});
    let forged = |mut pod: Value, key: &str, value: Value| {
        pod["metadata"]["annotations"][key] = value;
        pod
    };
    let owner = "hitless.dev/found-owner";
    let of_nobody = || with(companion("opted"), "nope", &json!({}));
    let foreign = || {
        let mut pod = colla_set_pod("colla", "new");
        pod["metadata"]["ownerReferences"][0]["uid"] = json!("u");
        pod
    };
    vec![
        made("no companion of a Deployment that is not there", companions, of_nobody()),
        made("also where the controller says that it is", companions, {
            let uid = of_nobody()["metadata"]["ownerReferences"][0]["uid"].clone();
            forged(of_nobody(), owner, uid)
        }),
        made("nor of one of the same name that is gone", ANY, {
            let mut pod = companion("opted");
            pod["metadata"]["ownerReferences"][0]["uid"] = json!("u");
            pod
        }),
        made("no pod of a CollaSet that is not there", sets, with(colla_set_pod("colla", "new"), "nope", &nothing)),
        made("nor of one of the same name that is gone", sets, foreign()),
        made("also where the controller says that it is there", sets, forged(foreign(), owner, json!("u"))),
        made("nor of a revision that is not there", "the revision that this pod", colla_set_pod("colla", "nope")),
        made("also where the controller says so", "the revision that this pod", {
            forged(colla_set_pod("colla", "nope"), "hitless.dev/found-revision", json!("colla-nope"))
        }),
        made("nor of one that is another CollaSet's", ANY, {
            let mut pod = colla_set_pod("colla", "new");
            pod["metadata"]["labels"]["controller-revision-hash"] = json!("node-new");
            pod
        }),
    ]
}

fn of_an_owner() -> Vec<Row> {
    let of = |revision: &str, changes: Value| with(colla_set_pod("colla", revision), "colla", &changes);
    let context = |context: Value| json!({"container": {"securityContext": context}});
    let capabilities = |names: Value| context(json!({"capabilities": {"add": names}}));
    let port = json!([{"containerPort": 80, "hostPort": 80}]);
    let tolerations = json!([{"operator": "Exists"}]);
    vec![
        made(
            "an earlier revision gives no capabilities",
            ANY,
            of("old", capabilities(json!(["SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE"]))),
        ),
        made(
            "nor the kernel's files",
            ANY,
            of("old", json!({"hostUsers": false, "container": {"securityContext": {"procMount": "Unmasked"}}})),
        ),
        made("nor a port of the node", ANY, of("old", json!({"container": {"ports": port.clone()}}))),
        made("nor a node of its choice", ANY, of("old", json!({"nodeName": NODE, "tolerations": tolerations.clone()}))),
        made(
            "nor a program without seccomp",
            ANY,
            of("old", json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}})),
        ),
        made("nor a place before all others", ANY, of("old", json!({"priorityClassName": "system-node-critical"}))),
        made("nor does the updated one give capabilities", ANY, of("new", capabilities(json!(["SYS_ADMIN"])))),
        made(
            "nor a port and a node",
            ANY,
            of("new", json!({"container": {"ports": port}, "nodeName": NODE, "tolerations": tolerations})),
        ),
        made("nor another account of the namespace", ANY, of("old", json!({"serviceAccountName": "other"}))),
        made(
            "nor any image and command",
            ANY,
            of("old", json!({"container": {"image": "other:1", "command": ["/bin/sh"]}})),
        ),
        // What was refused already.
        made("nor the node's network", ANY, of("new", json!({"hostNetwork": true}))),
        made("nor a privilege", ANY, of("old", context(json!({"privileged": true})))),
        denied(
            Who::Controller,
            "nor a pod for a CollaSet where there is none",
            ANY,
            Call::create(pods(BARE), of("old", json!({}))),
        ),
    ]
}

/// Pods exactly as their owner's template says.
fn by_label() -> Vec<Row> {
    let made_pod = || with(colla_set_pod("node", "new"), "node", &node_rights());
    let users_pod = || {
        let mut pod = pod("new", NODE, &json!({}));
        pod["spec"]["volumes"] = node_rights()["volumes"].clone();
        pod
    };
    vec![
        made("what the template asks for needs the namespace's label", LABEL, made_pod()),
        made("and all of it is named", "namespaces of the node, seccomp, AppArmor or SELinux, hostPath", made_pod()),
        allowed(Who::Controller, "with the label the pod is made", Call::create(pods(NODES), made_pod())),
        allowed(Who::User, "and nobody else is asked for it", Call::create(pods(NAMESPACE), users_pod())),
        allowed(Who::Controller, "a mesh may have rights in the pod's own network", {
            let mut pod = colla_set_pod("colla", "new");
            let mesh = json!({"name": "mesh", "image": "mesh:1", "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}}});
            if let Some(containers) = pod["spec"]["initContainers"].as_array_mut() {
                containers.push(mesh);
            }
            Call::create(pods(NAMESPACE), pod)
        }),
    ]
}

fn beside_the_cluster() -> Vec<Row> {
    let elsewhere = |namespace: &str| Call::create(pods(namespace), colla_set_pod("colla", "new"));
    vec![
        denied(Who::Controller, "none is made in kube-system", ANY, elsewhere(KUBE_SYSTEM)),
        denied(Who::Controller, "nor beside hitless", ANY, elsewhere(DEFAULT_SYSTEM_NAMESPACE)),
        denied(Who::Controller, "also none that names nobody", ANY, {
            let mut pod = colla_set_pod("colla", "new");
            pod["metadata"]["labels"] = json!({});
            pod["metadata"]["ownerReferences"] = json!([]);
            Call::create(pods(KUBE_SYSTEM), pod)
        }),
    ]
}
