//! Out of service, until the pod's connections are gone; then the image patch.

use hitless_api::{Grant, HookTime, Outcome, Phase, StragglerPolicy, TransitionResult, WaitPoint};
use jiff::Timestamp;

use super::hooks::{self, Step};
use super::operation::Operation;
use super::reason;
use crate::decision::{Action, Decision, Direction, Hold, WaitingFor, Watch};
use crate::deed::{Deed, names};
use crate::instant::after_seconds;
use crate::view::Observation;

/// The pod has the images before the operation, and nothing was undone.
pub(super) fn decide(operation: &Operation<'_>) -> Decision {
    if let Some(cancel) = &operation.grant.cancel {
        return cancelled(operation, &cancel.reason);
    }
    match operation.lowered() {
        None => lower(operation),
        Some(lowered) if operation.pod.ready() => leaving(operation, lowered),
        Some(lowered) => draining(operation, lowered),
    }
}

/// Cancelled before the containers were touched. The pod is raised even where nobody has lowered it as far as can be seen: that
/// makes a lowering fail that is still on its way, from this process or from one that was killed, and that would otherwise
/// take the pod out of service after its place was freed.
pub(super) fn cancelled(operation: &Operation<'_>, reason: &str) -> Decision {
    if !operation.pod.gated {
        return Decision::end(Phase::Granted, Outcome::Cancelled, reason);
    }
    let mark = if operation.lowered().is_some() { reason::CANCELLED } else { reason::NEVER_BEGUN };
    operation.raise(mark).saying("cancelled before the containers were touched")
}

fn lower(operation: &Operation<'_>) -> Decision {
    // As after a cancel, a lowering may still be on its way. Also after one that somebody else has undone: the budget was never asked for a pod that takes traffic.
    if operation.grant.while_unavailable && operation.pod.available() {
        return operation.raise(reason::AVAILABLE);
    }
    if let Some(denied) = operation.denied(&Action::LeaveService) {
        return Decision::refused(denied.reason, &denied.words);
    }
    if let Some(decision) = hooks::before(operation, Decision::at(Phase::Leaving)) {
        return decision;
    }
    // Somebody keeps raising what this grant has lowered.
    let grant = operation.grant;
    let begin = grant.ttl_seconds.saturating_add(Grant::CLOCK_SKEW_SECONDS);
    let begin = begin.saturating_add(hooks::seconds_before(operation));
    if operation.now > after_seconds(grant.granted.0, begin.saturating_add(grant.drain.deadline_seconds)) {
        // As far as is known here no request to lower it was ever answered: the API server was away. One may still be on its way.
        if operation.memory.lowered.is_none() {
            return operation.raise(reason::EXPIRED);
        }
        return Decision::end(Phase::Leaving, Outcome::Failed, "InServiceOverridden")
            .saying("InService was raised by somebody else");
    }
    operation.doing(Decision::at(Phase::Leaving).watching(Watch::Leaving), Action::LeaveService)
}

/// InService is False, the kubelet has not followed.
fn leaving(operation: &Operation<'_>, lowered: Timestamp) -> Decision {
    let deadline = after_seconds(lowered, operation.grant.drain.deadline_seconds);
    if operation.now >= deadline {
        return operation.give_up(TransitionResult::NOT_LEAVING, "the kubelet has not lowered Ready; is it running?");
    }
    Decision::at(Phase::Leaving).waiting_for(WaitingFor::NotReady).until(deadline).watching(Watch::Leaving)
}

