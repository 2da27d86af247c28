//! What the controller may make for CloneSets, and write on what is theirs: `policies/cloneset.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{
    CLONE, HOOK, NAMESPACE, apps, claims, clone_set_claim, clone_set_pod, clone_set_revision, clone_sets, pods,
    workload,
};
use crate::request::{Call, Who, uid};

/// Several policies say no, and the API server names the one that it asked first.
const ANY: &str = "ValidatingAdmissionPolicy 'hitless-controller-";

/// A pod of the CloneSet, as the controller makes it, with one thing changed.
fn make(path: &str, value: Value) -> Call {
    let mut pod = clone_set_pod();
    if let Some(at) = path.rsplit_once('/').and_then(|(parent, key)| Some(&mut pod.pointer_mut(parent)?[key])) {
        *at = value;
    }
    Call::create(pods(NAMESPACE), pod)
}

fn on_set(patch: Value) -> Call {
    Call::merge(format!("{}/{CLONE}", clone_sets()), patch)
}

/// Metadata of the pod that is there.
fn on_pod(metadata: &Value) -> Call {
    Call::merge(format!("{}/{CLONE}", pods(NAMESPACE)), json!({"metadata": metadata}))
}

pub(super) fn rows() -> Vec<Row> {
    [made_pods(), sets(), revisions(), owned_claims(), states(), hooks()].into_iter().flatten().collect()
}

fn made_pods() -> Vec<Row> {
    let no_labels = json!({"app": CLONE, "controller-revision-hash": "clone-new", "hitless.dev/made-for": "CloneSet"});
    let unmarked = json!({"app": CLONE, "controller-revision-hash": "clone-new",
        "apps.kruise.io/cloneset-instance-id": "bcdfg"});
    let whole = || Call::create(pods(NAMESPACE), clone_set_pod());
    let host = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let runs = "runs what its revision says";
    vec![
        allowed(Who::Controller, "the controller makes a pod of a CloneSet", whole()),
        denied(Who::Uninstall, "the account it leaves by makes none", "only the controller makes pods", whole()),
        denied(Who::Controller, "with no other image", runs, make("/spec/containers/0/image", json!("other:1"))),
        denied(Who::Controller, "nor another command", runs, make("/spec/containers/0/command", json!(["/bin/sh"]))),
        denied(Who::Controller, "it mounts nothing of its node", ANY, make("/spec/volumes", host)),
        denied(Who::Controller, "it says which one it is", "has its labels", make("/metadata/labels", no_labels)),
        denied(Who::Controller, "and whose pod", "has its labels", make("/metadata/labels", unmarked)),
        denied(Who::Controller, "and has an owner", ANY, make("/metadata/ownerReferences", json!([]))),
    ]
}

fn sets() -> Vec<Row> {
    let notes = |notes: Value| on_set(json!({"metadata": {"annotations": notes}}));
    let learned = "may only set what it has learned";
    vec![
        allowed(
            Who::Controller,
            "it writes on a CloneSet what it has learned, and the names of its pods",
            notes(json!({"hitless.dev/instances": "{}", "hitless.dev/gap": "{}", "hitless.dev/losses": "{}"})),
        ),
        denied(Who::Controller, "no other annotation", learned, notes(json!({"team": "x"}))),
        denied(
            Who::Controller,
            "no finalizer",
            learned,
            on_set(json!({"metadata": {"finalizers": ["example.org/other"]}})),
        ),
        denied(
            Who::Controller,
            "and never the spec",
            "may not write a CloneSet's spec",
            on_set(json!({"spec": {"replicas": 9}})),
        ),
        allowed(Who::User, "its owner does as ever", on_set(json!({"spec": {"replicas": 9}}))),
    ]
}

fn revisions() -> Vec<Row> {
    let written = |image: Option<&str>| {
        let mut template = workload(CLONE, 1, &json!({}))["spec"]["template"].clone();
        if let Some(image) = image {
            template["spec"]["containers"][0]["image"] = json!(image);
        }
        Call::create(apps("controllerrevisions"), clone_set_revision("u", &uid("CloneSet", CLONE), &template))
    };
    vec![
        allowed(Who::Controller, "the controller keeps a CloneSet's revisions", written(None)),
        denied(
            Who::Controller,
            "which say what its template says",
            "is what the CloneSet's template says",
            written(Some("other:1")),
        ),
    ]
}

