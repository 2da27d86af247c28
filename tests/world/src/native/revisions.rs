//! ControllerRevisions, as the StatefulSet and DaemonSet controllers make them.

use hitless_api::names::labels;
use hitless_workloads::Template;
use serde_json::{Value, json};

use super::{Act, Seen, owned_by};
use crate::WorkloadObject;

/// The revision of a workload's template.
pub(super) struct Revision {
    pub(super) name: String,
    /// Its label, which a DaemonSet's pods get too.
    pub(super) hash: String,
    /// Makes it, or the newest of it.
    pub(super) act: Option<Act>,
}

pub(super) fn of_template(seen: &Seen<'_>, template: &Template) -> Revision {
    let number = |each: &WorkloadObject| each.view.controller_revision().map(|revision| revision.body.number);
    let newest = seen.children.iter().filter_map(|each| number(each)).max().unwrap_or(0);
    let equal = seen.children.iter().filter(|each| {
        each.view.controller_revision().is_some_and(|revision| revision.body.shape.revision == template.revision())
    });
    let Some(known) = equal.max_by_key(|each| number(each)) else {
        let made = make(&seen.object.json, template, newest + 1);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &made["metadata"];
        let (name, hash) = (text(&meta["name"]), text(&meta["labels"][labels::CONTROLLER_REVISION_HASH]));
        return Revision { name, hash, act: Some(Act::Make(made)) };
    };
    let id = &known.view.id;
    let hash = known.view.labels.get(labels::CONTROLLER_REVISION_HASH).cloned().unwrap_or_default();
    let is_old = number(known) < Some(newest);
    let act = is_old.then(|| Act::Renumber { child: id.clone(), number: newest + 1 });
    Revision { name: id.name.clone(), hash, act }
}

/// The ControllerRevision of this template with this number. What the API server adds is not there yet.
#[must_use]
pub fn make(workload: &Value, template: &Template, number: i64) -> Value {
    let meta = &workload["metadata"];
    let hash = &template.revision()[..8];
    let name = format!("{}-{hash}", meta["name"].as_str().unwrap_or_default());
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"namespace": meta["namespace"], "name": name, "labels": {labels::CONTROLLER_REVISION_HASH: hash},
            "ownerReferences": owned_by(workload)},
        "revision": number,
        "data": {"spec": {"template": template.content()}},
    })
}
