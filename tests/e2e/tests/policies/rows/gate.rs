//! Which pods get the readiness gate: `policies/gate.yaml`.

use hitless_api::names::{DEFAULT_SYSTEM_NAMESPACE, IN_SERVICE};
use serde_json::{Value, json};

use super::allowed_as;
use crate::Row;
use crate::fixture::{ADOPTING, ADOPTING_ONLY, GATED, NAMESPACE, NODE, pod, pods};
use crate::request::{Call, Who};

fn create(namespace: &str, label: Option<&str>, change: impl FnOnce(&mut Value)) -> Call {
    let labels = label.map_or(json!({}), |value| json!({"hitless.dev/gate": value}));
    let mut body = pod("new", NODE, &json!({"labels": labels}));
    change(&mut body);
    Call::create(pods(namespace), body)
}

pub(super) fn rows() -> Vec<Row> {
    let gates = || json!([{"conditionType": IN_SERVICE}]);
    let row = |says, call, expected| allowed_as(Who::User, says, call, [("/spec/readinessGates", expected)]);
    let other = |body: &mut Value| body["spec"]["readinessGates"] = json!([{"conditionType": "example.com/x"}]);
    let own = |body: &mut Value| body["spec"]["readinessGates"] = json!([{"conditionType": IN_SERVICE}]);
    let host = |body: &mut Value| body["spec"]["hostNetwork"] = json!(true);
    let job = |body: &mut Value| {
        body["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]);
    };
    let enabled = Some("enabled");
    vec![
        row("a pod that asks for it gets the gate", create(NAMESPACE, enabled, |_| ()), gates()),
        row("a pod that does not ask gets none", create(NAMESPACE, None, |_| ()), Value::Null),
        row("a pod of a namespace that asks gets the gate", create(GATED, None, |_| ()), gates()),
        row("a pod and a namespace that both ask get it once", create(GATED, enabled, |_| ()), gates()),
        row("a pod of a namespace that opts in gets the gate", create(ADOPTING, None, |_| ()), gates()),
        row("once, if it asks as well", create(ADOPTING, enabled, |_| ()), gates()),
        row("its own no wins over that, too", create(ADOPTING, Some("disabled"), |_| ()), Value::Null),
        row("and so does its namespace's", create(ADOPTING_ONLY, None, |_| ()), Value::Null),
        row("a pod's own no wins over its namespace", create(GATED, Some("disabled"), |_| ()), Value::Null),
        row(
            "other gates stay",
            create(NAMESPACE, enabled, other),
            json!([{"conditionType": "example.com/x"}, {"conditionType": IN_SERVICE}]),
        ),
        row("a gate that is there already is not doubled", create(GATED, None, own), gates()),
        row("never in kube-system", create("kube-system", enabled, |_| ()), Value::Null),
        row("never in hitless's own namespace", create(DEFAULT_SYSTEM_NAMESPACE, enabled, |_| ()), Value::Null),
        row("never on the host's network", create(GATED, None, host), Value::Null),
        row("never for a Job", create(GATED, None, job), Value::Null),
    ]
}
