//! What is said of OperationJobs.

use hitless_api::operation_job::Progress;
use hitless_rollout::round::Explanation;
use hitless_workloads::Object;
use hitless_workloads::requests::operation_job::{Action, JobBody};

use super::report::{JobStatus, PodStatus, State, WorkloadStatus};
use crate::snapshot::Snapshot;

/// Jobs that have not ended.
pub(super) fn open(snapshot: &Snapshot, explanation: &Explanation, workloads: &[WorkloadStatus]) -> Vec<JobStatus> {
    let jobs = snapshot.cluster.objects.iter().filter_map(|object| Some((&**object, object.operation_job()?)));
    let jobs = jobs.filter(|(object, body)| {
        snapshot.shows(&object.id.namespace) && !body.status.progress.is_some_and(Progress::is_final)
    });
    let mut open: Vec<JobStatus> =
        jobs.map(|(object, body)| job(snapshot, explanation, workloads, object, body)).collect();
    open.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    open
}

fn job(
    snapshot: &Snapshot,
    explanation: &Explanation,
    workloads: &[WorkloadStatus],
    object: &Object,
    body: &JobBody,
) -> JobStatus {
    let asks = |pod: &&PodStatus| {
        let asked_by = explanation.pods.get(&pod.uid).and_then(|known| known.asked_by.as_ref());
        asked_by.is_some_and(|asked_by| asked_by.uid == object.id.uid) && pod.state == State::Waiting
    };
    let waiting = || workloads.iter().flat_map(|workload| &workload.pods).find(asks);
    let why = match (&body.invalid, snapshot.left_alone(&object.id.group_kind)) {
        (Some(invalid), _) => invalid.to_string(),
        (None, Some(left)) => left,
        (None, None) => waiting().map(|pod| format!("pod {}: {}", pod.name, pod.why)).unwrap_or_default(),
    };
    let count = |number: i32| usize::try_from(number).unwrap_or_default();
    JobStatus {
        namespace: object.id.namespace.clone(),
        name: format!("operationjob/{}", object.id.name),
        action: match &body.action {
            Action::Restart => "Restart".to_owned(),
            Action::Replace => "Replace".to_owned(),
            Action::Unknown(word) => word.clone(),
        },
        progress: body.status.progress.unwrap_or_default(),
        total: body.targets.len(),
        succeeded: count(body.status.succeeded_pod_count),
        failed: count(body.status.failed_pod_count),
        why,
        pods: body.targets.iter().map(|target| target.name.clone()).collect(),
    }
}
