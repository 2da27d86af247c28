//! What a request reports, and when it is deleted.

use hitless_api::container_recreate_request::{ContainerRecreateRequestStatus, ContainerRecreateState, RecreatePhase};
use hitless_api::event::{EventNote, Severity};
use hitless_api::{JsonPatch, Time};
use jiff::{SignedDuration, Timestamp, Unit};
use serde_json::json;

use super::CONTAINER_RECREATE_REQUEST;
use super::recreation::{NoPod, Recreation};
use crate::request::{OperationFailures, Reports, RequestContext};
use crate::requests::task;
use crate::write::{Request, Write};

/// Times in a status have whole seconds: a second after a time it has passed for sure.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Adds what is to be written and said of the request.
pub(super) fn of(
    recreation: Recreation<'_>,
    context: &RequestContext<'_, '_>,
    failures: &OperationFailures,
    reports: &mut Reports,
) {
    let known = &recreation.body.status;
    if recreation.is_over() {
        reports.notes.extend(note(recreation, known));
        if let (Some(ended), Some(time_to_live)) = (&known.completion_time, recreation.body.time_to_live) {
            task::expire(recreation.object, ended.0, time_to_live, context.now, reports);
        }
        return;
    }
    let wanted = match recreation.pod(context) {
        Err(NoPod::Awaited { until }) => return task::wake(reports, Some(until)),
        Err(NoPod::Never(message)) => ended(ContainerRecreateRequestStatus { message, ..known.clone() }, context.now),
        Ok(pod) => {
            let states = recreation.states(pod, context, failures);
            task::wake(reports, recreation.deadline());
            let replaced = states.iter().filter(|state| state.phase == RecreatePhase::Recreating);
            let from = replaced.filter_map(|state| recreation.counts_from(pod.container(&state.name)?)).min();
            task::wake(reports, from.and_then(|from| from.checked_add(SECOND).ok()).filter(|at| *at > context.now));
            status(recreation, states, context.now)
        }
    };
    if *known != wanted {
        let patch = JsonPatch::at(&recreation.object.id.uid, &recreation.object.resource_version);
        let patch = patch.add(&["status"], json!(wanted));
        reports.writes.push(Write::new("report-recreation", recreation.object.id.clone(), Request::Status(patch)));
    }
    reports.notes.extend(note(recreation, &wanted));
}

fn status(
    recreation: Recreation<'_>,
    states: Vec<ContainerRecreateState>,
    now: Timestamp,
) -> ContainerRecreateRequestStatus {
    let is_over = recreation.is_decided(&states);
    let has_begun = states.iter().any(|state| state.phase != RecreatePhase::Pending);
    let wanted = ContainerRecreateRequestStatus {
        phase: Some(if has_begun { RecreatePhase::Recreating } else { RecreatePhase::Pending }),
        container_recreate_states: states,
        ..recreation.body.status.clone()
    };
    if is_over { ended(wanted, now) } else { wanted }
}

fn ended(status: ContainerRecreateRequestStatus, now: Timestamp) -> ContainerRecreateRequestStatus {
    let now = now.round(Unit::Second).unwrap_or(now);
    ContainerRecreateRequestStatus { phase: Some(RecreatePhase::Completed), completion_time: Some(Time(now)), ..status }
}

/// One that has ended without all that it was made for says so on itself, too: its phase does not tell.
fn note(recreation: Recreation<'_>, wanted: &ContainerRecreateRequestStatus) -> Option<EventNote> {
    let failed = wanted.container_recreate_states.iter().find(|state| state.phase == RecreatePhase::Failed);
    let text = match failed {
        Some(state) => format!("container {} was not started anew: {}", state.name, state.message),
        None if !wanted.message.is_empty() => format!("not all containers were started anew: {}", wanted.message),
        None => return None,
    };
    let regarding = recreation.object.id.reference(CONTAINER_RECREATE_REQUEST.version);
    Some(EventNote { regarding, severity: Severity::Warning, reason: "OperationFailed", action: "Operate", text })
}
