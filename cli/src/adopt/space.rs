//! What a namespace says: whether its new workloads opt in, and whether its new pods get the readiness gate.

use hitless_api::JsonPatch;
use hitless_api::names::{UPDATE_IN_PLACE, UPDATE_IN_PLACE_ONLY, labels};
use hitless_runtime::write::Writes;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PatchParams;
use kube::{Api, Client};
use serde_json::Value;

use crate::doctor::facts::Seen;
use crate::failure::Failure;
use crate::say;
use crate::write::changed;

/// A namespace's labels that are ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    /// Its uid.
    pub(super) uid: String,
    /// Value of its label for the gate; another one than `enabled` is its owner's no.
    pub(super) gate: Option<String>,
    /// Value of its label for the opt-in.
    pub(super) update: Option<String>,
}

impl Space {
    /// Whether new pods get the readiness gate.
    pub(super) fn gives_gate(&self) -> bool {
        self.gate.as_deref().map_or_else(|| self.opts_in().is_some(), |value| value == "enabled")
    }

    /// What its new workloads opt in by.
    pub(super) fn opts_in(&self) -> Option<&'static str> {
        match self.update.as_deref()? {
            UPDATE_IN_PLACE => Some(UPDATE_IN_PLACE),
            UPDATE_IN_PLACE_ONLY => Some(UPDATE_IN_PLACE_ONLY),
            _ => None,
        }
    }
}

/// What a workload of the namespace opts in by.
pub(super) fn word(space: &Seen<Space>) -> &'static str {
    space.known().and_then(Space::opts_in).unwrap_or(UPDATE_IN_PLACE)
}

pub(super) async fn read(client: &Client, namespace: &str) -> Seen<Space> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    match spaces.get_metadata(namespace).await {
        Ok(found) => {
            let value = |name: &str| found.metadata.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
            let (gate, update) = (value(labels::GATE), value(labels::UPDATE));
            Seen::Known(Space { uid: found.metadata.uid.unwrap_or_default(), gate, update })
        }
        Err(error) => Seen::Unread(error.to_string()),
    }
}

/// Labels the namespace, if it says nothing of the gate. Nobody has to have the right to it: without the gate pods are held.
pub(super) async fn give_gate(client: &Client, namespace: &str, space: &Seen<Space>) -> Result<(), Failure> {
    let Seen::Known(Space { uid, gate: None, .. }) = space else { return Ok(()) };
    let spaces: Api<Namespace> = Api::all(client.clone());
    // Every namespace has labels: Kubernetes gives it one with its name.
    let at = ["metadata", "labels", labels::GATE];
    let change = JsonPatch::of(uid).test(&at, Value::Null).add(&at, "enabled").build();
    let sent = Writes::default().send("namespaces", spaces.patch(namespace, &PatchParams::default(), &change)).await;
    match changed(sent.map(|_| ()), &format!("label namespace {namespace}")) {
        Ok(()) => say(&format!("namespace/{namespace} labelled {}=enabled", labels::GATE)),
        Err(Failure::Forbidden { .. }) => say(&format!(
            "note: you may not label namespace {namespace}, so new pods get no readiness gate and can only be held; ask for: kubectl \
             label namespace {namespace} {}=enabled",
            labels::GATE
        )),
        Err(failure) => Err(failure),
    }
}
