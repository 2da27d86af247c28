//! Which pods and objects the controller may make for CollaSets: `policies/collaset.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, apps, colla_sets, pods, workload};
use crate::request::{Call, Who};

/// A pod of the CollaSet, as the controller makes it, and with one thing changed.
fn make(revision: &str, changes: &[(&str, Value)]) -> Call {
    let template = workload("colla", 1, &json!({}))["spec"]["template"].clone();
    let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "colla", "uid": "u", "controller": true});
    let mut pod = json!({
        "metadata": {"name": "colla-bcdfg", "ownerReferences": [owner], "labels": {"app": "colla", "kusionstack.io/control": "true",
            "hitless.dev/made-for": "CollaSet", "controller-revision-hash": revision}},
        "spec": template["spec"],
    });
    for (path, value) in changes {
        if let Some(at) = path.rsplit_once('/').and_then(|(parent, key)| Some(&mut pod.pointer_mut(parent)?[key])) {
            *at = value.clone();
        }
    }
    Call::create(pods(NAMESPACE), pod)
}

/// A pod that has the PodDecoration `log`: image and command of its sidecar, image of its own container.
fn decorated(image: &str, command: &str, own: &str) -> Call {
    decorated_with(&json!({"name": "log", "image": image, "command": [command]}), own, &["log"])
}

/// A pod with these decorations.
fn decorated_with(sidecar: &Value, own: &str, decorations: &[&str]) -> Call {
    let mut first = workload("colla", 1, &json!({}))["spec"]["template"]["spec"]["containers"][0].clone();
    first["image"] = json!(own);
    let mut labels = json!({"app": "colla", "kusionstack.io/control": "true", "hitless.dev/made-for": "CollaSet",
        "controller-revision-hash": "new"});
    for name in decorations {
        labels[format!("poddecoration.kusionstack.io/pd-{name}")] = json!("new");
    }
    make("new", &[("/metadata/labels", labels), ("/spec/containers", json!([first, sidecar]))])
}

