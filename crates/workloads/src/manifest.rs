//! A workload's manifest as if it had been applied and rolled out: for forecasts from files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What the native controllers make of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct RolledOut {
    /// The workload, with the status of one whose rollout has ended.
    pub root: Value,
    /// What the current pods are made from: a ReplicaSet, a ControllerRevision.
    pub part: Value,
    /// How many pods it has.
    pub count: u64,
    /// The first one's ordinal, where their names end with ordinals.
    pub first_ordinal: Option<u64>,
    /// What the pods refer to as their controller: an entry of `ownerReferences`.
    pub owner: Value,
    /// Labels of the pods beside those of the template.
    pub labels: BTreeMap<String, String>,
}

/// A reference to the object as its controller.
pub(crate) fn owner(object: &Value) -> Value {
    let meta = &object["metadata"];
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": meta["name"], "uid": meta["uid"], "controller": true,
    })
}

/// The first generation, if there is none yet: nobody has applied the manifest.
pub(crate) fn generation(root: &mut Value) -> Value {
    let generation = &mut root["metadata"]["generation"];
    if generation.is_null() {
        *generation = 1.into();
    }
    generation.clone()
}

/// Sets a field of the status that the manifest does not have.
pub(crate) fn status(root: &mut Value, field: &str, value: Value) {
    let known = &mut root["status"][field];
    if known.is_null() {
        *known = value;
    }
}
