//! What a job reports, and when it is deleted.

use std::collections::BTreeMap;

use hitless_api::event::{EventNote, Severity};
use hitless_api::operation_job::{OperationError, OperationJobStatus, OperationTargetStatus, Progress};
use hitless_api::{JsonPatch, Time};
use jiff::{Timestamp, Unit};
use serde_json::json;

use super::job::{Job, TargetState};
use super::{Action, OPERATION_JOB, replace};
use crate::request::{OperationFailure, OperationFailures, Reports, RequestContext};
use crate::requests::task;
use crate::write::{Request, Write};

/// Adds what is to be written and said of the job.
pub(super) fn of<'a>(
    job: Job<'a>,
    context: &RequestContext<'_, 'a>,
    failures: &OperationFailures,
    reports: &mut Reports,
) {
    if job.is_over() {
        // For as long as it is there: an Event is written only of what holds for a while.
        reports.notes.extend(note(job, &job.body.status));
        if let Some(ended) = &job.body.status.end_time {
            task::expire(job.object, ended.0, job.body.time_to_live, context.now, reports);
        }
        return;
    }
    // Times in a status have whole seconds.
    let now = context.now.round(Unit::Second).unwrap_or(context.now);
    let wanted = match &job.body.invalid {
        Some(invalid) => {
            refused(job, &OperationError { reason: invalid.reason().to_owned(), message: invalid.to_string() }, now)
        }
        None => status(job, context, failures, now, reports),
    };
    reports.writes.extend(write(job, &wanted));
    let open = wanted.target_details.iter().any(|detail| !detail.progress.is_final());
    let deadline = job.deadline().filter(|at| open && *at > context.now);
    task::wake(reports, deadline);
    reports.notes.extend(note(job, &wanted));
}

/// Nothing is done. Where there are more targets than fit, the first one says why.
fn refused(job: Job<'_>, error: &OperationError, now: Timestamp) -> OperationJobStatus {
    let detail = |name: &String| OperationTargetStatus {
        name: name.clone(),
        progress: Progress::Failed,
        end_time: Some(Time(now)),
        error: Some(error.clone()),
        ..OperationTargetStatus::default()
    };
    let first = job.body.targets.first().map(|target| &target.name);
    OperationJobStatus {
        observed_generation: Some(job.object.generation),
        progress: Some(Progress::Failed),
        start_time: Some(Time(now)),
        end_time: Some(Time(now)),
        total_pod_count: count(job.body.targets.len()),
        succeeded_pod_count: 0,
        failed_pod_count: count(job.body.targets.len()),
        target_details: first.into_iter().map(detail).collect(),
    }
}

fn status<'a>(
    job: Job<'a>,
    context: &RequestContext<'_, 'a>,
    failures: &OperationFailures,
    now: Timestamp,
    reports: &mut Reports,
) -> OperationJobStatus {
    let mut details = Vec::with_capacity(job.body.targets.len());
    for (target, state) in job.targets(context) {
        let known = job
            .recorded(&target.name)
            .cloned()
            .unwrap_or_else(|| OperationTargetStatus { name: target.name.clone(), ..OperationTargetStatus::default() });
        if let TargetState::Awaited { until } = state {
            task::wake(reports, Some(until));
        }
        if let (TargetState::Open { pod, begun: false, .. }, Action::Replace) = (&state, &job.body.action) {
            reports.writes.extend(replace::begin(job, pod, context));
        }
        details.push(detail(job, known, state, failures, now));
    }
    let with = |progress: Progress| details.iter().filter(|detail| detail.progress == progress).count();
    let (succeeded, failed) = (with(Progress::Succeeded), with(Progress::Failed));
    let progress = match (details.len() - succeeded - failed, failed) {
        (0, 0) => Progress::Succeeded,
        (0, _) => Progress::Failed,
        _ if with(Progress::Pending) == details.len() => Progress::Pending,
        _ => Progress::Processing,
    };
    OperationJobStatus {
        observed_generation: Some(job.object.generation),
        progress: Some(progress),
        start_time: job.body.status.start_time.clone().or(Some(Time(now))),
        end_time: progress.is_final().then_some(Time(now)),
        total_pod_count: count(details.len()),
        succeeded_pod_count: count(succeeded),
        failed_pod_count: count(failed),
        target_details: details,
    }
}

