//! Out of service, until the pod's connections are gone; then the image patch.

use hitless_api::{Grant, HookTime, Outcome, Phase, StragglerPolicy};
use jiff::Timestamp;

use super::case::{Case, names};
use super::hooks::{self, Step};
use super::{Action, Decision, WaitingFor, Watch, returned};
use crate::instant::after_seconds;
use crate::view::Observation;

/// The pod has the images before the operation, and nothing was undone.
pub(super) fn decide(case: &Case<'_>) -> Decision {
    if let Some(cancel) = &case.grant.cancel {
        return cancelled(case, &cancel.reason);
    }
    match case.lowered() {
        None => lower(case),
        Some(lowered) if case.pod.ready() => leaving(case, lowered),
        Some(lowered) => draining(case, lowered),
    }
}

/// Cancelled before the containers were touched. The pod is raised even where nobody has lowered it as far as can be seen: that
/// makes a lowering fail that is still on its way, from this process or from one that was killed, and that would otherwise
/// take the pod out of service after its place was freed.
pub(super) fn cancelled(case: &Case<'_>, reason: &str) -> Decision {
    if !case.pod.gated {
        return Decision::end(Phase::Granted, Outcome::Cancelled, reason);
    }
    let mark = if case.lowered().is_some() { returned::CANCELLED } else { returned::NEVER_BEGUN };
    case.raise(mark).saying("cancelled before the containers were touched")
}

fn lower(case: &Case<'_>) -> Decision {
    // As after a cancel, a lowering may still be on its way. Also after one that somebody else has undone: the budget was never asked for a pod that takes traffic.
    if case.grant.while_unavailable && case.pod.available() {
        return case.raise(returned::AVAILABLE);
    }
    if let Some(denied) = case.denied(&Action::Lower) {
        return Decision::refused(denied.reason, &denied.words);
    }
    if let Some(decision) = hooks::before(case, Decision::at(Phase::Leaving)) {
        return decision;
    }
    // Somebody keeps raising what this grant has lowered.
    let grant = case.grant;
    let begin = grant.ttl_seconds.saturating_add(Grant::CLOCK_SKEW_SECONDS);
    let begin = begin.saturating_add(hooks::seconds_before(case));
    if case.now > after_seconds(grant.granted.0, begin.saturating_add(grant.drain.deadline_seconds)) {
        return Decision::end(Phase::Leaving, Outcome::Failed, "InServiceOverridden")
            .saying("InService was raised by somebody else");
    }
    case.doing(Decision::at(Phase::Leaving).watching(Watch::Leaving), Action::Lower)
}

/// InService is False, the kubelet has not followed.
fn leaving(case: &Case<'_>, lowered: Timestamp) -> Decision {
    let deadline = after_seconds(lowered, case.grant.drain.deadline_seconds);
    if case.now >= deadline {
        return case.give_up("NotLeaving", "the kubelet has not lowered Ready; is it running?");
    }
    Decision::at(Phase::Leaving).waiting_for(WaitingFor::NotReady).until(deadline).watching(Watch::Leaving)
}

/// The endpoint is going or gone.
fn draining(case: &Case<'_>, lowered: Timestamp) -> Decision {
    let drain = &case.grant.drain;
    let deadline = after_seconds(lowered, drain.deadline_seconds);
    let minimum = after_seconds(case.surely_lowered(lowered), drain.min_seconds).min(deadline);
    // Its connections were gone once, and what is counted now is the hook's.
    if hooks::called(case, HookTime::AfterDrain) {
        return gone(case, deadline);
    }
    let waiting = Decision::at(Phase::Draining).until(deadline).watching(Watch::Draining);
    if case.now < minimum {
        return waiting.waiting_for(WaitingFor::Minimum(minimum)).waking_at(minimum);
    }
    let waits = match drained(case) {
        Ok(()) => return gone(case, deadline),
        Err(waits) => waits,
    };
    if case.now >= deadline {
        return match drain.stragglers {
            StragglerPolicy::Abort => {
                case.give_up("DeadlineAborted", format!("not drained in time: waited for {}", texts(&waits)))
            }
            StragglerPolicy::Wait | StragglerPolicy::Close | StragglerPolicy::Destroy => gone(case, deadline),
        };
    }
    let straggling = after_seconds(lowered, drain.straggler_after_seconds);
    let counted = matches!(case.observation, Observation::Counted(_));
    if counted && case.now >= straggling {
        match drain.stragglers {
            StragglerPolicy::Close => return gone(case, deadline),
            StragglerPolicy::Destroy if is_empty(case) => return gone(case, deadline),
            StragglerPolicy::Destroy | StragglerPolicy::Wait | StragglerPolicy::Abort => {}
        }
    }
    let message = match case.observation {
        Observation::Failed(why) => format!("the connections can't be counted, so the deadline decides: {why}"),
        Observation::None | Observation::Counted(_) | Observation::Held(_) => String::new(),
    };
    let waiting = match drain.stragglers {
        _ if case.now < straggling => waiting.waking_at(straggling),
        StragglerPolicy::Destroy => waiting.watching(Watch::Destroying),
        StragglerPolicy::Close | StragglerPolicy::Wait | StragglerPolicy::Abort => waiting,
    };
    waits.into_iter().fold(waiting, Decision::waiting_for).saying(message)
}

/// Nobody is waited for any more: the hooks, then the image patch. Nothing is closed meanwhile: it could be the hook's connection.
fn gone(case: &Case<'_>, deadline: Timestamp) -> Decision {
    if !case.any_runs() {
        return operate(case);
    }
    match hooks::step(case, HookTime::AfterDrain, deadline) {
        Step::Over => operate(case),
        Step::Waits(wait) => wait.put(Decision::at(Phase::Draining).watching(Watch::Leaving)),
        Step::Failed(words) => case.give_up(hooks::FAILED, words),
        Step::Refused(words) => case.give_up(hooks::REFUSED, words),
    }
}

/// Whether everybody is gone, else what there is to wait for.
fn drained(case: &Case<'_>) -> Result<(), Vec<WaitingFor>> {
    if !case.any_runs() {
        // Nobody can have a connection to a container that does not run.
        return Ok(());
    }
    match case.observation {
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
fn is_empty(case: &Case<'_>) -> bool {
    matches!(case.observation, Observation::Counted(count) if count.is_empty())
}

/// The image patch, whatever is still open.
pub(super) fn operate(case: &Case<'_>) -> Decision {
    if let Some(denied) = case.denied(&Action::Operate) {
        return case.give_up(denied.reason, &denied.words);
    }
    let message = format!("replacing {}", names(case.containers()));
    case.doing(Decision::at(Phase::Operating).saying(message), Action::Operate).replacing(case)
}

fn texts(waits: &[WaitingFor]) -> String {
    waits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}
