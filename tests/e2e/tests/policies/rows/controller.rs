//! What the controller's accounts may do: `policies/controller.yaml`.

mod deployments;
mod reload;
mod replica_sets;
mod sets;

use hitless_api::names::{CONTROLLER, DEFAULT_SYSTEM_NAMESPACE, IN_SERVICE};
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{BARE, NAMESPACE, pods};
use crate::request::{Call, Who};
use deployments::{deployments, halt_reports};
use reload::reload;
use replica_sets::{nothing_else, replica_sets};
use sets::sets;

pub(super) fn rows() -> Vec<Row> {
    [stand_in(), deployments(), halt_reports(), reload(), sets(), replica_sets(), services(), rights(), nothing_else()]
        .into_iter()
        .flatten()
        .collect()
}

fn status(name: &str, value: Value) -> Call {
    Call::strategic(format!("{}/{name}/status", pods(NAMESPACE)), value)
}

fn in_service(name: &str, value: &str) -> Call {
    status(name, json!({"status": {"conditions": [{"type": IN_SERVICE, "status": value}]}}))
}

fn stand_in() -> Vec<Row> {
    let (add, only) = ("only add", "only set the condition");
    let with = |more: Value| {
        let mut body = json!({"status": {"conditions": [{"type": IN_SERVICE, "status": "True"}]}});
        for (key, value) in more.as_object().into_iter().flatten() {
            for (inner, value) in value.as_object().into_iter().flatten() {
                body[key][inner] = value.clone();
            }
        }
        body
    };
    let ready = json!({"status": {"conditions": [{"type": IN_SERVICE, "status": "True"}, {"type": "Ready", "status": "True", "reason": "Forged"}]}});
    vec![
        allowed(Who::Controller, "the controller stands in where the condition is absent", in_service("fresh", "True")),
        denied(Who::Controller, "but never takes out of service", add, in_service("fresh", "False")),
        denied(Who::Controller, "nor lowers what an agent has raised", add, in_service("free", "False")),
        denied(Who::Controller, "nor raises what an agent has lowered", add, in_service("left", "True")),
        denied(Who::Controller, "nor sets another condition", only, status("fresh", ready)),
        denied(Who::Controller, "nor the phase", only, status("fresh", with(json!({"status": {"phase": "Failed"}})))),
        denied(
            Who::Controller,
            "nor a label",
            only,
            status("fresh", with(json!({"metadata": {"labels": {"a": "b"}}}))),
        ),
        allowed(Who::Uninstall, "at the end everything is put into service", in_service("left", "True")),
        denied(Who::Uninstall, "and nothing out of it", add, in_service("free", "False")),
        allowed(Who::Uninstall, "but companion pods that are not needed", in_service("companion", "False")),
        denied(Who::Controller, "which agents take out at all other times", add, in_service("companion", "False")),
    ]
}

fn services() -> Vec<Row> {
    let service = |value: Value| Call::merge(format!("/api/v1/namespaces/{NAMESPACE}/services/web"), value);
    let mark = |open: bool, mark: Value| json!({"metadata": {"annotations": {"hitless.dev/held-by": mark}}, "spec": {"publishNotReadyAddresses": open}});
    let (spec, meta) = ("only set publishNotReadyAddresses", "only set the annotation");
    vec![
        allowed(
            Who::Controller,
            "the controller opens a Service and marks it",
            service(mark(true, json!("u.h,false"))),
        ),
        allowed(Who::Controller, "and closes it", service(mark(false, Value::Null))),
        allowed(Who::Uninstall, "and so does the account it leaves by", service(mark(false, Value::Null))),
        denied(
            Who::Controller,
            "it opens none without the mark",
            "carries hitless.dev/held-by",
            service(json!({"spec": {"publishNotReadyAddresses": true}})),
        ),
        denied(Who::Controller, "it changes no selector", spec, service(json!({"spec": {"selector": {"a": "b"}}}))),
        denied(Who::Controller, "nor its type", spec, service(json!({"spec": {"type": "NodePort"}}))),
        denied(Who::Controller, "nor labels", meta, service(json!({"metadata": {"labels": {"a": "b"}}}))),
        denied(
            Who::Controller,
            "nor foreign annotations",
            meta,
            service(json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
    ]
}

fn rights() -> Vec<Row> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let account = |name: &str| json!([{"kind": "ServiceAccount", "name": name, "namespace": DEFAULT_SYSTEM_NAMESPACE}]);
    let role = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = |name: &str, subjects: Value| json!({"metadata": {"name": name}, "roleRef": role("hitless-agent-operator"), "subjects": subjects});
    let jane = json!([{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]);
    let farewell = json!({"metadata": {"name": "hitless-uninstall"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let other = json!({"metadata": {"name": "other"}, "rules": []});
    let bindings = || format!("{rbac}/namespaces/{BARE}/rolebindings");
    let accounts = |namespace: &str| format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    vec![
        allowed(
            Who::Controller,
            "the controller lets agents operate where it keeps a ledger",
            Call::create(bindings(), binding("hitless-agent", account("hitless-agent"))),
        ),
        denied(
            Who::Controller,
            "and nobody else",
            "may only bind",
            Call::create(bindings(), binding("hitless-agent", jane)),
        ),
        denied(
            Who::Controller,
            "under no other name",
            "may only bind",
            Call::create(bindings(), binding("other", account("hitless-agent"))),
        ),
        denied(
            Who::Controller,
            "nobody cluster-wide",
            "",
            Call::create(format!("{rbac}/clusterrolebindings"), binding("hitless-agent", account("hitless-agent"))),
        ),
        allowed(
            Who::Controller,
            "it makes the role that it leaves by",
            Call::create(format!("{rbac}/clusterroles"), farewell),
        ),
        denied(Who::Controller, "and no other", "may only create", Call::create(format!("{rbac}/clusterroles"), other)),
        denied(
            Who::Controller,
            "no other account",
            "may only create",
            Call::create(
                accounts(DEFAULT_SYSTEM_NAMESPACE),
                json!({"metadata": {"name": CONTROLLER.to_owned() + "-2"}}),
            ),
        ),
    ]
}
