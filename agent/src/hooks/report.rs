//! What is told of hooks in the report of an operation.

use std::collections::BTreeMap;

use hitless_api::{Grant, HookOutcome, HookReport, Transition};
use jiff::Timestamp;

use super::answer::Verdict;
use super::called::{Called, End, State};

/// Names of the hooks that are over and not called again, and what was said by all that were called. What this process does not
/// remember stands in what is `stored`.
#[must_use]
pub fn report(
    grant: &Grant,
    called: &BTreeMap<String, Called>,
    stored: Option<&Transition>,
    now: Timestamp,
) -> (Vec<String>, Vec<HookReport>) {
    let (mut done, mut reports) = (Vec::new(), Vec::new());
    for hook in &grant.hooks {
        let is_known_done = stored.is_some_and(|stored| stored.hooks_done.contains(&hook.name));
        let known = called.get(&hook.name).map(|called| (called, called.state(hook, now)));
        if is_known_done || matches!(known, Some((_, State::Over(End::Done | End::Ignored)))) {
            done.push(hook.name.clone());
        }
        let report = match known {
            Some((called, state)) if !is_known_done => Some(of(&hook.name, called, state)),
            Some(_) | None => {
                stored.and_then(|stored| stored.hooks.iter().find(|each| each.name == hook.name).cloned())
            }
        };
        reports.extend(report);
    }
    (done, reports)
}

fn of(name: &str, called: &Called, state: State) -> HookReport {
    let outcome = match (state, called.last) {
        (State::Over(End::Done), _) => HookOutcome::Done,
        (State::Over(End::Ignored), _) => HookOutcome::Ignored,
        (State::Over(End::Failed), _) => HookOutcome::Failed,
        (State::Over(End::Refused), _) => HookOutcome::Refused,
        (State::Due | State::Waits(_), Some((_, Verdict::NotYet { .. }))) => HookOutcome::NotYet,
        (State::Due | State::Waits(_), Some((_, Verdict::Go | Verdict::Never | Verdict::Failed)) | None) => {
            HookOutcome::Calling
        }
    };
    HookReport {
        name: name.to_owned(),
        outcome,
        attempts: called.attempts,
        milliseconds: called.milliseconds,
        output: called.output.clone(),
    }
}
