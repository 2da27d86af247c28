//! InService was raised on behalf of the grant: how it ended stands in the condition, the pod and the report.

use hitless_api::pod::ConditionView;
use hitless_api::{Outcome, Phase, TransitionResult, WaitPoint};
use jiff::Timestamp;

use super::operation::Operation;
use super::{hold, hooks, reason, rollback};
use crate::decision::{Decision, WaitingFor};
use crate::deed::Progress;
use crate::instant::after_seconds;

/// Reason of a result: the pod is Ready and in service, and what was waited for outside of it has not come in time.
const NOT_SERVING: &str = "NotServing";

/// InService is True with this grant's mark.
pub(super) fn decide(operation: &Operation<'_>, condition: &ConditionView) -> Decision {
    let since = operation.not_after_now(condition.since.unwrap_or(operation.now));
    match (condition.reason.as_str(), operation.rollback()) {
        // With the pod patched, a way back was announced but not begun before the verdict turned: its report was stored
        // unnoticed.
        (reason::IN_SERVICE, Some(_)) if operation.progress() != Progress::Patched => rolled_back(operation, since),
        (reason::IN_SERVICE, _) => when_ready(operation, since, Outcome::Done, "Done", "ReadyPending"),
        (reason::CANCELLED, _) => {
            let reason = cancelled(operation);
            when_ready(operation, since, Outcome::Cancelled, reason, reason)
        }
        // It was in service all the time, so whether it is Ready says nothing about the operation.
        (reason::NEVER_BEGUN, _) => Decision::end(Phase::Granted, Outcome::Cancelled, cancelled(operation)),
        (reason::AVAILABLE, _) => reason::available(),
        (reason::EXPIRED, _) => reason::expired(),
        (reason::CONTAINER_CHANGED, _) => Decision::refused(
            TransitionResult::CONTAINER_CHANGED,
            "a container was started anew since the grant; the controller grants anew",
        ),
        (reason::HOLD_FAILED, _) => {
            Decision::refused(TransitionResult::HOLD_FAILED, "new connections can't be held: see the agent's log")
        }
        (reason::STILL_IN_FLIGHT, _) => Decision::refused(TransitionResult::STILL_IN_FLIGHT, hold::STILL_IN_FLIGHT),
        (reason::CONTAINER_SERVES, _) => Decision::refused(TransitionResult::CONTAINER_SERVES, hold::CONTAINER_SERVES),
        (reason::REFUSED, _) => Decision::refused(reason::REFUSED, hooks::last_words(operation)),
        (TransitionResult::NOT_REPLACED, _) => {
            let words = reason::not_replaced(operation.stop_seconds());
            Decision::end(Phase::Returning, Outcome::Failed, TransitionResult::NOT_REPLACED).saying(words)
        }
        (reason, _) => Decision::end(Phase::Returning, Outcome::Failed, reason).saying(hooks::last_words(operation)),
    }
}

fn cancelled<'a>(operation: &Operation<'a>) -> &'a str {
    operation.grant.cancel.as_ref().map_or(reason::CANCELLED, |cancel| cancel.reason.as_str())
}

/// The images before the operation run again.
pub(super) fn rolled_back(operation: &Operation<'_>, since: Timestamp) -> Decision {
    let reason = operation.rollback().unwrap_or_default();
    when_ready(operation, since, Outcome::RolledBack, reason, reason).or_saying(rollback::why(operation))
}

/// In service all the time, operated and verified.
pub(super) fn held(operation: &Operation<'_>, started: Timestamp) -> Decision {
    if let Some(waiting) = hold::letting_in(operation, operation.operated_at()) {
        return waiting;
    }
    when_ready(operation, started, Outcome::Done, "Done", "ReadyPending")
}

fn when_ready(operation: &Operation<'_>, since: Timestamp, outcome: Outcome, reason: &str, late: &str) -> Decision {
    let deadline = after_seconds(since, operation.grant.verify.progress_seconds);
    let outside = operation.outside(WaitPoint::Done);
    if operation.pod.ready() && !outside.is_empty() {
        if operation.now >= deadline {
            let words = "the pod is in service again, and a load balancer does not show that it serves";
            let reason = if outcome == Outcome::Done { NOT_SERVING } else { reason };
            return Decision::end(Phase::Returning, outcome, reason).saying(words);
        }
        let waiting = Decision::at(Phase::Returning).until(deadline);
        return outside.into_iter().fold(waiting, Decision::waiting_for);
    }
    if operation.pod.ready() {
        Decision::end(Phase::Returning, outcome, reason)
    } else if operation.is_over(deadline) {
        Decision::end(Phase::Returning, outcome, late).saying("the pod is in service again but not ready")
    } else {
        operation.until(Decision::at(Phase::Returning).waiting_for(WaitingFor::Ready), deadline)
    }
}
