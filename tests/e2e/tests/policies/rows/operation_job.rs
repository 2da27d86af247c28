//! What the controller may do with OperationJobs and with labels of pods: `policies/operation-job.yaml` and `policies/collaset.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, operation_jobs, pods};
use crate::request::{Call, Who};

fn label(pod: &str, metadata: Value) -> Call {
    Call::merge(format!("{}/{pod}", pods(NAMESPACE)), json!({"metadata": metadata}))
}

pub(super) fn rows() -> Vec<Row> {
    let job = |name: &str| Call::delete(format!("{}/{name}", operation_jobs()));
    let replace = || json!({"labels": {"collaset.kusionstack.io/to-replace": "job-1"}});
    vec![
        denied(
            Who::Controller,
            "a job that goes on is not deleted",
            "only delete an OperationJob that has ended",
            job("open"),
        ),
        allowed(Who::User, "but by its owner: that cancels it", job("open")),
        allowed(Who::Controller, "one that has ended is deleted when its time is over", job("ended")),
        allowed(Who::Controller, "a pod of a CollaSet is to be replaced", label("colla-member", replace())),
        denied(
            Who::Controller,
            "and no other label is set",
            "only set the labels that tell what is done to it",
            label("colla-member", json!({"labels": {"app": "other"}})),
        ),
        denied(
            Who::Controller,
            "no annotation",
            "only set the labels that tell what is done to it",
            label("colla-member", json!({"annotations": {"hitless.dev/restart": "x"}})),
        ),
        denied(
            Who::Controller,
            "nor a pod of anybody else",
            "only change those of CollaSets",
            label("free", replace()),
        ),
    ]
}
