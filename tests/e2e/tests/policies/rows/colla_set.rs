//! Which pods and objects the controller may make for CollaSets: `policies/collaset.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, apps, claim, claims, colla_set_pod, colla_sets, pods, revision, workload};
use crate::request::{Call, Who, uid};

/// Several policies say no, and the API server names the one that it asked first.
const ANY: &str = "ValidatingAdmissionPolicy 'hitless-controller-";

/// A pod of the CollaSet, as the controller makes it, and with one thing changed.
fn make(revision: &str, changes: &[(&str, Value)]) -> Call {
    let mut pod = colla_set_pod("colla", revision);
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
        "controller-revision-hash": "colla-new"});
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
            ANY,
            decorated_with(&privileged, "decorated:1", &["log"]),
        ),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    let (template, labels) = ("runs what its revision says", "has its labels");
    let one = |path: &str, value: Value| make("new", &[(path, value)]);
    let host = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let set = || format!("{}/colla", colla_sets());
    vec![
        allowed(Who::Controller, "the controller makes a pod of a CollaSet", make("new", &[])),
        denied(Who::Controller, "it runs no other image", template, one("/spec/containers/0/image", json!("other:1"))),
        denied(Who::Controller, "nor another command", template, one("/spec/containers/0/command", json!(["/bin/sh"]))),
        denied(
            Who::Controller,
            "nothing of the node is mounted, whatever the revision",
            ANY,
            make("old", &[("/spec/volumes", host)]),
        ),
        denied(Who::Controller, "nor seen of its processes", ANY, make("old", &[("/spec/hostPID", json!(true))])),
        denied(
            Who::Controller,
            "without the labels it would be a pod that nobody checks",
            labels,
            one("/metadata/labels", json!({"app": "colla", "kusionstack.io/control": "true"})),
        ),
        denied(
            Who::Controller,
            "and who belongs to nobody is no pod of a CollaSet",
            ANY,
            one("/metadata/ownerReferences", json!([])),
        ),
        denied(
            Who::Uninstall,
            "who leaves makes none",
            "only the controller makes pods for CollaSets",
            make("new", &[]),
        ),
        allowed(
            Who::Controller,
            "it writes down what it has learned",
            Call::merge(
                set(),
                json!({"metadata": {"annotations": {"hitless.dev/gap": "{}", "hitless.dev/gap-to-ready": "{}",
                    "hitless.dev/losses": "{}", "hitless.dev/refused": "[]"}}}),
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
    .chain(reload())
    .chain(of_an_earlier_revision())
    .chain(revisions())
    .chain(decorations())
    .chain(pods_and_claims())
    .collect()
}

/// A restart because of a ConfigMap or Secret.
fn reload() -> Vec<Row> {
    let config = |value: &str| json!({"hitless.dev/config": value});
    let on = |name: &str, patch: Value| Call::merge(format!("{}/{name}", colla_sets()), patch);
    let template = |notes: &Value| json!({"spec": {"template": {"metadata": {"annotations": notes}}}});
    let both = |notes: &Value| {
        let mut patch = template(notes);
        patch["metadata"]["annotations"] = notes.clone();
        patch
    };
    let (hash, spec) = (config("0123456789abcdef"), "may not write a CollaSet's spec");
    vec![
        allowed(Who::Controller, "one that reloads is restarted by its template", on("empty", both(&hash))),
        denied(Who::Controller, "one that does not is not", spec, on("colla", both(&hash))),
        denied(Who::Controller, "nothing but a hash", spec, on("empty", template(&config("x")))),
        denied(Who::Controller, "no other annotation", spec, on("empty", template(&json!({"rollme": "x"})))),
        denied(Who::Controller, "nor anything beside", spec, on("empty", json!({"spec": {"replicas": 9}}))),
        denied(
            Who::Controller,
            "it does not say itself that one reloads",
            "may only set what it has learned",
            on("colla", json!({"metadata": {"annotations": {"hitless.dev/reload": "auto"}}})),
        ),
        denied(Who::Uninstall, "the account it leaves by restarts nothing", spec, on("empty", template(&hash))),
    ]
}

/// Pods of a revision that is not the newest.
fn of_an_earlier_revision() -> Vec<Row> {
    let template = "runs what its revision says";
    // As the revision `old` says.
    let old = |changes: &[(&str, Value)]| {
        let mut all = vec![
            ("/spec/containers/0/image", json!("old:1")),
            ("/spec/containers/0/securityContext", json!({"runAsNonRoot": true, "runAsUser": 1000})),
        ];
        all.extend(changes.iter().cloned());
        make("old", &all)
    };
    vec![
        allowed(Who::Controller, "also of an earlier revision, which ran something else", old(&[])),
        denied(
            Who::Controller,
            "nor anything else then",
            template,
            old(&[("/spec/containers/0/image", json!("web:1"))]),
        ),
        denied(
            Who::Controller,
            "nor another command",
            template,
            old(&[("/spec/containers/0/command", json!(["/bin/sh"]))]),
        ),
        denied(
            Who::Controller,
            "nor in an init container",
            template,
            old(&[("/spec/initContainers/0/image", json!("x:1"))]),
        ),
        denied(
            Who::Controller,
            "nor as another user",
            template,
            old(&[("/spec/containers/0/securityContext", json!({"runAsUser": 0}))]),
        ),
        denied(
            Who::Controller,
            "nor with another account",
            "has the account",
            old(&[("/spec/serviceAccountName", json!("other"))]),
        ),
        allowed(
            Who::Controller,
            "admission may restrict it further",
            make(
                "new",
                &[(
                    "/spec/containers/0/securityContext",
                    json!({"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}}),
                )],
            ),
        ),
    ]
}

/// What the controller writes down as revisions.
fn revisions() -> Vec<Row> {
    let written = |image: Option<&str>| {
        let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "colla", "uid": uid("CollaSet", "colla"), "controller": true});
        let template = workload("colla", 1, &json!({}))["spec"]["template"].clone();
        let mut object = revision("colla", "u", "1", &template);
        object["metadata"]["ownerReferences"] = json!([owner]);
        if let Some(image) = image {
            object["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        }
        Call::create(apps("controllerrevisions"), object)
    };
    let written_of_another = |owner: &str| {
        let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": owner, "name": "x", "uid": "u", "controller": true});
        let object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
            "metadata": {"name": "x-1", "ownerReferences": [owner]}});
        Call::create(apps("controllerrevisions"), object)
    };
    vec![
        allowed(Who::Controller, "the controller keeps a CollaSet's revisions", written(None)),
        denied(
            Who::Controller,
            "which say what its template says",
            "is what the CollaSet's template says",
            written(Some("other:1")),
        ),
        denied(
            Who::Controller,
            "and takes none on",
            "may not take on a ControllerRevision",
            Call::merge(format!("{}/nobodys", apps("controllerrevisions")), {
                let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "colla",
                    "uid": uid("CollaSet", "colla"), "controller": true});
                json!({"metadata": {"ownerReferences": [owner]}})
            }),
        ),
        allowed(Who::Controller, "and a PodDecoration's", written_of_another("PodDecoration")),
        denied(
            Who::Controller,
            "and nobody else's",
            "only write those of CollaSets",
            written_of_another("StatefulSet"),
        ),
    ]
}

