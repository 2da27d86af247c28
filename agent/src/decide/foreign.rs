//! Others operate the pod: out of service until they have finished.
//!
//! ```text
//!  Granted (until the labels say that the pod leaves) ─ Leaving ─ Draining ─ Operating (until nobody operates it) ─ Checking ─ Returning ─ Done
//!        │ nobody operates it any more, cancel            │            │ the same, before anybody was allowed to
//!        └─ Cancelled                                     └────────────┴─ Returning ─ Cancelled
//! ```
//!
//! That the pod is drained stands in its InService condition, so nobody is allowed to operate a pod that serves, whatever copy of
//! other objects the controller has. Nothing that waits for an operator has a deadline: the pod is not put back while somebody works
//! on it.

use hitless_api::{HookTime, Phase, PostCheck};

use super::hooks::{self, Step};
use super::operation::Operation;
use super::{leave, reason};
use crate::decision::{Decision, WaitingFor};
use crate::deed::{Foreign, Progress, names};
use crate::instant::after_seconds;

/// The pod is to be operated by others, and has not returned.
pub(super) fn decide(operation: &Operation<'_>, foreign: Foreign<'_>) -> Decision {
    let pod = operation.pod;
    let is_allowed = foreign.is_allowed(pod);
    if let Some(cancel) = operation.grant.cancel.as_ref().filter(|_| !is_allowed) {
        return leave::cancelled(operation, &cancel.reason);
    }
    let operators = foreign.operators(pod);
    if operation.progress() == Progress::Patched {
        if !operators.is_empty() {
            return operated(&operators, is_allowed);
        }
        // One that begins anew under the same id must not find the permission of the time before at a pod that serves.
        return if foreign.has_permission(pod) { recorded() } else { finished(operation) };
    }
    if operators.is_empty() {
        return leave::cancelled(operation, "NotOperated");
    }
    if operation.lowered().is_none() && !foreign.is_prepared(pod) {
        let expiry = super::operation::expiry(operation.grant);
        return Decision::at(Phase::Granted).waiting_for(WaitingFor::Preparing).waking_at(after_seconds(expiry, 1));
    }
    leave::decide(operation)
}

fn operated(operators: &[&str], is_allowed: bool) -> Decision {
    let names = operators.join(", ");
    let waiting = if is_allowed { WaitingFor::Operators(names) } else { WaitingFor::Permission(names) };
    Decision::at(Phase::Operating).saying("drained; out of service until nobody operates it").waiting_for(waiting)
}

/// Nobody operates the pod any more, and its labels say still that somebody may.
fn recorded() -> Decision {
    Decision::at(Phase::Operating).waiting_for(WaitingFor::Recorded)
}

/// Nobody operates the pod any more. What they have done can't be taken back, so nothing that fails now keeps it out.
fn finished(operation: &Operation<'_>) -> Decision {
    let is_asked = operation.grant.hooks.iter().any(|hook| hook.when == HookTime::AfterStart);
    let unready =
        |container: &&hitless_api::pod::ContainerView| container.status.as_ref().is_none_or(|status| !status.ready);
    let unready = names(operation.containers().filter(unready));
    if is_asked && !unready.is_empty() {
        return Decision::at(Phase::Verifying).waiting_for(WaitingFor::ContainersReady(unready));
    }
    let since = operation.memory.phase.filter(|(phase, _)| *phase == Phase::Verifying);
    let since = since.map_or(operation.now, |(_, since)| operation.not_after_now(since));
    let deadline = after_seconds(since, operation.grant.verify.progress_seconds);
    match hooks::step(operation, HookTime::AfterStart, deadline) {
        Step::Over => check(operation),
        Step::Waits(wait) => wait.put(Decision::at(Phase::Verifying)),
        Step::Failed(words) => operation.give_up(hooks::FAILED, words),
        Step::Refused(words) => operation.give_up(hooks::REFUSED, words),
    }
}

/// As upstream, without a deadline.
fn check(operation: &Operation<'_>) -> Decision {
    if operation.grant.post_check != Some(PostCheck::Pending) {
        return operation.raise(reason::IN_SERVICE);
    }
    Decision::at(Phase::Checking)
        .saying("nobody operates it any more; the controller asks the rules of stage PostCheck")
        .waiting_for(WaitingFor::PostCheck)
}
