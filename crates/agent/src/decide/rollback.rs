//! The way back, after its reason is stored in the report.

use hitless_api::Phase;
use jiff::Timestamp;

use super::case::{Case, Images, names, runs};
use super::{Action, Decision, WaitingFor};
use crate::instant::after_seconds;

/// A kubelet that reports no observedGeneration may still describe the container before the patch: so long, in seconds,
/// its word counts for nothing.
const UNOBSERVED_SECONDS: u32 = 5;

/// The report holds a reason for the way back.
pub(super) fn decide(case: &Case<'_>) -> Decision {
    let reason = case.rollback().unwrap_or_default();
    let since = case.not_after_now(case.reported.map_or(case.now, |reported| reported.since.0));
    let deadline = after_seconds(since, case.grant.verify.progress_seconds);
    let decision = match case.images() {
        Images::From => back(case, since, deadline),
        Images::To | Images::Other(_) => patch_back(case, deadline),
    };
    Decision { rollback: Some(reason.to_owned()), ..decision }
}

fn patch_back(case: &Case<'_>, deadline: Timestamp) -> Decision {
    if let Some(denied) = case.denied() {
        return case.give_up(denied.reason, &denied.words);
    }
    if case.now >= deadline {
        return case.give_up("RollbackNotReady", "the images could not be patched back in time");
    }
    let returning = Decision::at(Phase::Returning).until(deadline);
    if !case.out_of_service() {
        return case.doing(returning, Action::Lower);
    }
    if case.pod.ready() {
        return returning.waiting_for(WaitingFor::NotReady);
    }
    case.doing(returning, Action::Undo)
}

fn back(case: &Case<'_>, since: Timestamp, deadline: Timestamp) -> Decision {
    let settled = after_seconds(since, UNOBSERVED_SECONDS);
    let is_current = case.observed() && (case.pod.observed_generation > 0 || case.now >= settled);
    let unready = names(
        case.containers()
            .filter(|container| !container.status.as_ref().is_some_and(|status| status.ready && runs(status))),
    );
    if is_current && unready.is_empty() {
        return if case.out_of_service() {
            case.raise(super::returned::IN_SERVICE)
        } else {
            super::returned::rolled_back(case, since)
        };
    }
    if case.now >= deadline {
        return case.give_up("RollbackNotReady", format!("not ready in time after the way back: {unready}"));
    }
    let what = if unready.is_empty() { names(case.containers()) } else { unready };
    let waiting = Decision::at(Phase::Returning).waiting_for(WaitingFor::ContainersReady(what)).until(deadline);
    if case.now < settled { waiting.waking_at(settled) } else { waiting }
}
