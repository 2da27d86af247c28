//! The images are patched: is the new container there, is it good, and do the rules let it return?

use hitless_api::pod::ContainerView;
use hitless_api::{HookTime, Outcome, Phase, PostCheck};
use jiff::Timestamp;

use super::case::{Case, names, runs};
use super::hooks::{self, Step};
use super::{Decision, WaitingFor};
use crate::instant::after_seconds;

/// Reasons of a waiting container that mean: it will not start. They must have lasted, because the kubelet tries again.
const CANNOT_START: [&str; 9] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];
/// How long after the image patch such a reason is waited out, in seconds.
const START_PATIENCE_SECONDS: u32 = 10;

/// The pod has the images after the operation, and it is not being undone.
pub(super) fn decide(case: &Case<'_>) -> Decision {
    if case.out_of_service() || case.is_hold() { judge(case) } else { in_service(case) }
}

fn judge(case: &Case<'_>) -> Decision {
    if let Some(cancel) = &case.grant.cancel {
        return undo(&cancel.reason, "cancelled after the images were patched");
    }
    let operated = case.operated_at();
    let verify = case.grant.verify;
    let deadline = after_seconds(operated, verify.progress_seconds);
    if let Some((reason, message)) = case.containers().find_map(|container| failure(case, container, operated)) {
        return undo(reason, &message);
    }
    let missing = names(case.containers().filter(|container| !case.replaced(container)));
    let unready = names(case.containers().filter(|container| !is_ready(container)));
    if missing.is_empty() && unready.is_empty() {
        return after_start(case, operated, deadline);
    }
    if case.now >= deadline {
        let what = if missing.is_empty() { format!("{unready} not ready") } else { format!("{missing} not replaced") };
        let message = format!("{what} {} s after the image patch", verify.progress_seconds);
        return undo("ProgressDeadlineExceeded", &message);
    }
    let waiting = if missing.is_empty() {
        Decision::at(Phase::Verifying).waiting_for(WaitingFor::ContainersReady(unready))
    } else {
        Decision::at(Phase::Operating).waiting_for(WaitingFor::Replaced(missing))
    };
    let patience = after_seconds(operated, START_PATIENCE_SECONDS);
    let waiting = if case.now < patience { waiting.waking_at(patience) } else { waiting };
    waiting.until(deadline)
}

/// The new containers are ready: the hooks, then whether they stay so.
fn after_start(case: &Case<'_>, operated: Timestamp, deadline: Timestamp) -> Decision {
    match hooks::step(case, HookTime::AfterStart, deadline) {
        Step::Over => soak(case, operated),
        Step::Waits(wait) => wait.put(Decision::at(Phase::Verifying)),
        Step::Failed(words) => undo(hooks::FAILED, &words),
        Step::Refused(words) => undo(hooks::REFUSED, &words),
    }
}

/// The pod was raised by somebody else, or patched by hand: it takes traffic, so nothing may be undone.
fn in_service(case: &Case<'_>) -> Decision {
    let deadline = after_seconds(case.operated_at(), case.grant.verify.progress_seconds);
    let missing = names(case.containers().filter(|container| !case.replaced(container)));
    if missing.is_empty() && case.pod.ready() {
        return Decision::end(Phase::Returning, Outcome::Done, "Done");
    }
    if case.now < deadline {
        let what = if missing.is_empty() { WaitingFor::Ready } else { WaitingFor::Replaced(missing) };
        return Decision::at(Phase::Operating).waiting_for(what).until(deadline);
    }
    if missing.is_empty() {
        Decision::end(Phase::Returning, Outcome::Done, "ReadyPending")
    } else {
        Decision::end(Phase::Operating, Outcome::Failed, "NotReplaced").saying(format!("{missing} not replaced"))
    }
}

fn is_ready(container: &ContainerView) -> bool {
    container.status.as_ref().is_some_and(|status| status.ready && runs(status))
}

/// Signs that waiting longer is of no use.
fn failure<'a>(case: &Case<'_>, container: &'a ContainerView, operated: Timestamp) -> Option<(&'a str, String)> {
    let status = container.status.as_ref().filter(|_| case.observed())?;
    let reason = status.waiting.as_deref()?;
    let is_lasting = case.now >= after_seconds(operated, START_PATIENCE_SECONDS);
    let crashes = reason == "CrashLoopBackOff" && case.replaced(container);
    let cannot_start = is_lasting && CANNOT_START.contains(&reason);
    (crashes || cannot_start).then(|| (reason, format!("container {}: {reason}", container.name)))
}

/// Ready; is it to stay so for a while?
fn soak(case: &Case<'_>, operated: Timestamp) -> Decision {
    let verify = case.grant.verify;
    if verify.soak_seconds > 0 {
        let since = case
            .containers()
            .filter_map(|container| container.status.as_ref()?.running_since)
            .chain(case.pod.conditions.get("ContainersReady").and_then(|condition| condition.since))
            .max()
            .map_or(operated, |since| case.not_after_now(since));
        // Both times are truncated to seconds.
        let end = after_seconds(after_seconds(since, verify.soak_seconds), 1);
        // However often the soak begins anew, it ends.
        let latest = after_seconds(after_seconds(operated, verify.progress_seconds), verify.soak_seconds);
        if case.now < end && case.now < latest {
            let end = end.min(latest);
            return Decision::at(Phase::Verifying).waiting_for(WaitingFor::Soak(end)).until(end);
        }
        if case.now < end {
            return undo("ProgressDeadlineExceeded", "the containers do not stay ready for soakSeconds");
        }
    }
    if case.is_hold() { super::returned::held(case, operated) } else { check(case) }
}

/// Verified; may it return? What has not been answered for as long as a container may take to become ready is taken for a no:
/// no pod stays out of service because nobody asks the rules.
fn check(case: &Case<'_>) -> Decision {
    if case.grant.post_check != Some(PostCheck::Pending) {
        return case.raise(super::returned::IN_SERVICE);
    }
    let seconds = case.grant.verify.progress_seconds;
    let deadline = after_seconds(case.checking_since(), seconds);
    if case.now >= deadline {
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
