//! Which hook is to be called now, and what follows from the answers so far.

use hitless_api::{Hook, HookTime};
use jiff::Timestamp;

use super::operation::Operation;
use super::reason;
use crate::decision::{Decision, WaitingFor};
use crate::hooks::called::{Ask, End, State, deadline};
use crate::hooks::task::Word;
use crate::instant::after_seconds;

/// Reason of an operation that ended because a hook has failed.
pub(super) const FAILED: &str = "HookFailed";

/// Reason of an operation that ended because a hook said never, and it was too late for nothing to be touched.
pub(super) const REFUSED: &str = "HookRefused";

/// What follows from the hooks of one moment.
pub(super) enum Step {
    /// Nothing: go on.
    Over,
    /// This one is waited for.
    Waits(Wait),
    /// One has failed; which, and what it said.
    Failed(String),
    /// One says never; which, and what it said.
    Refused(String),
}

/// A hook that is waited for.
pub(super) struct Wait {
    /// The call to be made, if it is time.
    ask: Option<Ask>,
    until: Timestamp,
    deadline: Timestamp,
    waiting_for: WaitingFor,
}

impl Wait {
    /// The decision to wait.
    pub(super) fn put(self, decision: Decision) -> Decision {
        let message = self.waiting_for.to_string();
        let decision = decision.saying(message).waiting_for(self.waiting_for).until(self.deadline);
        Decision { hook: self.ask, ..decision.waking_at(self.until) }
    }
}

/// How long the application may be waited for before anything is done, in seconds.
pub(super) fn seconds_before(operation: &Operation<'_>) -> u32 {
    let before = operation.grant.hooks.iter().filter(|hook| hook.when == HookTime::BeforeDrain);
    let task = operation.memory.task_since.map_or(0, |_| Hook::DEFAULT_DEADLINE_SECONDS);
    before.map(|hook| hook.deadline_seconds).fold(task, u32::saturating_add)
}

/// Whether a hook of this moment has been called.
pub(super) fn called(operation: &Operation<'_>, when: HookTime) -> bool {
    let is_called = |hook: &Hook| operation.memory.hooks.contains_key(&hook.name) || is_done(operation, hook);
    operation.grant.hooks.iter().any(|hook| hook.when == when && is_called(hook))
}

fn is_done(operation: &Operation<'_>, hook: &Hook) -> bool {
    operation.reported.is_some_and(|reported| reported.hooks_done.contains(&hook.name))
}

/// The hooks of one moment, one after another. `end` is when the phase that they are called in ends.
pub(super) fn step(operation: &Operation<'_>, when: HookTime, end: Timestamp) -> Step {
    for hook in operation.grant.hooks.iter().filter(|hook| hook.when == when && !is_done(operation, hook)) {
        let name = &hook.name;
        let Some(called) = operation.memory.hooks.get(name) else {
            let deadline = deadline(hook, end, operation.now);
            let ask = Ask { name: name.clone(), when, attempt: 1, deadline };
            let waiting_for = WaitingFor::Hook { name: name.clone(), words: "to answer".to_owned() };
            return Step::Waits(Wait { ask: Some(ask), until: deadline, deadline, waiting_for });
        };
        let said = if called.output.is_empty() { String::new() } else { format!(": {}", called.output) };
        let (ask, until, words) = match called.state(hook, operation.now) {
            State::Over(End::Done | End::Ignored) => continue,
            State::Over(End::Failed) => return Step::Failed(format!("hook {name} has failed{said}")),
            State::Over(End::Refused) => return Step::Refused(format!("hook {name} says never{said}")),
            State::Due => (Some(Ask { when, ..called.ask(name) }), called.deadline, format!("to answer{said}")),
            State::Waits(next) => {
                let word = if called.failures > 0 { "failed" } else { "says not yet" };
                (None, next, format!("that {word}; it is called again at {next}{said}"))
            }
        };
        let waiting_for = WaitingFor::Hook { name: name.clone(), words };
        return Step::Waits(Wait { ask, until, deadline: called.deadline, waiting_for });
    }
    Step::Over
}

/// The hooks that are called before anything is done; `None` once they let it begin. `waiting` is the decision to wait.
pub(super) fn before(operation: &Operation<'_>, waiting: Decision) -> Option<Decision> {
    // Of a container that does not run nobody can be asked, and it may be what is to be mended.
    if !operation.any_runs() {
        return None;
    }
    let end = after_seconds(operation.expiry(), seconds_before(operation));
    let task = task(operation);
    let step = if matches!(task, Step::Over) { step(operation, HookTime::BeforeDrain, end) } else { task };
    // Both ends write the condition: as after a cancel, something may still be on its way.
    match step {
        Step::Over => None,
        Step::Waits(wait) => Some(wait.put(waiting)),
        Step::Failed(words) => Some(operation.raise(FAILED).saying(words)),
        Step::Refused(words) => Some(operation.raise(reason::REFUSED).saying(words)),
    }
}

/// What the application has said by itself, which is answered to as a hook's answer is. Its owner may have taken the permission away
/// since.
fn task(operation: &Operation<'_>) -> Step {
    let Some(saying) = operation.memory.saying.as_ref().filter(|_| operation.pod.may_refuse()) else {
        return Step::Over;
    };
    let said = if saying.message.is_empty() { String::new() } else { format!(": {}", saying.message) };
    let since = operation.memory.task_since.map_or(operation.now, |since| operation.not_after_now(since));
    let deadline = after_seconds(since, Hook::DEFAULT_DEADLINE_SECONDS);
    match saying.task {
        Word::Never => Step::Refused(format!("the application says never{said}")),
        Word::NotYet if operation.now >= saying.until => Step::Over,
        Word::NotYet if operation.now >= deadline => {
            let seconds = Hook::DEFAULT_DEADLINE_SECONDS;
            Step::Failed(format!("the application has said not yet for {seconds} s{said}"))
        }
        Word::NotYet => {
            let waiting_for = WaitingFor::Task(format!("not yet, until {}{said}", saying.until));
            Step::Waits(Wait { ask: None, until: saying.until, deadline, waiting_for })
        }
    }
}

/// Why the operation ended as it did, if a hook was the reason: the words are lost with the decision that raised InService.
pub(super) fn last_words(operation: &Operation<'_>) -> String {
    let words = |hook: &Hook| match operation
        .memory
        .hooks
        .get(&hook.name)
        .map(|called| (called, called.state(hook, operation.now)))
    {
        Some((called, State::Over(End::Failed))) => Some(format!("hook {} has failed: {}", hook.name, called.output)),
        Some((called, State::Over(End::Refused))) => Some(format!("hook {} says never: {}", hook.name, called.output)),
        Some((_, State::Over(End::Done | End::Ignored) | State::Due | State::Waits(_))) | None => None,
    };
    let task = || match task(operation) {
        Step::Failed(words) | Step::Refused(words) => Some(words),
        Step::Over | Step::Waits(_) => None,
    };
    operation.grant.hooks.iter().find_map(words).or_else(task).unwrap_or_default()
}
