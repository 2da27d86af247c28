//! What the controller may do with OperationJobs: `policies/operation-job.yaml`.

use super::{allowed, denied};
use crate::Row;
use crate::fixture::operation_jobs;
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    let job = |name: &str| Call::delete(format!("{}/{name}", operation_jobs()));
    vec![
        denied(
            Who::Controller,
            "a job that goes on is not deleted",
            "only delete an OperationJob that has ended",
            job("open"),
        ),
        allowed(Who::User, "but by its owner: that cancels it", job("open")),
        allowed(Who::Controller, "one that has ended is deleted when its time is over", job("ended")),
    ]
}
