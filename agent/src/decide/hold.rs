//! New connections held, requests in flight answered; then the image patch. The pod stays in service.

use hitless_api::{DrainSpec, Grant, GrantMode, Phase, StragglerPolicy};
use jiff::{SignedDuration, Timestamp};

use super::operation::Operation;
use super::{hooks, leave, reason};
use crate::decision::{Action, Decision, Direction, Hold, WaitingFor};
use crate::instant::{after, after_seconds};
use crate::view::{Observation, Stage};

/// No Hold begins while the API server takes longer to answer: clients would wait for the image patch. Its usual answer takes
/// some 10 ms.
const SLOW_MILLISECONDS: u32 = 250;
/// An answer that is older says nothing about how quick the next one is.
const ANSWER_LASTS: SignedDuration = SignedDuration::from_secs(1);
/// While requests in flight are waited for it is asked again and again. One that has not answered for so long is slow.
const ANSWERED_LATELY: SignedDuration = SignedDuration::from_secs(4);
/// Before a Hold is tried again that had to end before the image patch: its clients have waited once.
const BETWEEN_ATTEMPTS_SECONDS: u32 = 5;
/// After a refusal by admission, whose copy of the ledger may be a little old, clients are held for so long ...
const LAG: SignedDuration = SignedDuration::from_millis(300);
/// ... and then let in, until the next attempt.
const AFTER_DENIAL: SignedDuration = SignedDuration::from_secs(1);
/// While the thread that holds is at work it tells when it is done; this is only for the case that it never does.
const GLANCE: SignedDuration = SignedDuration::from_secs(1);
/// The way back is not kept waiting for longer by a Hold that can't begin.
const BACK_PATIENCE_SECONDS: u32 = 3;

/// Why a container is not replaced without a drain.
pub(super) const CONTAINER_SERVES: &str =
    "a container that is to be replaced serves somebody, or may (see the agent's log); the controller grants anew";

/// Why a pod is not held that need not be.
pub(super) const STILL_IN_FLIGHT: &str =
    "requests in flight take longer than new clients can be held; the controller grants anew, another way";

/// The pod has the images before the operation, and nothing was undone.
pub(super) fn decide(operation: &Operation<'_>) -> Decision {
    if let Some(cancel) = &operation.grant.cancel {
        return cancelled(operation, &cancel.reason);
    }
    if operation.grant.while_unavailable && operation.pod.available() {
        return operation.raise(reason::AVAILABLE);
    }
    if let Some(denied) = operation.denied(&Action::Patch(Direction::Forward)) {
        return operation.give_up(denied.reason, &denied.words);
    }
    match stage(operation, Direction::Forward) {
        Some(Stage::Settling(busy)) => {
            let settling = held(operation, Decision::at(Phase::Settling).waiting_for(WaitingFor::InFlight(*busy)));
            // That may take a minute, with nobody held.
            if is_asked(operation) || is_sent(operation) { settling } else { settling.doing(Action::FetchPod) }
        }
        Some(Stage::Settled(left)) => settled(operation, *left),
        other => hooks::before(operation, Decision::at(Phase::Granted)).unwrap_or_else(|| begin(operation, other)),
    }
}

/// Cancelled before the containers were touched. As in [`leave::cancelled`], writing the condition anew makes an image patch
/// fail that is still on its way.
pub(super) fn cancelled(operation: &Operation<'_>, reason: &str) -> Decision {
    if operation.pod.gated && operation.out_of_service() {
        return leave::cancelled(operation, reason);
    }
    operation.raise(reason::NEVER_BEGUN).saying("cancelled before the containers were touched")
}

/// The way back, under a Hold where that is quickly begun.
pub(super) fn back(operation: &Operation<'_>, returning: Decision, since: Timestamp) -> Decision {
    let direction = Direction::Back;
    let undo = |hold| operation.doing(returning.clone(), Action::Patch(Direction::Back)).holding(hold);
    let patience = after_seconds(since, BACK_PATIENCE_SECONDS);
    // The process that is to be replaced again does not listen yet. Its listener would be taken for the one that is waited for, and
    // clients would be let in to a process that is about to be killed.
    if clients_wait(operation) && operation.now < patience {
        let waiting = returning.waiting_for(WaitingFor::LetIn).waking_at(patience);
        return waiting.holding(Hold::Continue(Direction::Forward));
    }
    match stage(operation, direction) {
        _ if !operation.any_runs() => undo(Hold::Continue(direction)),
        Some(Stage::Settling(busy)) => {
            held(operation, returning.waiting_for(WaitingFor::InFlight(*busy))).holding(Hold::Begin(direction))
        }
        Some(Stage::Settled(_)) => undo(Hold::Begin(direction)),
        Some(Stage::Prepared(0) | Stage::Released | Stage::Failed(_)) => undo(Hold::Continue(direction)),
        Some(Stage::Prepared(_)) if operation.now < patience => returning.holding(Hold::Begin(direction)),
        None if operation.now < patience => {
            let waiting = returning.waiting_for(WaitingFor::Prepared).waking_at(patience);
            waiting.holding(Hold::Prepare(direction))
        }
        Some(Stage::Prepared(_)) | None => undo(Hold::Continue(direction)),
    }
}