/// What it may do to pods that are there, and to claims.
fn pods_and_claims() -> Vec<Row> {
    let foreign = || format!("{}/free", pods(NAMESPACE));
    let make = |owner: Option<&str>, mark: Option<&str>| Call::create(claims(), claim("claim-new", owner, mark));
    let mut bare = claim("claim-new", Some("CollaSet"), None);
    bare["metadata"]["labels"] = json!({"kusionstack.io/control": "true"});
    let one = |name: &str| format!("{}/claim-{name}", claims());
    let owners = claim("claim-new", Some("CollaSet"), None)["metadata"]["ownerReferences"].clone();
    vec![
        denied(
            Who::Controller,
            "labels of a pod that no CollaSet controls are not its own to write",
            "may only change those of CollaSets",
            Call::merge(foreign(), json!({"metadata": {"labels": {"collaset.kusionstack.io/orphaned": "true"}}})),
        ),
        allowed(Who::Controller, "it makes a claim for a CollaSet", make(Some("CollaSet"), None)),
        denied(
            Who::Controller,
            "and for nobody else",
            "only make, change and delete those of CollaSets",
            make(Some("StatefulSet"), None),
        ),
        denied(Who::Controller, "nor one without its labels", "has its labels", Call::create(claims(), bare)),
        allowed(Who::Controller, "one that outlives its CollaSet has no owner", make(None, Some("u"))),
        denied(
            Who::Controller,
            "and says whose it is",
            "only make, change and delete those of CollaSets",
            make(None, None),
        ),
        denied(
            Who::Controller,
            "and no other controller has it",
            "only make, change and delete those of CollaSets",
            make(Some("StatefulSet"), Some("u")),
        ),
        allowed(
            Who::Controller,
            "it takes off the owner of a claim",
            Call::merge(
                one("owned"),
                json!({"metadata":
            {"ownerReferences": null, "labels": {"hitless.dev/claim-of": "u"}}}),
            ),
        ),
        allowed(
            Who::Controller,
            "and gives it one",
            Call::merge(
                one("kept"),
                json!({"metadata":
            {"ownerReferences": owners}}),
            ),
        ),
        denied(
            Who::Controller,
            "and sets no other label",
            "may only say whose it is",
            Call::merge(one("kept"), json!({"metadata": {"labels": {"team": "x"}}})),
        ),
        denied(
            Who::Controller,
            "what no CollaSet has is not its own to take on without saying whose it is",
            "only make, change and delete those of CollaSets",
            Call::merge(one("foreign"), json!({"metadata": {"labels": {"collaset.kusionstack.io/instance-id": "0"}}})),
        ),
        denied(
            Who::Controller,
            "nor to delete",
            "only make, change and delete those of CollaSets",
            Call::delete(one("foreign")),
        ),
        allowed(Who::Controller, "it deletes one of a CollaSet that has no owner", Call::delete(one("kept"))),
    ]
}
