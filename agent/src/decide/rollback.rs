//! The way back, after its reason is stored in the report.

use hitless_api::{Phase, TransitionResult};
use jiff::Timestamp;

use super::operation::Operation;
use super::{hold, reason};
use crate::decision::{Action, Decision, Direction, Hold, WaitingFor};
use crate::deed::{Baseline, Progress, Trouble};
use crate::instant::after_seconds;

/// An agent that was restarted in the very second in which a container was may not be able to tell the old one from the new
/// one. After so many seconds, if containers may not take longer to stop, it is the new one.
const SURELY_REPLACED_SECONDS: u32 = 120;

/// Where a new pod may be what helps, the version before is given so long, in seconds, to start once it has crashed. The kubelet tries
/// about three times within that.
const CRASHING_SECONDS: u32 = 30;

/// The report holds a reason for the way back.
pub(super) fn decide(operation: &Operation<'_>) -> Decision {
    let reason = operation.rollback().unwrap_or_default();
    let since = operation.not_after_now(operation.reported.map_or(operation.now, |reported| reported.since.0));
    let deadline = after_seconds(since, operation.grant.verify.progress_seconds);
    let decision = match operation.progress() {
        Progress::NotPatched => back(operation, since),
        Progress::Patched | Progress::Other(..) => patch_back(operation, since, deadline),
    };
    Decision { rollback: Some(reason.to_owned()), ..decision.or_saying(why(operation)) }
}

/// Between why it was begun and what is in its way.
const AFTER: &str = "; after the way back: ";

/// Why it was begun, in the words of the report.
pub(super) fn why<'a>(operation: &Operation<'a>) -> &'a str {
    let said = operation.reported.map_or("", |reported| reported.message.as_str());
    said.split_once(AFTER).map_or(said, |(why, _)| why)
}

fn patch_back(operation: &Operation<'_>, since: Timestamp, deadline: Timestamp) -> Decision {
    if let Some(denied) = operation.denied(&Action::Patch(Direction::Back)) {
        return operation.give_up(denied.reason, &denied.words);
    }
    if operation.now >= deadline {
        return operation.give_up(TransitionResult::ROLLBACK_NOT_READY, "the images could not be patched back in time");
    }
    let returning = Decision::at(Phase::Returning).until(deadline);
    if operation.is_hold() {
        return hold::back(operation, returning, since);
    }
    if !operation.out_of_service() {
        return operation.doing(returning, Action::LeaveService);
    }
    if operation.pod.ready() {
        return returning.waiting_for(WaitingFor::NotReady);
    }
    operation.doing(returning, Action::Patch(Direction::Back))
}

fn back(operation: &Operation<'_>, since: Timestamp) -> Decision {
    // What is to be replaced again may take its time to stop, too.
    let patched =
        operation.memory.undone.as_ref().map_or(since, |undone| operation.not_after_now(undone.at).max(since));
    let stopped = after_seconds(patched, operation.stop_seconds());
    let deadline = after_seconds(stopped, operation.grant.verify.progress_seconds);
    let surely = after_seconds(since, SURELY_REPLACED_SECONDS).max(stopped);
    let undone = operation.memory.undone.as_ref().map(|undone| &undone.before);
    let missing = operation.deed().not_reverted(operation.pod, undone, since, operation.now >= surely);
    if missing.is_empty() {
        return if operation.out_of_service() {
            operation.raise(reason::IN_SERVICE)
        } else {
            super::returned::rolled_back(operation, since)
        };
    }
    let said = trouble(operation, true).map(|trouble| trouble.words);
    if operation.is_over(deadline) {
        let why = said.map(|words| format!("; {words}")).unwrap_or_default();
        let words = format!("not ready in time after the way back: {missing}{why}");
        return operation.give_up(TransitionResult::ROLLBACK_NOT_READY, words);
    }
    let crashing = after_seconds(patched, CRASHING_SECONDS);
    if operation.grant.verify.crashes.is_some() && crashes_too(operation) {
        if operation.now >= crashing {
            let before = Some(why(operation)).filter(|why| !why.is_empty());
            let before = before.map(|why| format!("; before that: {why}")).unwrap_or_default();
            let words = format!("crashes with the version before, too, after the way back: {missing}{before}");
            return operation.give_up(TransitionResult::ROLLBACK_NOT_READY, words);
        }
        let waiting = Decision::at(Phase::Returning).waiting_for(WaitingFor::ContainersReady(missing));
        let waiting = operation.until(waiting, deadline).waking_at(crashing);
        return if operation.is_hold() { waiting.holding(Hold::Continue(Direction::Back)) } else { waiting };
    }
    let waiting = Decision::at(Phase::Returning).waiting_for(WaitingFor::ContainersReady(missing));
    let said = said.map(|words| format!("{}{AFTER}{words}", why(operation)));
    let waiting = said.into_iter().fold(operation.until(waiting, deadline), Decision::saying);
    let waiting = if operation.is_hold() { waiting.holding(Hold::Continue(Direction::Back)) } else { waiting };
    if operation.now < surely { waiting.waking_at(surely) } else { waiting }
}

/// Whether a container of the version before crashes, too, as far as this process knows which one that is.
fn crashes_too(operation: &Operation<'_>) -> bool {
    trouble(operation, false).is_some_and(|trouble| trouble.is_crash())
}

/// What keeps a container from running after the way back: one of the version before crashes, as far as this process knows which one that
/// is; or, `is_late`, one can't be started.
fn trouble<'p>(operation: &'p Operation<'_>, is_late: bool) -> Option<Trouble<'p>> {
    let undone = operation.memory.undone.as_ref().map(|undone| &undone.before);
    let baseline = |ids| Baseline { ids: Some(ids), out_since: operation.lowered() };
    undone.and_then(|ids| operation.deed().trouble(operation.pod, baseline(ids), is_late))
}