/// What PodDecorations say of a pod that has them.
fn decorations() -> Vec<Row> {
    let (added, images) = ("has the containers that it adds", "has the images that it sets");
    let sidecar = |image: &str| json!({"name": "log", "image": image, "command": ["/log"]});
    let mut privileged = sidecar("log:1");
    privileged["securityContext"] = json!({"privileged": true});
    vec![
        allowed(Who::Controller, "a pod gets what its PodDecoration says", decorated("log:1", "/log", "decorated:1")),
        allowed(Who::Controller, "of several images the last one", decorated("log:1", "/log", "decorated:2")),
        denied(Who::Controller, "its sidecar runs no other image", added, decorated("other:1", "/log", "decorated:1")),
        denied(Who::Controller, "nor another command", added, decorated("log:1", "/bin/sh", "decorated:1")),
        denied(Who::Controller, "nor its own container another image", images, decorated("log:1", "/log", "other:1")),
        allowed(
            Who::Controller,
            "what one of two decorations says, the other one may replace",
            decorated_with(&sidecar("other:1"), "decorated:1", &["log", "other"]),
        ),
        denied(
            Who::Controller,
            "and a decoration gives no right on the node",
            "gets no right on its node",
            decorated_with(&privileged, "decorated:1", &["log"]),
        ),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    let (template, rights, labels) =
        ("runs what the CollaSet's template says", "gets no right on its node", "has its labels");
    let one = |path: &str, value: Value| make("new", &[(path, value)]);
    let host = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let revision = |owner: &str| {
        let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": owner, "name": "colla", "uid": "u", "controller": true});
        let object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
            "metadata": {"name": "colla-1", "ownerReferences": [owner]}});
        Call::create(apps("controllerrevisions"), object)
    };
    let set = || format!("{}/colla", colla_sets());
    vec![
        allowed(Who::Controller, "the controller makes a pod of a CollaSet", make("new", &[])),
        allowed(
            Who::Controller,
            "also of an earlier revision, which ran something else",
            make("old", &[("/spec/containers/0/image", json!("old:1"))]),
        ),
        denied(Who::Controller, "it runs no other image", template, one("/spec/containers/0/image", json!("other:1"))),
        denied(Who::Controller, "nor another command", template, one("/spec/containers/0/command", json!(["/bin/sh"]))),
        denied(
            Who::Controller,
            "nothing of the node is mounted, whatever the revision",
            rights,
            make("old", &[("/spec/volumes", host)]),
        ),
        denied(Who::Controller, "nor seen of its processes", rights, make("old", &[("/spec/hostPID", json!(true))])),
        denied(
            Who::Controller,
            "without the labels it would be a pod that nobody checks",
            labels,
            one("/metadata/labels", json!({"app": "colla", "kusionstack.io/control": "true"})),
        ),
        denied(
            Who::Controller,
            "and who belongs to nobody is no pod of a CollaSet",
            // Two policies say so, and the API server names the one that it asked first.
            "ValidatingAdmissionPolicy 'hitless-controller-",
            one("/metadata/ownerReferences", json!([])),
        ),
        denied(
            Who::Uninstall,
            "who leaves makes none",
            "only the controller makes pods for CollaSets",
            make("new", &[]),
        ),
        allowed(Who::Controller, "the controller keeps a CollaSet's revisions", revision("CollaSet")),
        allowed(Who::Controller, "and a PodDecoration's", revision("PodDecoration")),
        denied(Who::Controller, "and nobody else's", "only write those of CollaSets", revision("StatefulSet")),
        allowed(
            Who::Controller,
            "it writes down what it has learned",
            Call::merge(
                set(),
                json!({"metadata": {"annotations": {"hitless.dev/gap": "{}", "hitless.dev/losses": "{}"}}}),
            ),
        ),
        denied(
            Who::Controller,
            "and never the spec",
            "may not write a CollaSet's spec",
            Call::merge(set(), json!({"spec": {"replicas": 9}})),
        ),
        denied(
            Who::Controller,
            "nor other annotations",
            "may only set what it has learned",
            Call::merge(set(), json!({"metadata": {"annotations": {"team": "x"}}})),
        ),
        allowed(Who::User, "its owner does as ever", Call::merge(set(), json!({"spec": {"replicas": 9}}))),
        allowed(
            Who::Controller,
            "it sets its finalizer",
            Call::merge(set(), json!({"metadata": {"finalizers": ["apps.kusionstack.io/pre-reclaim"]}})),
        ),
        denied(
            Who::Controller,
            "and nobody else's",
            "may only set what it has learned",
            Call::merge(set(), json!({"metadata": {"finalizers": ["example.org/other"]}})),
        ),
    ]
    .into_iter()
    .chain(decorations())
    .chain(pods_and_claims())
    .collect()
}

/// What it may do to pods that are there, and to claims.
fn pods_and_claims() -> Vec<Row> {
    let foreign = || format!("{}/free", pods(NAMESPACE));
    let claims = || format!("/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims");
    let claim = |owner: &str| {
        let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": owner, "name": "colla", "uid": "u", "controller": true});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "colla-data-0", "ownerReferences": [owner], "labels": {"kusionstack.io/control": "true",
                "collaset.kusionstack.io/instance-id": "0", "collaset.kusionstack.io/pvc-template-name": "data"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let with_claim_of = |owner: &str| Call::create(claims(), claim(owner));
    let mut bare = claim("CollaSet");
    bare["metadata"]["labels"] = json!({"kusionstack.io/control": "true"});
    vec![
        denied(
            Who::Controller,
            "labels of a pod that no CollaSet controls are not its own to write",
            "may only change those of CollaSets",
            Call::merge(foreign(), json!({"metadata": {"labels": {"collaset.kusionstack.io/orphaned": "true"}}})),
        ),
        allowed(Who::Controller, "it makes a claim for a CollaSet", with_claim_of("CollaSet")),
        denied(
            Who::Controller,
            "and for nobody else",
            "only make, change and delete those of CollaSets",
            with_claim_of("StatefulSet"),
        ),
        denied(Who::Controller, "nor one without its labels", "has its labels", Call::create(claims(), bare)),
    ]
}
