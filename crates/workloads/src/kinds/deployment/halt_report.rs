//! What `kubectl rollout status` is told of a halted Deployment: it ends with an error instead of waiting for ever.
//!
//! It fails where the condition Progressing has the reason `ProgressDeadlineExceeded` (kubectl, `polymorphichelpers`). The Deployment
//! controller writes that itself where a rollout makes no progress, but not while it is paused; and it does not overwrite it with
//! `DeploymentPaused` then (`checkPausedConditions` in `pkg/controller/deployment`). So the condition stays until it is taken back here,
//! or by the policy `hitless-halt-report` as soon as another template has been observed.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Deployment;
use super::progressing::{OURS, Progressing};
use crate::write::Write;

const CONDITIONS: [&str; 2] = ["status", "conditions"];

/// Says that its version was judged bad, in these words; `None` if that is what it says already.
pub(super) fn say(deployment: Deployment<'_>, text: &str, now: Option<Timestamp>) -> Option<Write> {
    let message = format!("{OURS}{text}");
    if deployment.body.progressing.reported.as_ref() == Some(&message) {
        return None;
    }
    Some(write("report-halt", deployment, &condition("False", "ProgressDeadlineExceeded", &message, now)))
}

/// Takes back what was said, in the words that the Deployment controller has for a paused Deployment.
pub(super) fn take_back(deployment: Deployment<'_>, now: Option<Timestamp>) -> Option<Write> {
    deployment.body.progressing.reported.as_ref()?;
    Some(write("take-back-halt", deployment, &condition("Unknown", "DeploymentPaused", "Deployment is paused", now)))
}

fn condition(status: &str, reason: &str, message: &str, now: Option<Timestamp>) -> Value {
    let now = now.map(|now| format!("{now:.0}"));
    json!({"type": "Progressing", "status": status, "reason": reason, "message": message, "lastUpdateTime": now,
        "lastTransitionTime": now})
}

fn write(verb: &'static str, deployment: Deployment<'_>, condition: &Value) -> Write {
    let [status, conditions] = CONDITIONS;
    let Progressing { count, index, .. } = &deployment.body.progressing;
    Write::patch_status(verb, deployment.object, |patch| match (index, count) {
        (Some(index), _) => patch.replace(&[status, conditions, &index.to_string()], condition.clone()),
        (None, 0) => patch.add(&CONDITIONS, json!([condition])),
        (None, _) => patch.add(&[status, conditions, "-"], condition.clone()),
    })
}
