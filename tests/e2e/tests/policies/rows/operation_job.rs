//! What the controller may do with OperationJobs and ContainerRecreateRequests: `policies/operation-job.yaml`.

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{operation_jobs, recreate_requests};
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    let job = |name: &str| Call::delete(format!("{}/{name}", operation_jobs()));
    let request = |name: &str| Call::delete(format!("{}/{name}", recreate_requests()));
    vec![
        denied(
            Who::Controller,
            "a job that goes on is not deleted",
            "only delete an OperationJob that has ended",
            job("open"),
        ),
        allowed(Who::User, "but by its owner: that cancels it", job("open")),
        allowed(Who::Controller, "one that has ended is deleted when its time is over", job("ended")),
        denied(
            Who::Controller,
            "nor a ContainerRecreateRequest that goes on",
            "only delete a ContainerRecreateRequest that has ended",
            request("open"),
        ),
        allowed(Who::User, "but by its owner, too", request("open")),
        allowed(Who::Controller, "and that has ended it may delete", request("ended")),
    ]
}
