//! The images are patched: is the new container there, is it good, and do the rules let it return?

use hitless_api::pod::ContainerView;
use hitless_api::{HookTime, Outcome, Phase, PostCheck, TransitionResult, VerifySpec};
use jiff::Timestamp;

use super::hooks::{self, Step};
use super::operation::Operation;
use super::reason;
use crate::decision::{Decision, Direction, WaitingFor};
use crate::deed::{Effect, Trouble};
use crate::instant::after_seconds;
use crate::view::Observation;

/// How long after the old container has ended the kubelet may try again to start a new one before that counts as a failure, in seconds.
const START_PATIENCE_SECONDS: u32 = 10;

/// The pod has the images after the operation, and it is not being undone.
pub(super) fn decide(operation: &Operation<'_>) -> Decision {
    if operation.out_of_service() || operation.is_hold() { judge(operation) } else { in_service(operation) }
}

fn judge(operation: &Operation<'_>) -> Decision {
    let seconds = operation.grant.verify.progress_seconds;
    // What is not there yet, and what is said of it once it is too late.
    let unfinished = match operation.effect() {
        Effect::Stopping(old) => return stopping(operation, old),
        Effect::Ready => None,
        Effect::Starting(unready) => {
            let late = format!("{unready} not ready {seconds} s after its start");
            Some((Phase::Verifying, WaitingFor::ContainersReady(unready), late))
        }
        Effect::Replacing(missing) => {
            let late = format!("{missing} not started {seconds} s after the old containers had ended");
            Some((Phase::Operating, WaitingFor::Replaced(missing), late))
        }
    };
    if let Some(cancel) = operation.grant.cancel.as_ref().filter(|cancel| cancel.undoes()) {
        return undo(&cancel.reason, "cancelled after the images were patched");
    }
    let started = operation.starting_since();
    let deadline = after_seconds(started, seconds);
    let patience = after_seconds(operation.ended_at(), START_PATIENCE_SECONDS);
    let trouble = operation.deed().trouble(operation.pod, operation.baseline(), operation.now >= patience);
    let is_late = operation.is_over(deadline);
    let again = match trouble {
        // The kubelet tries again: as long as others serve, or natively it would do the same, nobody is hurt by that.
        Some(trouble) if trouble.repeats && !is_late && may_repeat(operation, &trouble) => Some(trouble),
        Some(trouble) => return undo(trouble.reason, &crashed(operation, &trouble)),
        None => None,
    };
    let Some((phase, what, too_late)) = unfinished else { return after_start(operation, started, deadline) };
    if is_late {
        return undo("ProgressDeadlineExceeded", &too_late);
    }
    let waiting = Decision::at(phase).waiting_for(what);
    let waiting = if operation.now < patience { waiting.waking_at(patience) } else { waiting };
    let waiting = again.into_iter().fold(waiting, |waiting, trouble| {
        let words = crashed(operation, &trouble);
        let VerifySpec { alone, crashes, .. } = operation.grant.verify;
        let serve = if alone { "" } else { ", and others serve" };
        let or_after = crashes.map(|most| format!(", or when it has ended {most} times")).unwrap_or_default();
        waiting.saying(format!(
            "{words}; the kubelet tries again{serve}; judged when its time is over, at {deadline}{or_after}"
        ))
    });
    operation.until(waiting, deadline)
}

/// Whether the kubelet's next attempt is waited for. How often a container has ended an agent that was restarted does not know.
fn may_repeat(operation: &Operation<'_>, trouble: &Trouble<'_>) -> bool {
    let VerifySpec { alone, crashes, .. } = operation.grant.verify;
    match (crashes.filter(|_| trouble.is_crash()), ends(operation)) {
        (Some(most), Some(ends)) => ends < most,
        (Some(_), None) | (None, _) => !alone,
    }
}

/// How often a new container has ended, as far as this process knows.
fn ends(operation: &Operation<'_>) -> Option<u32> {
    let ends = operation.containers().filter_map(|container| {
        let before = operation.memory.restarts.get(&container.name)?;
        let restarts = container.status.as_ref().filter(|status| status.running_since.is_none())?.restarts;
        Some(restarts.saturating_sub(*before))
    });
    ends.max()
}

/// What keeps a container from running, and how often it has ended.
fn crashed(operation: &Operation<'_>, trouble: &Trouble<'_>) -> String {
    match ends(operation).unwrap_or_default() {
        0 => trouble.words.clone(),
        1 => format!("{}; it has ended once", trouble.words),
        times => format!("{}; it has ended {times} times", trouble.words),
    }
}

/// Old containers run still. Nothing is known of the new version, and an image that is put back now does not keep the kubelet from
/// starting the new one: it would stop twice. Past its time it is the node's fault.
fn stopping(operation: &Operation<'_>, old: String) -> Decision {
    let until = operation.stopped_by();
    if operation.now >= until {
        let words = reason::not_replaced(operation.stop_seconds());
        return operation.give_up(TransitionResult::NOT_REPLACED, format!("{words}: {old}"));
    }
    Decision::at(Phase::Operating).waiting_for(WaitingFor::Ended(old)).until(until)
}

