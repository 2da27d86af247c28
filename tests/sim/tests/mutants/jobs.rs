//! Bugs of OperationJobs.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[Bug {
    what: "a job does not see that it has restarted its pod",
    changes: &[
        (
            "crates/workloads/src/requests/operation_job/restart.rs",
            "if pod.annotations.get(annotations::RESTARTED).is_some_and(|token| *token == job.token()) {",
            "if !MUTANT && pod.annotations.get(annotations::RESTARTED).is_some_and(|token| *token == job.token()) {",
        ),
        (
            "crates/workloads/src/requests/operation_job/restart.rs",
            "pod.annotations.get(annotations::RESTARTED) != Some(&job.token())",
            "MUTANT || pod.annotations.get(annotations::RESTARTED) != Some(&job.token())",
        ),
    ],
}];
