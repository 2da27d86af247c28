//! PodOpsLifecycle: `kusionstack/lifecycle.yaml`, and what `policies/controller.yaml` allows because of it.

use hitless_api::lifecycle::{CONTROL, SERVICE_READY, STAY_OFFLINE, Step, TO_DELETE, permission};
use hitless_api::names::{IN_SERVICE, KUBE_SYSTEM, labels};
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{GATED, LABELLED_POD, NAMESPACE, NODE, SYSTEM_POD, pod, pods};
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    [gates(), operators(), controller(), deletions()].into_iter().flatten().collect()
}

fn label(name: &str, key: &str, value: &Value) -> Call {
    Call::merge(format!("{}/{name}", pods(NAMESPACE)), json!({"metadata": {"labels": {key: value}}}))
}

fn gates() -> Vec<Row> {
    let create = |more: Value| {
        let mut labels = json!({CONTROL: "true"});
        for (key, value) in more.as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        Call::create(pods(NAMESPACE), pod("new", NODE, &json!({"labels": labels})))
    };
    let both = json!([{"conditionType": IN_SERVICE}, {"conditionType": SERVICE_READY}]);
    let row = |says, call, gates: Value| allowed_as(Who::User, says, call, [("/spec/readinessGates", gates)]);
    let of_colla_set = |stays: bool| {
        let mut more = json!({labels::MADE_FOR: "CollaSet"});
        if stays {
            more[STAY_OFFLINE] = json!("true");
        }
        more
    };
    vec![
        row("a pod that takes part gets both gates", create(json!({})), both.clone()),
        row("one of a CollaSet that of hitless", create(of_colla_set(false)), json!([{"conditionType": IN_SERVICE}])),
        row("and both if it is to stay offline", create(of_colla_set(true)), both),
        row("a pod's own no counts", create(json!({labels::GATE: "disabled"})), Value::Null),
    ]
}

fn operators() -> Vec<Row> {
    let begin = || {
        let labels = json!({Step::Operating.key("x"): "7", Step::OperationType.key("x"): "update"});
        json!({"metadata": {"labels": labels}})
    };
    let at = |name: &str| format!("{}/{name}", pods(NAMESPACE));
    let waits = "/metadata/labels/pre-check.podopslifecycle.kusionstack.io~1x";
    let not_his = "wait for operate";
    let mut rows = vec![
        allowed_as(
            Who::User,
            "who begins waits for the rules from that write on",
            Call::merge(at("takes-part"), begin()),
            [(waits, json!("7"))],
        ),
        allowed_as(
            Who::User,
            "but not at a pod that does not take part",
            Call::merge(at("free"), begin()),
            [(waits, Value::Null)],
        ),
        allowed(
            Who::User,
            "he takes it back",
            label("takes-part", &Step::UndoOperationType.key("x"), &json!("update")),
        ),
        denied(Who::User, "he permits nothing", not_his, label("takes-part", &permission("update"), &json!("1"))),
        denied(
            Who::User,
            "also not by the status",
            not_his,
            Call::merge(
                format!("{}/status", at("takes-part")),
                json!({"metadata": {"labels": {Step::Operate.key("x"): "1"}}}),
            ),
        ),
        denied(
            Who::User,
            "nor with a new pod",
            not_his,
            Call::create(pods(NAMESPACE), pod("new", NODE, &json!({"labels": {Step::Operate.key("x"): "1"}}))),
        ),
        denied(Who::User, "nor when he was", not_his, label("leaving", &Step::Operate.key("pod-delete"), &json!("2"))),
        denied(
            Who::User,
            "a key without an id means nothing",
            "has no id",
            label("takes-part", "operating.podopslifecycle.kusionstack.io", &json!("1")),
        ),
        allowed(Who::User, "he may remove it", label("leaving", &Step::Operate.key("pod-delete"), &Value::Null)),
        allowed(Who::Admin, "masters may repair", label("takes-part", &Step::Operate.key("x"), &json!("1"))),
    ];
    for step in [Step::PreChecked, Step::Preparing, Step::Operate, Step::Operated, Step::PostChecked, Step::Completing]
    {
        rows.push(denied(Who::User, "nor anything else", not_his, label("takes-part", &step.key("x"), &json!("1"))));
    }
    rows
}

