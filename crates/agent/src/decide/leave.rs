//! Out of service, until the pod's connections are gone; then the image patch.

use hitless_api::{Grant, Outcome, Phase, StragglerPolicy};
use jiff::Timestamp;

use super::case::{Case, names, runs};
use super::{Action, Decision, WaitingFor, Watch};
use crate::instant::after_seconds;
use crate::view::Observation;

/// The pod has the images before the operation, and nothing was undone.
pub(super) fn decide(case: &Case<'_>) -> Decision {
    if let Some(cancel) = &case.grant.cancel {
        // What may have been lowered is raised: that also makes a request fail that is still on its way.
        return if case.lowered().is_some() || case.may_be_lowered() {
            case.raise(super::returned::CANCELLED).saying("cancelled before the containers were touched")
        } else {
            Decision::end(Phase::Granted, Outcome::Cancelled, cancel.reason.clone())
        };
    }
    match case.lowered() {
        None => lower(case),
        Some(lowered) if case.pod.ready() => leaving(case, lowered),
        Some(lowered) => draining(case, lowered),
    }
}

fn lower(case: &Case<'_>) -> Decision {
    // Also after a lowering that somebody else has undone: the budget was never asked for a pod that takes traffic.
    if case.grant.while_unavailable && case.pod.available() {
        return Decision::refused(
            "PodAvailable",
            "granted because the pod was unavailable, but it is Ready now; the controller asks the rules again",
        );
    }
    if let Some(denied) = case.denied(&Action::Lower) {
        return Decision::refused(denied.reason, &denied.words);
    }
    // Somebody keeps raising what this grant has lowered.
    let grant = case.grant;
    let begin = grant.ttl_seconds.saturating_add(Grant::CLOCK_SKEW_SECONDS);
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
    let waiting = Decision::at(Phase::Draining).until(deadline).watching(Watch::Draining);
    if case.now < minimum {
        return waiting.waiting_for(WaitingFor::Minimum(minimum)).waking_at(minimum);
    }
    let waits = match drained(case) {
        Ok(()) => return operate(case),
        Err(waits) => waits,
    };
    if case.now >= deadline {
        return match drain.stragglers {
            StragglerPolicy::Abort => {
                case.give_up("DeadlineAborted", format!("not drained in time: waited for {}", texts(&waits)))
            }
            StragglerPolicy::Wait | StragglerPolicy::Close | StragglerPolicy::Destroy => operate(case),
        };
    }
    let straggling = after_seconds(lowered, drain.straggler_after_seconds);
    let counted = matches!(case.observation, Observation::Counted(_));
    if counted && drain.stragglers == StragglerPolicy::Close && case.now >= straggling {
        return operate(case);
    }
    let message = match case.observation {
        Observation::Failed(why) => format!("the connections can't be counted, so the deadline decides: {why}"),
        Observation::None | Observation::Counted(_) => String::new(),
    };
    let waiting = if case.now < straggling { waiting.waking_at(straggling) } else { waiting };
    waits.into_iter().fold(waiting, Decision::waiting_for).saying(message)
}

/// Whether everybody is gone, else what there is to wait for.
fn drained(case: &Case<'_>) -> Result<(), Vec<WaitingFor>> {
    if !case.containers().any(|container| container.status.as_ref().is_some_and(runs)) {
        // Nobody can have a connection to a container that does not run.
        return Ok(());
    }
    match case.observation {
        Observation::Counted(count) if count.drained() => Ok(()),
        Observation::Counted(count) => {
            let quiet = (!count.quiet).then_some(WaitingFor::Quiet);
            let connections = (count.inbound > 0).then_some(WaitingFor::Connections(count.inbound));
            Err(quiet.into_iter().chain(connections).collect())
        }
        Observation::Failed(why) => Err(vec![WaitingFor::Count(why.clone())]),
        Observation::None => Err(vec![WaitingFor::Count("not looked yet".to_owned())]),
    }
}

fn operate(case: &Case<'_>) -> Decision {
    if let Some(denied) = case.denied(&Action::Operate) {
        return case.give_up(denied.reason, &denied.words);
    }
    let message = format!("replacing {}", names(case.containers()));
    case.doing(Decision::at(Phase::Operating).saying(message), Action::Operate)
}

fn texts(waits: &[WaitingFor]) -> String {
    waits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}
