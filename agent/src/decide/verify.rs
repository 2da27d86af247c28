//! The images are patched: is the new container there, is it good, and do the rules let it return?

use hitless_api::pod::ContainerView;
use hitless_api::{HookTime, Outcome, Phase, PostCheck, VerifySpec};
use jiff::Timestamp;

use super::hooks::{self, Step};
use super::operation::Operation;
use super::reason;
use crate::decision::{Decision, Direction, WaitingFor};
use crate::deed::Effect;
use crate::instant::after_seconds;
use crate::view::Observation;

/// How long after the image patch the kubelet may try again to start a container before it counts as a failure, in seconds.
const START_PATIENCE_SECONDS: u32 = 10;

/// The pod has the images after the operation, and it is not being undone.
pub(super) fn decide(operation: &Operation<'_>) -> Decision {
    if operation.out_of_service() || operation.is_hold() { judge(operation) } else { in_service(operation) }
}

fn judge(operation: &Operation<'_>) -> Decision {
    if let Some(cancel) = operation.grant.cancel.as_ref().filter(|cancel| cancel.undoes()) {
        return undo(&cancel.reason, "cancelled after the images were patched");
    }
    let operated = operation.operated_at();
    let seconds = operation.grant.verify.progress_seconds;
    let deadline = after_seconds(operated, seconds);
    let patience = after_seconds(operated, START_PATIENCE_SECONDS);
    let failure = operation.deed().failure(operation.pod, operation.baseline(), operation.now >= patience);
    if let Some((reason, message)) = failure {
        return undo(reason, &message);
    }
    let late = |what: String| undo("ProgressDeadlineExceeded", &format!("{what} {seconds} s after the image patch"));
    let is_late = operation.now >= deadline;
    let waiting = match operation.effect() {
        Effect::Ready => return after_start(operation, operated, deadline),
        Effect::Starting(unready) if is_late => return late(format!("{unready} not ready")),
        Effect::Replacing(missing) if is_late => return late(format!("{missing} not replaced")),
        Effect::Starting(unready) => Decision::at(Phase::Verifying).waiting_for(WaitingFor::ContainersReady(unready)),
        Effect::Replacing(missing) => Decision::at(Phase::Operating).waiting_for(WaitingFor::Replaced(missing)),
    };
    let waiting = if operation.now < patience { waiting.waking_at(patience) } else { waiting };
    waiting.until(deadline)
}

/// The new containers are ready: the hooks, then whether they stay so.
fn after_start(operation: &Operation<'_>, operated: Timestamp, deadline: Timestamp) -> Decision {
    match hooks::step(operation, HookTime::AfterStart, deadline) {
        Step::Over => soak(operation, operated),
        Step::Waits(wait) => wait.put(Decision::at(Phase::Verifying)),
        Step::Failed(words) => undo(hooks::FAILED, &words),
        Step::Refused(words) => undo(hooks::REFUSED, &words),
    }
}

/// The pod was raised by somebody else, or patched by hand: it takes traffic, so nothing may be undone.
fn in_service(operation: &Operation<'_>) -> Decision {
    let deadline = after_seconds(operation.operated_at(), operation.grant.verify.progress_seconds);
    let missing = match operation.effect() {
        Effect::Replacing(missing) => Some(missing),
        Effect::Starting(_) | Effect::Ready => None,
    };
    match missing {
        None if operation.pod.ready() => Decision::end(Phase::Returning, Outcome::Done, "Done"),
        missing if operation.now < deadline => {
            let what = missing.map_or(WaitingFor::Ready, WaitingFor::Replaced);
            Decision::at(Phase::Operating).waiting_for(what).until(deadline)
        }
        None => Decision::end(Phase::Returning, Outcome::Done, "ReadyPending"),
        Some(missing) => {
            Decision::end(Phase::Operating, Outcome::Failed, "NotReplaced").saying(format!("{missing} not replaced"))
        }
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
fn soak(operation: &Operation<'_>, operated: Timestamp) -> Decision {
    let verify = operation.grant.verify;
    let soak_seconds = soak_seconds(operation);
    if soak_seconds > 0 {
        let since = operation
            .containers()
            .filter_map(|container| container.status.as_ref()?.running_since)
            .chain(operation.pod.conditions.get("ContainersReady").and_then(|condition| condition.since))
            .max()
            .map_or(operated, |since| operation.not_after_now(since));
        // Both times are truncated to seconds.
        let end = after_seconds(after_seconds(since, soak_seconds), 1);
        // However often the soak begins anew, it ends.
        let latest = after_seconds(after_seconds(operated, verify.progress_seconds), soak_seconds);
        if operation.now < end && operation.now < latest {
            let end = end.min(latest);
            return Decision::at(Phase::Verifying).waiting_for(WaitingFor::Soak(end)).until(end);
        }
        if operation.now < end {
            let message = format!("the containers do not stay ready for {soak_seconds} s");
            return undo("ProgressDeadlineExceeded", &message);
        }
    }
    if operation.is_hold() { super::returned::held(operation, operated) } else { check(operation) }
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
