//! What RBAC gives the controller is what its catch-all lets through.

use anyhow::Context as _;
use hitless_api::names::DEFAULT_SYSTEM_NAMESPACE;
use serde_json::Value;

use crate::request::{Api, Call};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CATCH_ALL: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/hitless-controller-nothing-else";

/// What is wrong.
pub(crate) async fn judge(api: &Api) -> anyhow::Result<Vec<String>> {
    let policy = api.admin(&Call::get(CATCH_ALL)).await?;
    let expression = policy["spec"]["validations"][0]["expression"].as_str().context("the catch-all says nothing")?;
    let mut wrong = Vec::new();
    for role in [
        format!("{RBAC}/clusterroles/hitless-controller"),
        format!("{RBAC}/clusterroles/hitless-controller-kusionstack"),
        format!("{RBAC}/clusterroles/hitless-controller-kruise"),
        format!("{RBAC}/namespaces/{DEFAULT_SYSTEM_NAMESPACE}/roles/hitless-controller"),
    ] {
        let rules = api.admin(&Call::get(role.as_str())).await?["rules"].take();
        let writes = rules.as_array().into_iter().flatten().filter(|rule| writes(rule));
        for what in writes.flat_map(resources).filter(|what| !expression.contains(&format!("\"{what}\""))) {
            wrong.push(format!("{role} lets the controller write {what}, and its catch-all does not"));
        }
    }
    Ok(wrong)
}

fn writes(rule: &Value) -> bool {
    ["create", "update", "patch", "delete"].iter().any(|verb| names(rule, "verbs").any(|name| name == *verb))
}

/// Group and resource, as the policy writes them. `finalizers` is a right that no request is for.
fn resources(rule: &Value) -> Vec<String> {
    let groups = names(rule, "apiGroups");
    let of = |group| names(rule, "resources").map(move |resource| format!("{group}/{resource}"));
    groups.flat_map(of).filter(|what| !what.ends_with("/finalizers")).collect()
}

fn names<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}
