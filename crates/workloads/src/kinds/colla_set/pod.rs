//! A pod of a CollaSet, as it is made.

use hitless_api::GroupKind;
use hitless_api::names::{IN_SERVICE, labels};
use serde_json::{Value, json};

use super::roster::Instance;
use super::{COLLA_SET, CollaSet, names};
use crate::field::set as set_field;
use crate::manifest;
use crate::write::Write;

/// What a new pod is made from.
pub(super) struct Plan<'p> {
    pub(super) template: &'p Value,
    /// Claims to mount: name of the template, name of the claim.
    pub(super) claims: Vec<(String, String)>,
    /// Name of the pod that it replaces.
    pub(super) replaces: Option<&'p str>,
}

/// Makes the pod of this id.
pub(super) fn create(set: CollaSet<'_>, id: i32, instance: &Instance<'_>, plan: &Plan<'_>) -> Write {
    let template = plan.template;
    let name = instance.pod_name();
    let owner = json!({"apiVersion": COLLA_SET.api_version(), "kind": "CollaSet",
        "metadata": {"name": set.object.id.name, "uid": set.object.id.uid}});
    let mut owner = manifest::owner(&owner);
    owner["blockOwnerDeletion"] = true.into();
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    let meta = &mut pod["metadata"];
    if !meta.is_object() {
        *meta = json!({});
    }
    meta["name"] = name.into();
    meta["namespace"] = set.object.id.namespace.as_str().into();
    meta["ownerReferences"] = json!([owner]);
    let id = id.to_string();
    for (label, value) in [
        (names::CONTROL, "true"),
        (names::INSTANCE_ID, id.as_str()),
        (labels::CONTROLLER_REVISION_HASH, instance.revision()),
        (labels::MADE_FOR, "CollaSet"),
    ] {
        set_field(&mut pod, &["metadata", "labels", label], value);
    }
    if let Some(origin) = plan.replaces {
        set_field(&mut pod, &["metadata", "labels", names::PAIR_ORIGIN], origin);
    }
    mount(&mut pod, &plan.claims);
    if set.body.in_sequence {
        set_field(&mut pod, &["spec", "hostname"], name);
    }
    if can_be_gated(set, &pod) {
        add_gate(&mut pod);
    }
    Write::create("create-pod", &GroupKind::POD, pod)
}

/// Each claim takes the place of the volume that is named like its template.
fn mount(pod: &mut Value, claims: &[(String, String)]) {
    if claims.is_empty() {
        return;
    }
    let volumes = &mut pod["spec"]["volumes"];
    if !volumes.is_array() {
        *volumes = json!([]);
    }
    let Some(volumes) = volumes.as_array_mut() else { return };
    volumes.retain(|volume| claims.iter().all(|(template, _)| volume["name"] != template.as_str()));
    for (template, claim) in claims {
        volumes.push(json!({"name": template, "persistentVolumeClaim": {"claimName": claim}}));
    }
}

/// The same pods that the policy `hitless-gate` gives it to.
fn can_be_gated(set: CollaSet<'_>, pod: &Value) -> bool {
    let is_refused = pod["metadata"]["labels"][labels::GATE].as_str().is_some_and(|value| value != "enabled");
    !set.object.is_system() && !is_refused && pod["spec"]["hostNetwork"] != true
}

/// Without the readiness gate a pod can't be taken out of service.
fn add_gate(pod: &mut Value) {
    let gates = &mut pod["spec"]["readinessGates"];
    if !gates.is_array() {
        *gates = json!([]);
    }
    if let Some(gates) = gates.as_array_mut()
        && !gates.iter().any(|gate| gate["conditionType"] == IN_SERVICE)
    {
        gates.push(json!({"conditionType": IN_SERVICE}));
    }
}