/// The endpoint is going or gone.
fn draining(operation: &Operation<'_>, lowered: Timestamp) -> Decision {
    if operation.memory.left_for_good {
        return operate(operation);
    }
    let drain = &operation.grant.drain;
    // A kubelet that was late has kept the endpoint until then, and with it the time of those who were to leave.
    let since = operation.draining_since(lowered);
    let deadline = after_seconds(since, drain.deadline_seconds);
    let minimum = after_seconds(operation.surely_lowered(lowered).max(since), drain.min_seconds).min(deadline);
    // A load balancer may still send new clients: that nobody is connected now does not end this.
    let outside = operation.outside(WaitPoint::Operate);
    // Its connections were gone once, and what is counted now is the hook's.
    if outside.is_empty() && hooks::called(operation, HookTime::AfterDrain) {
        return gone(operation, deadline);
    }
    let waiting = at_draining(operation).until(deadline).watching(Watch::Draining);
    if operation.now < minimum {
        return waiting.waiting_for(WaitingFor::Minimum(minimum)).waking_at(minimum);
    }
    let connections = drained(operation).err().unwrap_or_default();
    if outside.is_empty() && connections.is_empty() {
        return gone(operation, deadline);
    }
    if operation.now >= deadline {
        let waits: Vec<WaitingFor> = outside.into_iter().chain(connections).collect();
        return match drain.stragglers {
            StragglerPolicy::Abort => {
                operation.give_up("DeadlineAborted", format!("not drained in time: waited for {}", texts(&waits)))
            }
            _ if operation.is_protected() => waits.into_iter().fold(at_draining(operation), Decision::waiting_for),
            StragglerPolicy::Wait | StragglerPolicy::Close | StragglerPolicy::Destroy => gone(operation, deadline),
        };
    }
    let straggling = after_seconds(since, drain.straggler_after_seconds);
    let counted = matches!(operation.observation, Observation::Counted(_));
    if counted && outside.is_empty() && operation.now >= straggling {
        match drain.stragglers {
            StragglerPolicy::Close => return gone(operation, deadline),
            StragglerPolicy::Destroy if is_empty(operation) => return gone(operation, deadline),
            StragglerPolicy::Destroy | StragglerPolicy::Wait | StragglerPolicy::Abort => {}
        }
    }
    let message = match operation.observation {
        Observation::Failed(why) => format!("the connections can't be counted, so the deadline decides: {why}"),
        Observation::None | Observation::Counted(_) | Observation::Held(_) => String::new(),
    };
    let waiting = match drain.stragglers {
        _ if operation.now < straggling => waiting.waking_at(straggling),
        StragglerPolicy::Destroy => waiting.watching(Watch::Destroying),
        StragglerPolicy::Close | StragglerPolicy::Wait | StragglerPolicy::Abort => waiting,
    };
    outside.into_iter().chain(connections).fold(waiting, Decision::waiting_for).saying(message)
}

/// Nobody is waited for any more: the hooks, then the image patch. Nothing is closed meanwhile: it could be the hook's connection.
fn gone(operation: &Operation<'_>, deadline: Timestamp) -> Decision {
    if !operation.any_runs() {
        return operate(operation);
    }
    match hooks::step(operation, HookTime::AfterDrain, deadline) {
        Step::Over => operate(operation),
        Step::Waits(wait) => wait.put(at_draining(operation).watching(Watch::Leaving)),
        Step::Failed(words) => operation.give_up(hooks::FAILED, words),
        Step::Refused(words) => operation.give_up(hooks::REFUSED, words),
    }
}

/// Whoever still comes while the containers are replaced is to wait instead of being refused: some load balancer may not have noticed
/// that the pod has left. What that needs is opened before.
fn at_draining(operation: &Operation<'_>) -> Decision {
    let decision = Decision::at(Phase::Draining);
    match operation.deed() {
        Deed::Images(_) => decision.holding(Hold::Prepare(Direction::Forward)),
        Deed::Labels(_) | Deed::Foreign(_) | Deed::Drain(_) => decision,
    }
}

/// Whether everybody is gone, else what there is to wait for.
fn drained(operation: &Operation<'_>) -> Result<(), Vec<WaitingFor>> {
    if !operation.any_runs() {
        // Nobody can have a connection to a container that does not run.
        return Ok(());
    }
    match operation.observation {
        Observation::Counted(count) if count.drained() => Ok(()),
        Observation::Counted(count) => {
            let quiet = (!count.quiet || count.unlisted).then_some(WaitingFor::Quiet);
            let connections = (count.waited() > 0).then_some(WaitingFor::Connections(count.waited()));
            Err(quiet.into_iter().chain(connections).collect())
        }
        Observation::Failed(why) => Err(vec![WaitingFor::Count(why.clone())]),
        Observation::None | Observation::Held(_) => Err(vec![WaitingFor::Count("not looked yet".to_owned())]),
    }
}

/// Counted, and nobody is left; others may still come.
fn is_empty(operation: &Operation<'_>) -> bool {
    matches!(operation.observation, Observation::Counted(count) if count.is_empty())
}

/// The image patch, or what lets others operate the pod, whatever is still open.
pub(super) fn operate(operation: &Operation<'_>) -> Decision {
    if operation.deed().is_over_once_drained() {
        return Decision::end(Phase::Draining, Outcome::Done, "Done").saying("drained, and out of service for good");
    }
    if let Deed::Foreign(_) = operation.deed() {
        let decision = Decision::at(Phase::Draining).saying("drained");
        return match operation.denied(&Action::ShowDrained) {
            Some(denied) => operation.give_up(denied.reason, &denied.words),
            None => operation.doing(decision, Action::ShowDrained),
        };
    }
    if let Some(denied) = operation.denied(&Action::Patch(Direction::Forward)) {
        return operation.give_up(denied.reason, &denied.words);
    }
    let message = format!("replacing {}", names(operation.containers()));
    let decision = Decision::at(Phase::Operating).saying(message);
    let decision = operation.replacing(operation.doing(decision, Action::Patch(Direction::Forward)));
    // In a Hold they are held before, and their requests in flight are answered.
    if operation.is_hold() { decision } else { decision.holding(Hold::Begin(Direction::Forward)) }
}

fn texts(waits: &[WaitingFor]) -> String {
    waits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}