/// The new containers are ready, and clients are still held: the kubelet was quicker than the thread that looks for the listener.
/// What the thread has to tell is part of the result; that it tells is not relied on for longer than clients are held.
pub(super) fn letting_in(operation: &Operation<'_>, operated: Timestamp) -> Option<Decision> {
    let cap = SignedDuration::from_millis(operation.grant.drain.hold_cap_milliseconds.into());
    let latest = after(after(operated, cap), GLANCE);
    let waiting = || Decision::at(Phase::Returning).waiting_for(WaitingFor::LetIn).waking_at(latest);
    (clients_wait(operation) && operation.now < latest).then(waiting)
}

/// Clients are held, on the way there.
fn clients_wait(operation: &Operation<'_>) -> bool {
    matches!(stage(operation, Direction::Forward), Some(Stage::Settling(_) | Stage::Settled(_)))
}

/// Nothing is held.
fn begin(operation: &Operation<'_>, stage: Option<&Stage>) -> Decision {
    let expiry = operation.expiry();
    if operation.now > expiry {
        // A patch that was sent and not answered may still be on its way.
        return if operation.may_be_patched() { operation.raise(reason::EXPIRED) } else { reason::expired() };
    }
    // Whoever comes after this process tells new containers from old ones by the grant alone: the pod never leaves service, so no
    // time of that does.
    if !operation.deed().is_as_granted(operation.pod) {
        return operation.raise(reason::CONTAINER_CHANGED);
    }
    // A container that does not run has no connections, and none can be made to it.
    if !operation.any_runs() {
        return leave::operate(operation);
    }
    let granted = Decision::at(Phase::Granted).until(expiry);
    if operation.out_of_service() {
        return granted.waiting_for(WaitingFor::InService);
    }
    if let Some(at) = next_attempt(operation).filter(|at| *at > operation.now) {
        let waiting = granted.waiting_for(WaitingFor::Attempt(at)).waking_at(at);
        // A patch that was sent and not answered may still be carried out. Clients are held as soon as that is seen.
        return if is_sent(operation) && !clients_wait(operation) {
            waiting.holding(Hold::Prepare(Direction::Forward))
        } else {
            waiting
        };
    }
    let granted = granted.holding(Hold::Prepare(Direction::Forward));
    match stage {
        // Before the next attempt everything is opened anew.
        Some(Stage::Released) => granted.waiting_for(WaitingFor::Prepared),
        // As in [`Operation::give_up`].
        Some(Stage::Failed(why)) => {
            operation.raise(reason::HOLD_FAILED).saying(format!("new connections can't be held: {why}"))
        }
        // Not begun: the controller grants anew, with a drain.
        Some(Stage::Prepared(ports)) if *ports > 0 && operation.grant.unless_serving => {
            operation.raise(reason::CONTAINER_SERVES).saying(CONTAINER_SERVES)
        }
        Some(Stage::Prepared(0)) => leave::operate(operation),
        Some(Stage::Prepared(_)) => start(operation, granted),
        // What the API server's speed is can be asked meanwhile.
        Some(Stage::Settling(_) | Stage::Settled(_)) | None if is_asked(operation) => {
            granted.waiting_for(WaitingFor::Prepared)
        }
        Some(Stage::Settling(_) | Stage::Settled(_)) | None => {
            granted.waiting_for(WaitingFor::Prepared).doing(Action::FetchPod)
        }
    }
}

/// Everything is open: new connections are held if the image patch is likely to follow soon.
fn start(operation: &Operation<'_>, granted: Decision) -> Decision {
    match operation.memory.round_trip.filter(|_| is_asked(operation)) {
        None => granted.doing(Action::FetchPod),
        Some(answer) if answer.milliseconds > SLOW_MILLISECONDS => {
            let waiting = granted.waiting_for(WaitingFor::Api(answer.milliseconds));
            waiting.waking_at(after(operation.not_after_now(answer.at), ANSWER_LASTS))
        }
        Some(_) => held(operation, Decision::at(Phase::Holding)),
    }
}

