//! What the controller may do to Deployments.

use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::apps;
use crate::request::{Call, Who};

pub(super) fn deployments() -> Vec<Row> {
    let held = |value: Value| Call::merge(format!("{}/held", apps("deployments")), value);
    let lift = json!({"metadata": {"annotations": {"hitless.dev/rollout": null}}, "spec": {"paused": false}});
    let gap = json!({"metadata": {"annotations": {"hitless.dev/gap": "{}"}}});
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}});
    let (spec, meta) = ("only set paused", "only set annotations hitless.dev/");
    vec![
        allowed_as(
            Who::Controller,
            "the controller lifts mark and pause in one patch",
            held(lift.clone()),
            [("/spec/paused", Value::Null), ("/metadata/annotations/hitless.dev~1rollout", Value::Null)],
        ),
        allowed_as(Who::Uninstall, "and so does the account it leaves by", held(lift), [("/spec/paused", Value::Null)]),
        denied(
            Who::Controller,
            "not the pause without the mark",
            "only end a pause",
            held(json!({"spec": {"paused": false}})),
        ),
        denied(
            Who::Controller,
            "nor a pause of somebody else",
            "only end a pause",
            Call::merge(format!("{}/owners", apps("deployments")), json!({"spec": {"paused": false}})),
        ),
        denied(
            Who::Controller,
            "and it pauses nobody",
            "only end a pause",
            Call::merge(format!("{}/plain", apps("deployments")), json!({"spec": {"paused": true}})),
        ),
        allowed(Who::Controller, "it notes the learned gap", held(gap)),
        denied(Who::Controller, "it does not scale", spec, held(json!({"spec": {"replicas": 5}}))),
        denied(Who::Controller, "it does not change the template", "where the Deployment opted in", held(image)),
        denied(
            Who::Controller,
            "nor the strategy",
            spec,
            held(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})),
        ),
        denied(Who::Controller, "nor labels", meta, held(json!({"metadata": {"labels": {"a": "b"}}}))),
        denied(
            Who::Controller,
            "nor foreign annotations",
            meta,
            held(json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
    ]
}

/// What `kubectl rollout status` is told of a halted Deployment.
pub(super) fn halt_reports() -> Vec<Row> {
    let deployment = |name: &str, status: Value| {
        Call::strategic(format!("{}/{name}/status", apps("deployments")), json!({"status": status}))
    };
    let conditions = |status: &str, reason: &str, message: &str| json!([{"type": "Progressing", "status": status, "reason": reason, "message": message}]);
    let ended = || conditions("False", "ProgressDeadlineExceeded", "hitless: bad");
    let paused = || conditions("Unknown", "DeploymentPaused", "Deployment is paused");
    let (only, nothing_else) = ("only say in the condition Progressing", "only set the condition Progressing");
    let available = json!([{"type": "Available", "status": "True"}]);
    let is_paused = json!("DeploymentPaused");
    vec![
        allowed(
            Who::Controller,
            "of a halted Deployment the controller says that it makes no progress",
            deployment("halted", json!({"conditions": ended()})),
        ),
        allowed(Who::Controller, "and takes that back", deployment("held", json!({"conditions": paused()}))),
        denied(Who::Controller, "of no other one", only, deployment("held", json!({"conditions": ended()}))),
        denied(
            Who::Controller,
            "nothing of availability",
            only,
            deployment("halted", json!({"conditions": available})),
        ),
        denied(
            Who::Controller,
            "and no numbers",
            nothing_else,
            deployment("halted", json!({"conditions": ended(), "replicas": 7})),
        ),
        allowed_as(
            Who::DeploymentController,
            "as soon as another template is observed it is not so any more",
            deployment("halted", json!({"conditions": ended(), "observedGeneration": 1000})),
            [("/status/conditions/0/reason", is_paused)],
        ),
        allowed_as(
            Who::DeploymentController,
            "until then it stays",
            deployment("halted", json!({"conditions": ended()})),
            [("/status/conditions/0/reason", json!("ProgressDeadlineExceeded"))],
        ),
    ]
}
