//! A pod of a set, as it is made.

use hitless_api::GroupKind;
use hitless_api::names::{IN_SERVICE, labels};
use serde_json::{Value, json};

use super::facts::Facts;
use super::spec::Spec;
use crate::field::set as set_field;
use crate::write::Write;

/// What a new pod is made from.
pub(super) struct Made<'p> {
    pub(super) id: i32,
    pub(super) name: &'p str,
    /// Name of its revision.
    pub(super) revision: &'p str,
    pub(super) template: &'p Value,
}

/// Makes the pod. `claims` are mounted: name of the template, name of the claim. `replaces`: name of the pod that it replaces.
pub(super) fn create(
    facts: &Facts<'_, '_>,
    made: &Made<'_>,
    claims: &[(String, String)],
    replaces: Option<&str>,
) -> Write {
    let Facts { spec, rules, .. } = facts;
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": made.template["metadata"],
        "spec": made.template["spec"]});
    let meta = &mut pod["metadata"];
    if !meta.is_object() {
        *meta = json!({});
    }
    meta["name"] = made.name.into();
    meta["namespace"] = spec.namespace().into();
    meta["ownerReferences"] = json!([spec.owner()]);
    for (label, value) in rules.labels(made.id, replaces).into_iter().chain(spec.own_labels(made.revision)) {
        set_field(&mut pod, &["metadata", "labels", label], value);
    }
    mount(&mut pod, claims);
    if spec.names.is_host_name {
        set_field(&mut pod, &["spec", "hostname"], made.name);
    }
    if can_be_gated(spec, &pod) {
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
fn can_be_gated(spec: &Spec<'_>, pod: &Value) -> bool {
    let is_refused = pod["metadata"]["labels"][labels::GATE].as_str().is_some_and(|value| value != "enabled");
    !spec.object.is_system() && !is_refused && pod["spec"]["hostNetwork"] != true
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