fn owned_claims() -> Vec<Row> {
    let made = |change: &dyn Fn(&mut Value)| {
        let mut claim = clone_set_claim("claim-new");
        change(&mut claim["metadata"]);
        Call::create(claims(), claim)
    };
    let there = format!("{}/claim-clone", claims());
    let labelled = |label: &str| Call::merge(there.clone(), json!({"metadata": {"labels": {label: "x"}}}));
    vec![
        allowed(Who::Controller, "the controller makes a claim for a CloneSet", made(&|_same| ())),
        denied(Who::Controller, "with its labels", "has its labels", made(&|meta| meta["labels"] = json!({}))),
        denied(Who::Controller, "and its owner", ANY, made(&|meta| meta["ownerReferences"] = json!([]))),
        allowed(Who::Controller, "it writes down that a claim waits for a new pod", labelled("hitless.dev/kept")),
        denied(Who::Controller, "and sets no label of others", "may only set labels of its own", labelled("team")),
        denied(
            Who::Controller,
            "it takes on no claim that is not the CloneSet's",
            "takes on no claim",
            Call::merge(format!("{}/claim-foreign", claims()), {
                let claim = clone_set_claim("claim-foreign");
                json!({"metadata": {"ownerReferences": claim["metadata"]["ownerReferences"], "labels": claim["metadata"]["labels"]}})
            }),
        ),
        allowed(Who::Controller, "it deletes a claim of a pod that has gone", Call::delete(there.clone())),
    ]
}

/// The label by which upstream tells where a pod is in its life.
fn states() -> Vec<Row> {
    let state = "lifecycle.apps.kruise.io/state";
    // Two policies refuse these, and the API server asks them in no order.
    let only = "of a CloneSet the controller may only set";
    let labelled = |label: &str, value: Value| on_pod(&json!({"labels": {label: value}}));
    let annotated = |key: &str| on_pod(&json!({"annotations": {key: "2026-01-01T00:00:00Z"}}));
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "other:1"}]);
    vec![
        allowed(
            Who::Controller,
            "the controller writes a pod's state and when it began",
            on_pod(&json!({"labels": {state: "PreparingUpdate"},
                "annotations": {"lifecycle.apps.kruise.io/timestamp": "2026-01-01T00:00:00Z"}})),
        ),
        denied(Who::Controller, "no other annotation", only, annotated("example.com/other")),
        denied(Who::Controller, "takes none away", only, on_pod(&json!({"annotations": {"example.com/note": null}}))),
        denied(Who::Controller, "nor a label", only, labelled("app", Value::Null)),
        denied(
            Who::Controller,
            "sets no version of its pod",
            only,
            labelled("controller-revision-hash", json!("clone-other")),
        ),
        denied(
            Who::Controller,
            "nor which pod it is",
            only,
            labelled("apps.kruise.io/cloneset-instance-id", json!("x")),
        ),
        denied(
            Who::Controller,
            "nor a mark of ours, even an empty one",
            only,
            labelled("hitless.dev/companion", json!("")),
        ),
        denied(Who::Controller, "nor an image", ANY, Call::json_patch(format!("{}/{CLONE}", pods(NAMESPACE)), image)),
        denied(Who::Controller, "nor an owner", only, on_pod(&json!({"ownerReferences": null}))),
        denied(
            Who::Controller,
            "it sets no state of a pod that no CloneSet owns",
            "may only change those of CollaSets",
            Call::merge(format!("{}/free", pods(NAMESPACE)), json!({"metadata": {"labels": {state: "Normal"}}})),
        ),
    ]
}

/// Labels and finalizers that are put back.
fn hooks() -> Vec<Row> {
    let only = "may only set labels and add finalizers of its hook inPlaceUpdate";
    let labelled = |label: &str, value: &str| on_pod(&json!({"labels": {label: value}}));
    let finalized = |names: &[&str]| on_pod(&json!({"finalizers": names}));
    vec![
        allowed(Who::Controller, "it puts a hook's label back", labelled(HOOK, "true")),
        denied(Who::Controller, "with the value that the hook has", only, labelled(HOOK, "false")),
        denied(Who::Controller, "and no other label", only, labelled("example.com/other", "true")),
        denied(Who::Controller, "not even an empty one", only, labelled("example.com/other", "")),
        allowed(Who::Controller, "it puts a hook's finalizer back", finalized(&[HOOK])),
        denied(Who::Controller, "and no other finalizer", only, finalized(&[HOOK, "example.com/other"])),
    ]
}
