//! ControllerRevisions, as the StatefulSet and DaemonSet controllers make them.

use hitless_agent::instant::whole_seconds;
use hitless_api::names::labels;
use hitless_workloads::Template;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::server::WorkloadObject;

/// The revision of the workload's template, made or raised to the newest if need be.
pub(super) fn of_template(workload: &WorkloadObject, template: &Template, ground: &mut Ground) -> WorkloadObject {
    let own: Vec<WorkloadObject> = ground
        .server
        .owned_by(&workload.view.id.uid)
        .filter(|each| each.view.controller_revision().is_some())
        .cloned()
        .collect();
    let number = |each: &WorkloadObject| each.view.controller_revision().map_or(0, |revision| revision.body.number);
    let newest = own.iter().map(number).max().unwrap_or(0);
    let known = own.iter().find(|each| {
        each.view.controller_revision().is_some_and(|revision| revision.body.shape.revision == template.revision())
    });
    let Some(known) = known else {
        let made = make(&workload.json, template, newest + 1, ground.wall(0));
        return ground.server.put_object(made);
    };
    if number(known) < newest {
        ground.server.change_object(&known.key(), |revision| revision["revision"] = json!(newest + 1));
    }
    known.clone()
}

/// A new ControllerRevision with this number.
pub(crate) fn make(workload: &Value, template: &Template, number: i64, created: Timestamp) -> Value {
    let meta = &workload["metadata"];
    let hash = &template.revision()[..8];
    let name = format!("{}-{hash}", meta["name"].as_str().unwrap_or_default());
    let owner = json!({"apiVersion": "apps/v1", "kind": workload["kind"], "name": meta["name"], "uid": meta["uid"],
        "controller": true});
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"namespace": meta["namespace"], "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "creationTimestamp": whole_seconds(created).to_string(), "labels": {labels::CONTROLLER_REVISION_HASH: hash}, "ownerReferences": [owner]},
        "revision": number,
        "data": {"spec": {"template": template.content()}},
    })
}