/// The new containers are ready: the hooks, then whether they stay so.
fn after_start(operation: &Operation<'_>, started: Timestamp, deadline: Timestamp) -> Decision {
    match hooks::step(operation, HookTime::AfterStart, deadline) {
        Step::Over => soak(operation, started),
        Step::Waits(wait) => wait.put(Decision::at(Phase::Verifying)),
        Step::Failed(words) => undo(hooks::FAILED, &words),
        Step::Refused(words) => undo(hooks::REFUSED, &words),
    }
}

/// The pod was raised by somebody else, or patched by hand: it takes traffic, so nothing may be undone.
fn in_service(operation: &Operation<'_>) -> Decision {
    let started = || after_seconds(operation.starting_since(), operation.grant.verify.progress_seconds);
    let (what, deadline, late) = match operation.effect() {
        Effect::Starting(_) | Effect::Ready if operation.pod.ready() => {
            return Decision::end(Phase::Returning, Outcome::Done, "Done");
        }
        Effect::Starting(_) | Effect::Ready => (WaitingFor::Ready, started(), None),
        Effect::Stopping(old) => (WaitingFor::Ended(old.clone()), operation.stopped_by(), Some(old)),
        Effect::Replacing(missing) => (WaitingFor::Replaced(missing.clone()), started(), Some(missing)),
    };
    match late {
        _ if !operation.is_over(deadline) => {
            operation.until(Decision::at(Phase::Operating).waiting_for(what), deadline)
        }
        None => Decision::end(Phase::Returning, Outcome::Done, "ReadyPending"),
        Some(missing) => Decision::end(Phase::Operating, Outcome::Failed, TransitionResult::NOT_REPLACED)
            .saying(format!("{missing} not replaced")),
    }
}

/// How long the new containers have to run. One that ends at once would else be Done, where nothing but its start says that it is
/// ready.
fn soak_seconds(operation: &Operation<'_>) -> u32 {
    let is_shown = operation.containers().all(|container| container.delays_ready || listens(operation, container));
    let least = if is_shown { 0 } else { VerifySpec::RUNS_FOR_SECONDS.into() };
    operation.grant.verify.soak_seconds.max(least)
}

/// Its ports were seen to be listened to again since it was started. Where several containers are replaced, nobody tells whose ports
/// those are, so it must declare one.
fn listens(operation: &Operation<'_>, container: &ContainerView) -> bool {
    let is_its = !container.ports.is_empty() || operation.containers().nth(1).is_none();
    let since = container.status.as_ref().and_then(|status| status.running_since);
    // What is seen just now is remembered only after this decision.
    let now = match operation.observation {
        Observation::Counted(count) => count.listening,
        Observation::Held(held) if held.direction == Direction::Forward => held.listening,
        Observation::Held(_) | Observation::None | Observation::Failed(_) => None,
    };
    let seen = operation.memory.listening.or(now);
    is_its && seen.is_some_and(|listening| since.is_some_and(|since| listening.at >= since))
}

/// Ready; is it to stay so for a while?
fn soak(operation: &Operation<'_>, started: Timestamp) -> Decision {
    let verify = operation.grant.verify;
    let soak_seconds = soak_seconds(operation);
    if soak_seconds > 0 {
        let since = operation
            .containers()
            .filter_map(|container| container.status.as_ref()?.running_since)
            .chain(operation.pod.conditions.get("ContainersReady").and_then(|condition| condition.since))
            .max()
            .map_or(started, |since| operation.not_after_now(since));
        // Both times are truncated to seconds.
        let end = after_seconds(after_seconds(since, soak_seconds), 1);
        // However often the soak begins anew, it ends.
        let latest = after_seconds(after_seconds(started, verify.progress_seconds), soak_seconds);
        if operation.now < end && !operation.is_over(latest) {
            let end = if operation.grant.stands.is_some() { end } else { end.min(latest) };
            return Decision::at(Phase::Verifying).waiting_for(WaitingFor::Soak(end)).until(end);
        }
        if operation.now < end {
            let message = format!("the containers do not stay ready for {soak_seconds} s");
            return undo("ProgressDeadlineExceeded", &message);
        }
    }
    if operation.is_hold() { super::returned::held(operation, started) } else { check(operation) }
}

/// Verified; may it return? What has not been answered for as long as a container may take to become ready is taken for a no:
/// no pod stays out of service because nobody asks the rules.
fn check(operation: &Operation<'_>) -> Decision {
    if operation.grant.post_check != Some(PostCheck::Pending) {
        return operation.raise(reason::IN_SERVICE);
    }
    let seconds = operation.grant.verify.progress_seconds;
    let deadline = after_seconds(operation.checking_since(), seconds);
    if operation.now >= deadline {
        return undo("PostCheckTimedOut", &format!("the rules of stage PostCheck have not passed within {seconds} s"));
    }
    Decision::at(Phase::Checking)
        .saying("verified; the controller asks the rules of stage PostCheck")
        .waiting_for(WaitingFor::PostCheck)
        .until(deadline)
}

/// The way back. Nothing is done before the reason is stored in the report.
fn undo(reason: &str, message: &str) -> Decision {
    Decision { rollback: Some(reason.to_owned()), ..Decision::at(Phase::Returning) }
        .saying(message)
        .waiting_for(WaitingFor::Report)
}
