//! What pods get of SidecarSets is what their owners have written: `kruise/policies`.

use hitless_api::names::labels;
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{INJECTION, SIDECAR_SET, pods};
use crate::request::{Call, Who, uid};

/// What the SidecarSet of the fixture says, as an entry.
fn entry() -> Value {
    json!({"name": SIDECAR_SET, "uid": uid("SidecarSet", SIDECAR_SET), "generation": 1, "selector": {"matchLabels": {"policy-test": "sidecar"}},
        "containers": [{"name": "log", "image": "log:1", "podInjectPolicy": "AfterAppContainer"}], "hash": "0", "podHash": "{}", "podHashWithoutImage": "{}"})
}

fn put(entries: &Value) -> Call {
    Call::merge(INJECTION.to_owned(), json!({"spec": {"sets": entries}}))
}

fn changed(change: impl FnOnce(&mut Value)) -> Call {
    let mut entry = entry();
    change(&mut entry);
    put(&json!([entry]))
}

/// The pod that the API server is asked about.
fn trial(namespace: &str, name: &str, is_privileged: bool) -> Call {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {(labels::SIDECAR_SET): "x"}},
        "spec": {"containers": [{"name": "app", "image": "app:1", "securityContext": {"privileged": is_privileged}}]}});
    Call::create(pods(namespace), pod)
}

pub(super) fn rows() -> Vec<Row> {
    let (written, known, only) =
        ("is not what its owner has written", "there is no SidecarSet for", "by hitless-controller only");
    let own = "/spec/sets/0/found";
    let mut found = entry();
    found["name"] = json!("nobody");
    found["found"] = json!("yes");
    vec![
        allowed_as(
            Who::Controller,
            "the controller puts in what a SidecarSet says",
            put(&json!([entry()])),
            [(own, json!("yes"))],
        ),
        allowed(Who::Controller, "and takes it out", put(&json!([]))),
        denied(Who::User, "nobody else does", only, put(&json!([entry()]))),
        denied(
            Who::Controller,
            "no other image",
            written,
            changed(|entry| entry["containers"][0]["image"] = json!("log:2")),
        ),
        denied(
            Who::Controller,
            "no other container",
            written,
            changed(|entry| entry["containers"] = json!([{"name": "more"}])),
        ),
        denied(
            Who::Controller,
            "no other pods",
            written,
            changed(|entry| entry["selector"] = json!({"matchLabels": {"app": "web"}})),
        ),
        denied(
            Who::Controller,
            "no volume of its own",
            written,
            changed(|entry| entry["volumes"] = json!([{"name": "root", "hostPath": {"path": "/"}}])),
        ),
        denied(
            Who::Controller,
            "not in the place of another one",
            written,
            changed(|entry| entry["base"] = json!("other")),
        ),
        denied(Who::Controller, "not of one that was deleted", written, changed(|entry| entry["uid"] = json!("other"))),
        denied(
            Who::Controller,
            "nothing of a SidecarSet that is not there, whatever it says",
            known,
            put(&json!([found])),
        ),
        allowed(
            Who::Controller,
            "the API server is asked for a pod with its containers",
            trial("hitless-system", "hitless-sidecarset-x", true),
        ),
        denied(Who::Controller, "by no other name", "the controller ma", trial("hitless-system", "other", true)),
        denied(
            Who::Controller,
            "and in no other namespace",
            "the controller may only make",
            trial("policy-test", "hitless-sidecarset-x", false),
        ),
    ]
}
