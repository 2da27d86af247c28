//! The way back, after its reason is stored in the report.

use hitless_api::Phase;
use hitless_api::pod::ContainerView;
use jiff::Timestamp;

use super::case::{Case, Images, names, runs};
use super::{Action, Decision, Hold, WaitingFor, hold};
use crate::instant::after_seconds;
use crate::patch::Direction;

/// An agent that was restarted in the very second in which a container was may not be able to tell the old one from the new
/// one. After so many seconds, longer than containers take to stop, it is the new one.
const SURELY_REPLACED_SECONDS: u32 = 120;

/// The report holds a reason for the way back.
pub(super) fn decide(case: &Case<'_>) -> Decision {
    let reason = case.rollback().unwrap_or_default();
    let since = case.not_after_now(case.reported.map_or(case.now, |reported| reported.since.0));
    let deadline = after_seconds(since, case.grant.verify.progress_seconds);
    let decision = match case.images() {
        Images::From => back(case, since, deadline),
        Images::To | Images::Other(_) => patch_back(case, since, deadline),
    };
    Decision { rollback: Some(reason.to_owned()), ..decision }
}

fn patch_back(case: &Case<'_>, since: Timestamp, deadline: Timestamp) -> Decision {
    if let Some(denied) = case.denied(&Action::Undo) {
        return case.give_up(denied.reason, &denied.words);
    }
    if case.now >= deadline {
        return case.give_up("RollbackNotReady", "the images could not be patched back in time");
    }
    let returning = Decision::at(Phase::Returning).until(deadline);
    if case.is_hold() {
        return hold::back(case, returning, since);
    }
    if !case.out_of_service() {
        return case.doing(returning, Action::Lower);
    }
    if case.pod.ready() {
        return returning.waiting_for(WaitingFor::NotReady);
    }
    case.doing(returning, Action::Undo)
}

fn back(case: &Case<'_>, since: Timestamp, deadline: Timestamp) -> Decision {
    let missing = names(case.containers().filter(|container| !is_back(case, container, since)));
    if missing.is_empty() {
        return if case.out_of_service() {
            case.raise(super::returned::IN_SERVICE)
        } else {
            super::returned::rolled_back(case, since)
        };
    }
    if case.now >= deadline {
        return case.give_up("RollbackNotReady", format!("not ready in time after the way back: {missing}"));
    }
    let surely = after_seconds(since, SURELY_REPLACED_SECONDS);
    let waiting = Decision::at(Phase::Returning).waiting_for(WaitingFor::ContainersReady(missing)).until(deadline);
    let waiting = if case.is_hold() { waiting.holding(Hold::Keep(Direction::Back)) } else { waiting };
    if case.now < surely { waiting.waking_at(surely) } else { waiting }
}

/// The container with the image before runs and is ready. The kubelet describes the one with the image after, which may be
/// ready too, until that has stopped, even when it has seen the patch back.
fn is_back(case: &Case<'_>, container: &ContainerView, since: Timestamp) -> bool {
    let Some(status) = &container.status else { return false };
    let (name, id) = (&container.name, &status.container_id);
    // Patched back before the kubelet had touched it.
    let is_original = case.grant.before.get(name) == Some(id);
    let is_new = match &case.memory.undone {
        Some(undone) => undone.before.get(name) != Some(id),
        None => {
            status.running_since.is_some_and(|running| running >= since)
                || case.now >= after_seconds(since, SURELY_REPLACED_SECONDS)
        }
    };
    runs(status) && status.ready && case.observed() && (is_original || is_new)
}