/// The API server has answered a question just now.
fn is_asked(operation: &Operation<'_>) -> bool {
    let answer = operation.memory.round_trip;
    answer.is_some_and(|answer| answer.at <= operation.now && operation.now < after(answer.at, ANSWER_LASTS))
}

fn held(operation: &Operation<'_>, decision: Decision) -> Decision {
    decision.holding(Hold::Begin(Direction::Forward)).waking_at(after(operation.now, GLANCE))
}

/// The image patch was sent: it may be carried out at any time, answered or not.
fn is_sent(operation: &Operation<'_>) -> bool {
    operation.memory.operated.is_some()
}

/// How long requests in flight are waited for before a Hold, with nobody held, in seconds: as long as those who stay may in a drain. Where
/// there is another way than a Hold, that is taken.
pub(crate) fn patience_seconds(grant: &Grant) -> u32 {
    let DrainSpec { straggler_after_seconds, stragglers, deadline_seconds, .. } = grant.drain;
    match stragglers {
        _ if grant.unless_in_flight || grant.mode == GrantMode::Leave => 0,
        StragglerPolicy::Close | StragglerPolicy::Destroy => straggler_after_seconds.min(deadline_seconds),
        StragglerPolicy::Wait | StragglerPolicy::Abort => deadline_seconds,
    }
}

/// Requests in flight may have been waited for for long, and what was true when that began is true no more.
fn has_changed(operation: &Operation<'_>) -> Option<Decision> {
    if is_sent(operation) {
        return None;
    }
    // The wait is the grant's own, and takes nothing of its time.
    if operation.now > after_seconds(operation.expiry(), patience_seconds(operation.grant)) {
        return Some(reason::expired());
    }
    let answer = operation.memory.round_trip?;
    let age = operation.now.duration_since(operation.not_after_now(answer.at)).as_millis();
    let milliseconds = answer.milliseconds.max(u32::try_from(age).unwrap_or(u32::MAX));
    let is_slow = answer.milliseconds > SLOW_MILLISECONDS || age > ANSWERED_LATELY.as_millis();
    let waiting = || Decision::at(Phase::Granted).waiting_for(WaitingFor::Api(milliseconds));
    // Clients are let in, and everything is opened anew.
    is_slow.then(|| waiting().waking_at(after(operation.now, ANSWER_LASTS)))
}

/// Everything that was in flight has been answered, or has had its time.
fn settled(operation: &Operation<'_>, left: u32) -> Decision {
    if left > 0 && operation.grant.unless_in_flight {
        return operation.raise(reason::STILL_IN_FLIGHT).saying(STILL_IN_FLIGHT);
    }
    if left > 0 && operation.grant.drain.stragglers == StragglerPolicy::Abort {
        let message = format!("{left} connections had a request in flight for longer than clients can be held");
        return operation.give_up("DeadlineAborted", message);
    }
    if next_attempt(operation).is_some_and(|at| at > operation.now) || !operation.deed().is_as_granted(operation.pod) {
        // Let in meanwhile.
        return begin(operation, None);
    }
    if let Some(changed) = has_changed(operation) {
        return changed;
    }
    leave::operate(operation).holding(Hold::Begin(Direction::Forward))
}

/// When the next Hold may begin, after one that had to end before the image patch.
fn next_attempt(operation: &Operation<'_>) -> Option<Timestamp> {
    let memory = operation.memory;
    let failed = memory.hold_failed.map(|at| after_seconds(operation.not_after_now(at), BETWEEN_ATTEMPTS_SECONDS));
    let denied = memory.denied.as_ref().filter(|denied| {
        denied.action == Action::Patch(Direction::Forward)
            && denied.reason != "PatchConflict"
            && denied.last >= after(denied.since, LAG)
    });
    failed.max(denied.map(|denied| after(operation.not_after_now(denied.last), AFTER_DENIAL)))
}

/// How far the Hold for this direction is, if there is one.
fn stage<'a>(operation: &Operation<'a>, direction: Direction) -> Option<&'a Stage> {
    match operation.observation {
        Observation::Held(held) if held.direction == direction => Some(&held.stage),
        Observation::Held(_) | Observation::None | Observation::Failed(_) | Observation::Counted(_) => None,
    }
}
