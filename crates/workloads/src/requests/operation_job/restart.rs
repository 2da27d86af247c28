//! Action `Restart`: the pod is restarted as by annotation, with the job's token.

use std::collections::BTreeMap;

use hitless_api::names::labels;
use hitless_api::pod::PodView;

use super::job::{Job, TargetState, failed};
use super::{Action, JobBody};
use crate::intent::DesiredOperation;
use crate::request::RequestContext;
use crate::requests::{restart, task};
use crate::restart_request::RestartRequest;

/// In `extraInfo`: why nothing had to be done.
const INFO: &str = "Info";

/// Where a target is; `pod` is the one of its name.
pub(super) fn state<'s>(
    job: Job<'_>,
    target: &str,
    pod: Option<&'s PodView>,
    context: &RequestContext<'_, '_>,
) -> TargetState<'s> {
    let Some(pod) = pod else { return job.missing(target, context.now) };
    let begun = task::is_under_way(pod, &job.token(), context);
    if task::is_on(pod, &job.token()) {
        return if begun { open(pod, true) } else { TargetState::Done { extra: BTreeMap::new() } };
    }
    if pod.terminating {
        return failed("PodNotFound", format!("pod {} is being deleted", pod.id.name));
    }
    if pod.finished {
        return failed("PodNotFound", format!("pod {} has ended", pod.id.name));
    }
    if pod.labels.contains_key(labels::COMPANION) {
        return failed(
            "CompanionPod",
            format!("pod {} stands in for a moment only, and is never restarted", pod.id.name),
        );
    }
    if task::is_newer(pod, job.object) {
        let extra = BTreeMap::from([(INFO.to_owned(), "the pod was made after the job".to_owned())]);
        return TargetState::Done { extra };
    }
    open(pod, begun)
}

fn open(pod: &PodView, begun: bool) -> TargetState<'_> {
    TargetState::Open { pod, begun, committed: begun, extra: BTreeMap::new() }
}

/// What the job wants for its pods.
pub(super) fn desired<'a>(job: Job<'a>, context: &RequestContext<'_, 'a>) -> Vec<DesiredOperation> {
    let JobBody { action, invalid, delay_seconds, .. } = job.body;
    if *action != Action::Restart || invalid.is_some() || job.is_over() {
        return Vec::new();
    }
    let wanted = |containers: &[String]| RestartRequest {
        token: job.token(),
        containers: (!containers.is_empty()).then(|| containers.to_vec()),
    };
    let open = job.targets(context).filter_map(|(target, state)| match state {
        TargetState::Open { pod, .. } => Some((target, pod)),
        _ => None,
    });
    let desired = open.filter(|(_, pod)| !task::is_on(pod, &job.token()));
    desired
        .filter_map(|(target, pod)| {
            let revision = restart::revision((context.plan_of)(pod), pod)?;
            let intent = wanted(&target.containers).intent(pod, revision);
            let asked_by = Some(job.object.id.clone());
            Some(DesiredOperation { delay_seconds: *delay_seconds, asked_by, ..DesiredOperation::new(pod, intent) })
        })
        .collect()
}