fn controller() -> Vec<Row> {
    let condition = |name: &str| {
        let conditions = json!([{"type": SERVICE_READY, "status": "False"}]);
        Call::strategic(format!("{}/{name}/status", pods(NAMESPACE)), json!({"status": {"conditions": conditions}}))
    };
    let at = format!("{}/takes-part", pods(NAMESPACE));
    let operate = Step::Operate.key("x");
    let (part, labels, other) = ("that take part", "only set those of", "may only set labels");
    // Writes without a label of the lifecycle are judged by the policy for CollaSets' pods.
    let of_others = "may only change those of CollaSets";
    vec![
        allowed(Who::Controller, "the controller permits", label("takes-part", &operate, &json!("1"))),
        allowed(Who::Controller, "it sets the condition of the gate", condition("takes-part")),
        denied(Who::Controller, "not at pods that do not take part", "only set the condition", condition("free")),
        denied(Who::Controller, "where it sets no label either", part, label("free", &operate, &json!("1"))),
        denied(Who::Controller, "nor makes one take part", of_others, label("free", CONTROL, &json!("true"))),
        denied(Who::Controller, "nor another label", of_others, label("takes-part", "app", &json!("other"))),
        denied(Who::Controller, "nor the deletion", of_others, label("takes-part", TO_DELETE, &json!("true"))),
        denied(
            Who::Controller,
            "nor an annotation",
            of_others,
            Call::merge(at.as_str(), json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
        denied(
            Who::Controller,
            "nor an image",
            of_others,
            Call::json_patch(
                at.as_str(),
                json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]),
            ),
        ),
        denied(
            Who::Controller,
            "nor another label along with one of the lifecycle",
            labels,
            Call::merge(at.as_str(), json!({"metadata": {"labels": {(operate.clone()): "2", "app": "other"}}})),
        ),
        denied(
            Who::Controller,
            "nor an annotation along with it",
            other,
            Call::merge(at, json!({"metadata": {"labels": {operate: "2"}, "annotations": {"a": "b"}}})),
        ),
    ]
}

fn deletions() -> Vec<Row> {
    let delete = |name: &str| Call::delete(format!("{}/{name}", pods(NAMESPACE)));
    let system = || format!("{}/{SYSTEM_POD}", pods(KUBE_SYSTEM));
    let right = "ask for the right to delete pods";
    let ask = |key: &str, of: &str| {
        Call::merge(format!("{}/{LABELLED_POD}{of}", pods(GATED)), json!({"metadata": {"labels": {key: "true"}}}))
    };
    vec![
        allowed(Who::Controller, "a pod that has left to be deleted is deleted", delete("leaving")),
        denied(Who::Controller, "and no other", "have left service", delete("takes-part")),
        denied(Who::Controller, "and none of the cluster's own", "have left service", Call::delete(system())),
        denied(
            Who::Controller,
            "nor does one of those become one that others operate",
            "none in kube-system",
            Call::merge(system(), json!({"metadata": {"labels": {(Step::Operate.key("x")): "1"}}})),
        ),
        allowed_as(
            Who::User,
            "where nobody waits for the rules",
            Call::merge(
                system(),
                json!({"metadata": {"labels": {(Step::Operating.key("x")): "7", (Step::OperationType.key("x")): "update"}}}),
            ),
            [("/metadata/labels/pre-check.podopslifecycle.kusionstack.io~1x", Value::Null)],
        ),
        denied(
            Who::RuleAuthor,
            "who may not delete a pod does not say that it is to be deleted",
            right,
            ask(TO_DELETE, ""),
        ),
        denied(Who::RuleAuthor, "also not by the status", right, ask(TO_DELETE, "/status")),
        denied(
            Who::RuleAuthor,
            "nor that another one is to take its place",
            right,
            ask("collaset.kusionstack.io/to-replace", ""),
        ),
        allowed(Who::RuleAuthor, "and sets other labels", ask("team", "")),
        allowed(Who::User, "who may, does", label("takes-part", TO_DELETE, &json!("true"))),
    ]
}