/// What a target's entry says next. It never goes back.
fn detail(
    job: Job<'_>,
    known: OperationTargetStatus,
    state: TargetState<'_>,
    failures: &OperationFailures,
    now: Timestamp,
) -> OperationTargetStatus {
    let begun = || known.start_time.clone().or(Some(Time(now)));
    let ended = |progress, extra: BTreeMap<String, String>, error| OperationTargetStatus {
        progress,
        start_time: begun(),
        end_time: Some(Time(now)),
        extra_info: merged(&known.extra_info, extra),
        error,
        name: known.name.clone(),
    };
    let failed = |failure: &OperationFailure| {
        let error = OperationError { reason: failure.reason.clone(), message: failure.text.clone() };
        ended(Progress::Failed, BTreeMap::new(), Some(error))
    };
    match state {
        TargetState::Recorded | TargetState::Later | TargetState::Awaited { .. } => known,
        TargetState::Done { extra } => ended(Progress::Succeeded, extra, None),
        TargetState::Failed(error) => ended(Progress::Failed, BTreeMap::new(), Some(error)),
        TargetState::Open { pod, begun: is_begun, committed: _, extra } => {
            let of_operation = failures.failed.get(&(pod.id.uid.clone(), job.token()));
            let never = || failures.never.get(&pod.id.uid).filter(|_| !is_begun && job.body.action == Action::Restart);
            if let Some(failure) = of_operation.or_else(never) {
                return failed(failure);
            }
            if !is_begun {
                return known;
            }
            OperationTargetStatus {
                progress: Progress::Processing,
                start_time: begun(),
                extra_info: merged(&known.extra_info, extra),
                ..known.clone()
            }
        }
    }
}

fn merged(known: &BTreeMap<String, String>, more: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = known.clone();
    all.extend(more);
    all
}

/// The write that makes the status true, if it is not. Of many targets only those that have changed are sent.
fn write(job: Job<'_>, wanted: &OperationJobStatus) -> Option<Write> {
    let known = &job.body.status;
    if known == wanted {
        return None;
    }
    let tested = JsonPatch::at(&job.object.id.uid, &job.object.resource_version);
    let is_same_list = known.target_details.len() == wanted.target_details.len() && known.progress.is_some();
    let patch = if is_same_list {
        let patch = changed(wanted).fold(tested, |patch, (field, value)| patch.add(&["status", field], value));
        let details = known.target_details.iter().zip(&wanted.target_details).enumerate();
        let details = details.filter(|(_, (known, wanted))| known != wanted);
        details.fold(patch, |patch, (index, (_, wanted))| {
            patch.replace(&["status", "targetDetails", &index.to_string()], json!(wanted))
        })
    } else {
        tested.add(&["status"], json!(wanted))
    };
    let on = job.object.id.clone();
    Some(Write::new("report-job", on, Request::Status(patch)))
}

/// All fields but the targets.
fn changed(wanted: &OperationJobStatus) -> impl Iterator<Item = (&'static str, serde_json::Value)> {
    let OperationJobStatus {
        observed_generation,
        progress,
        start_time,
        end_time,
        total_pod_count,
        succeeded_pod_count,
        failed_pod_count,
        target_details: _,
    } = wanted;
    let fields = [
        ("observedGeneration", json!(observed_generation)),
        ("progress", json!(progress)),
        ("startTime", json!(start_time)),
        ("endTime", json!(end_time)),
        ("totalPodCount", json!(total_pod_count)),
        ("succeededPodCount", json!(succeeded_pod_count)),
        ("failedPodCount", json!(failed_pod_count)),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_null())
}

/// A job with targets that can't be operated says so on itself, too.
fn note(job: Job<'_>, wanted: &OperationJobStatus) -> Option<EventNote> {
    let text = if let Some(invalid) = &job.body.invalid {
        format!("nothing is done: {invalid}")
    } else {
        let first = wanted.target_details.iter().find_map(|detail| Some((detail, detail.error.as_ref()?)));
        let ((detail, error), failed) = (first?, wanted.failed_pod_count);
        format!("{failed} targets have failed; pod {}: {}: {}", detail.name, error.reason, error.message)
    };
    let regarding = job.object.id.reference(OPERATION_JOB.version);
    Some(EventNote { regarding, severity: Severity::Warning, reason: "OperationFailed", action: "Operate", text })
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
