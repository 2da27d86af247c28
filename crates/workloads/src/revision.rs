//! ControllerRevisions: the templates that StatefulSets and DaemonSets have had.

pub(crate) mod body;
pub(crate) mod hash;
pub(crate) mod history;

use std::collections::BTreeMap;

use hitless_api::GroupKind;
use hitless_api::names::labels;
use serde_json::{Value, json};

pub use crate::object::Revision;
pub use body::RevisionBody;
pub(crate) use hash::label;

use crate::kind::Resource;
use crate::manifest::{self, RolledOut};
use crate::object::Object;
use crate::shape::Shape;

pub(crate) const CONTROLLER_REVISION: Resource = Resource {
    group_kind: GroupKind::new("apps", "ControllerRevision"),
    version: "v1",
    plural: "controllerrevisions",
    is_namespaced: true,
    optional: false,
    verbs: &[],
    why: "which revision is the newest, and what the one before it looked like",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// Shapes of a workload's revisions, with their number, by the value of the pods' label `controller-revision-hash`.
pub(crate) type Revisions<'a> = BTreeMap<&'a str, (i64, &'a Shape)>;

/// The ControllerRevision that a native controller would make of this workload's template when it is changed.
pub(crate) fn planned(workload: &Value) -> Value {
    made_of(workload, "planned", i64::MAX)
}

/// The newest of these, or else the one that a native controller would make of the workload's manifest.
pub(crate) fn newest(workload: &Value, revisions: &[Value]) -> Value {
    let newest = revisions.iter().max_by_key(|revision| revision["revision"].as_i64());
    newest.cloned().unwrap_or_else(|| made_of(workload, "manifest", 1))
}

/// A set of so many pods that has them all at its newest revision. `updated`: the field of its status that names that one.
pub(crate) fn rolled_out(mut set: Value, revisions: &[Value], count: u64, updated: &'static str) -> RolledOut {
    let part = newest(&set, revisions);
    let name = part["metadata"]["name"].clone();
    let generation = manifest::generation(&mut set);
    for (field, value) in
        [("observedGeneration", generation), ("currentRevision", name.clone()), (updated, name.clone())]
    {
        manifest::status(&mut set, field, value);
    }
    RolledOut {
        count,
        first_ordinal: None,
        owner: manifest::owner(&set),
        labels: label(name.as_str().unwrap_or_default()),
        part,
        root: set,
    }
}

fn made_of(workload: &Value, hash: &str, number: i64) -> Value {
    let meta = &workload["metadata"];
    let name = format!("{}-{hash}", meta["name"].as_str().unwrap_or_default());
    let uid = format!("{name} of {}", meta["uid"].as_str().unwrap_or_default());
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": meta["namespace"], "uid": uid, "ownerReferences": [manifest::owner(workload)],
            "labels": {labels::CONTROLLER_REVISION_HASH: hash}},
        "revision": number,
        "data": {"spec": {"template": workload["spec"]["template"]}},
    })
}

/// By their names: that is the label of a StatefulSet's pods.
pub(crate) fn by_name<'a>(children: &[&'a Object]) -> Revisions<'a> {
    let revisions = children.iter().filter_map(|object| object.controller_revision());
    revisions.map(|each| (each.object.id.name.as_str(), (each.body.number, &each.body.shape))).collect()
}

/// By their own label `controller-revision-hash`: that is the label of a DaemonSet's pods.
pub(crate) fn by_hash<'a>(children: &[&'a Object]) -> Revisions<'a> {
    let revisions = children.iter().filter_map(|object| object.controller_revision());
    let hash = |each: Revision<'a>| {
        let hash = each.object.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        Some((hash.as_str(), (each.body.number, &each.body.shape)))
    };
    revisions.filter_map(hash).collect()
}
