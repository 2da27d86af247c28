//! What is said of OperationJobs and ContainerRecreateRequests.

use hitless_api::container_recreate_request::RecreatePhase;
use hitless_api::operation_job::Progress;
use hitless_rollout::round::Explanation;
use hitless_workloads::requests::container_recreate_request::RecreateBody;
use hitless_workloads::requests::operation_job::{Action, JobBody};
use hitless_workloads::{Object, RequestBody};

use super::report::{JobStatus, PodStatus, State, WorkloadStatus};
use crate::snapshot::Snapshot;

/// Jobs that have not ended.
pub(super) fn open(snapshot: &Snapshot, explanation: &Explanation, workloads: &[WorkloadStatus]) -> Vec<JobStatus> {
    let objects = snapshot.cluster.objects.iter().filter(|object| snapshot.shows(&object.id.namespace));
    let waiting = |object: &Object| {
        let asks = |pod: &&PodStatus| {
            let asked_by = explanation.pods.get(&pod.uid).and_then(|known| known.asked_by.as_ref());
            asked_by.is_some_and(|asked_by| asked_by.uid == object.id.uid) && pod.state == State::Waiting
        };
        let pod = workloads.iter().flat_map(|workload| &workload.pods).find(asks);
        snapshot.left_alone(&object.id.group_kind).or_else(|| pod.map(|pod| format!("pod {}: {}", pod.name, pod.why)))
    };
    let of = |object: &Object| match object.request()? {
        RequestBody::OperationJob(body) => {
            let is_over = body.status.progress.is_some_and(Progress::is_final);
            (!is_over).then(|| job(object, body, waiting(object).unwrap_or_default()))
        }
        RequestBody::ContainerRecreate(body) => {
            let is_over = body.status.phase == Some(RecreatePhase::Completed);
            (!is_over).then(|| recreation(object, body, waiting(object).unwrap_or_default()))
        }
    };
    let mut open: Vec<JobStatus> = objects.filter_map(|object| of(object)).collect();
    open.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    open
}

fn job(object: &Object, body: &JobBody, waiting: String) -> JobStatus {
    let why = body.invalid.as_ref().map_or(waiting, ToString::to_string);
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

/// Its containers are what is counted.
fn recreation(object: &Object, body: &RecreateBody, why: String) -> JobStatus {
    let states = &body.status.container_recreate_states;
    let count = |phase: RecreatePhase| states.iter().filter(|state| state.phase == phase).count();
    JobStatus {
        namespace: object.id.namespace.clone(),
        name: format!("crr/{}", object.id.name),
        action: "Recreate".to_owned(),
        progress: match body.status.phase {
            None | Some(RecreatePhase::Pending) => Progress::Pending,
            Some(_) => Progress::Processing,
        },
        total: body.containers.len(),
        succeeded: count(RecreatePhase::Succeeded),
        failed: count(RecreatePhase::Failed),
        why,
        pods: vec![body.pod.clone()],
    }
}
