//! How the controller may restart a workload because of a ConfigMap or Secret.

use serde_json::{Value, json};

use super::{allowed_as, denied};
use crate::Row;
use crate::fixture::{Set, apps};
use crate::request::{Call, Who};

/// A restart because of a ConfigMap or Secret.
pub(super) fn reload() -> Vec<Row> {
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
