//! Bugs of OperationJobs and ContainerRecreateRequests.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[Bug {
    what: "a job does not see that it has restarted its pod",
    changes: &[
        (
            "crates/workloads/src/requests/operation_job/restart.rs",
            "if task::is_on(pod, &job.token()) {",
            "if !MUTANT && task::is_on(pod, &job.token()) {",
        ),
        (
            "crates/workloads/src/requests/operation_job/restart.rs",
            "open.filter(|(_, pod)| !task::is_on(pod, &job.token()))",
            "open.filter(|(_, pod)| MUTANT || !task::is_on(pod, &job.token()))",
        ),
    ],
}];

/// Of those that only ContainerRecreateRequests have.
pub(crate) const RECREATIONS: &[Bug] = &[Bug {
    what: "a request does not see that it has stopped its containers",
    changes: &[
        (
            "crates/workloads/src/requests/container_recreate_request/recreation.rs",
            "let is_killed = known.is_killed || task::is_on(pod, &token);",
            "let is_killed = !MUTANT && (known.is_killed || task::is_on(pod, &token));",
        ),
        (
            "crates/workloads/src/requests/container_recreate_request/recreation.rs",
            "let is_begun = of_step.iter().any(|state| state.is_killed) || task::is_on(pod, &self.token(step));",
            "let is_begun = !MUTANT && task::is_on(pod, &self.token(step));",
        ),
    ],
}];
