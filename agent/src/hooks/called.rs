//! How far a hook is, from its calls so far.

use std::time::Duration;

use hitless_api::{Hook, HookFailurePolicy, HookReport, HookTime};
use hitless_runtime::backoff::Backoff;
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Verdict};
use crate::instant::{after, after_seconds};

/// Before a call that failed is repeated.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// A call that is to be made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Name of the hook.
    pub name: String,
    /// Its moment.
    pub when: HookTime,
    /// Which of its calls, from 1.
    pub attempt: u32,
    /// When the hook has failed, whatever it answers.
    pub deadline: Timestamp,
}

/// A hook that was called. May be lost at any time: then it is called again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Its moment.
    pub when: HookTime,
    /// When it was to be called first.
    pub since: Timestamp,
    /// When it has failed, whatever it answers.
    pub deadline: Timestamp,
    /// Calls that have ended.
    pub attempts: u32,
    /// How many of the last ones failed, one after another.
    pub failures: u32,
    /// When the last one ended, and what it said.
    pub last: Option<(Timestamp, Verdict)>,
    /// How long all of them took, in milliseconds.
    pub milliseconds: u32,
    /// The end of what the last one said.
    pub output: String,
}

/// How a hook ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It says go.
    Done,
    /// It failed, and that is ignored.
    Ignored,
    /// It failed.
    Failed,
    /// It says never.
    Refused,
}

/// What there is to do for a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is to be called, or a call is under way.
    Due,
    /// It is called again then.
    Waits(Timestamp),
    /// Nothing any more.
    Over(End),
}

impl Called {
    /// It is asked for the first time.
    #[must_use]
    pub fn new(ask: &Ask, now: Timestamp) -> Self {
        let Ask { when, deadline, .. } = *ask;
        let (attempts, failures, milliseconds) = (0, 0, 0);
        Self { when, since: now, deadline, attempts, failures, last: None, milliseconds, output: String::new() }
    }

    /// A call has ended. One that was asked for earlier says nothing.
    pub fn answered(&mut self, attempt: u32, answer: Answer, now: Timestamp) {
        if attempt != self.attempts.saturating_add(1) {
            return;
        }
        if now < self.since {
            // The clock was set back; the wait is to end all the same.
            let length = self.deadline.duration_since(self.since);
            (self.since, self.deadline) = (now, after(now, length));
        }
        self.attempts = attempt;
        self.failures = if answer.verdict == Verdict::Failed { self.failures.saturating_add(1) } else { 0 };
        self.milliseconds = self.milliseconds.saturating_add(answer.milliseconds);
        self.last = Some((now, answer.verdict));
        self.output = tail(answer.output, HookReport::LONGEST_OUTPUT);
    }

    /// What there is to do.
    #[must_use]
    pub fn state(&self, hook: &Hook, now: Timestamp) -> State {
        let failed = match hook.failure_policy {
            HookFailurePolicy::Fail => End::Failed,
            HookFailurePolicy::Ignore => End::Ignored,
        };
        let next = match self.last {
            Some((_, Verdict::Go)) => return State::Over(End::Done),
            Some((_, Verdict::Never)) => return State::Over(End::Refused),
            Some((_, Verdict::Failed)) if self.failures > hook.retries => return State::Over(failed),
            Some((at, Verdict::NotYet { retry_after_seconds })) => after_seconds(at, retry_after_seconds),
            Some((at, Verdict::Failed)) => {
                after(at, SignedDuration::try_from(BACKOFF.delay(self.failures)).unwrap_or(SignedDuration::MAX))
            }
            None => self.since,
        };
        if now >= self.deadline {
            State::Over(failed)
        } else if now < next && now >= self.since {
            State::Waits(next)
        } else {
            State::Due
        }
    }

    /// The call to be made now.
    #[must_use]
    pub fn ask(&self, name: &str) -> Ask {
        let Self { when, deadline, .. } = *self;
        Ask { name: name.to_owned(), when, attempt: self.attempts.saturating_add(1), deadline }
    }
}

/// When a hook that is called now has failed, whatever it answers: at the end of its own time or of that of its `phase`, but not
/// before one call could have been answered.
#[must_use]
pub fn deadline(hook: &Hook, phase: Timestamp, now: Timestamp) -> Timestamp {
    // A second for everything but the call itself.
    let once = after(after_seconds(now, hook.timeout_seconds), SignedDuration::from_secs(1));
    after_seconds(now, hook.deadline_seconds).min(phase.max(once))
}

/// The end of a text, at most so many bytes.
#[must_use]
pub fn tail(mut text: String, most: usize) -> String {
    if let Some(cut) = text.len().checked_sub(most).filter(|cut| *cut > 0) {
        let start = (cut..=text.len()).find(|&start| text.is_char_boundary(start)).unwrap_or_default();
        text.drain(..start);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hook() -> Hook {
        let hook = json!({"name": "ask", "when": "BeforeDrain", "http": {"port": 80, "path": "/"}, "retries": 2});
        serde_json::from_value(hook).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        after("2026-01-01T00:00:00Z".parse().unwrap(), SignedDuration::from_secs(seconds))
    }

    fn called(hook: &Hook) -> Called {
        let deadline = deadline(hook, Timestamp::MAX, at(0));
        Called::new(&Ask { name: hook.name.clone(), when: hook.when, attempt: 1, deadline }, at(0))
    }

    fn answer(verdict: Verdict) -> Answer {
        Answer { verdict, milliseconds: 10, output: "words".into() }
    }

    #[test]
    fn a_call_that_fails_is_repeated_after_longer_and_longer_pauses_and_then_has_failed() {
        let hook = hook();
        let mut called = called(&hook);
        assert_eq!(called.state(&hook, at(0)), State::Due);
        called.answered(1, answer(Verdict::Failed), at(5));
        assert_eq!(called.state(&hook, at(5)), State::Waits(at(6)));
        assert_eq!(called.state(&hook, at(6)), State::Due);
        assert_eq!(called.ask("ask").attempt, 2);
        called.answered(1, answer(Verdict::Go), at(6));
        assert_eq!(called.state(&hook, at(6)), State::Due, "an answer that comes twice counts once");
        called.answered(2, answer(Verdict::Failed), at(7));
        assert_eq!(called.state(&hook, at(7)), State::Waits(at(9)));
        called.answered(3, answer(Verdict::Failed), at(10));
        assert_eq!(called.state(&hook, at(10)), State::Over(End::Failed));
        assert_eq!((called.attempts, called.milliseconds, called.output.as_str()), (3, 30, "words"));
        let ignored = Hook { failure_policy: HookFailurePolicy::Ignore, ..hook };
        assert_eq!(called.state(&ignored, at(10)), State::Over(End::Ignored));
    }

    #[test]
    fn not_yet_is_asked_again_when_it_says_and_no_failure_but_does_not_last_for_ever() {
        let hook = hook();
        let mut called = called(&hook);
        called.answered(1, answer(Verdict::Failed), at(1));
        called.answered(2, answer(Verdict::Failed), at(3));
        for attempt in 3..20 {
            let asked = i64::from(attempt) * 30;
            called.answered(attempt, answer(Verdict::NotYet { retry_after_seconds: 30 }), at(asked));
            assert_eq!(called.state(&hook, at(asked + 29)), State::Waits(at(asked + 30)), "{attempt}");
            assert_eq!(
                called.state(&hook, at(asked + 30)),
                if attempt < 19 { State::Due } else { State::Over(End::Failed) }
            );
        }
        let mut patient = called.clone();
        patient.answered(20, answer(Verdict::Go), at(601));
        assert_eq!(patient.state(&hook, at(602)), State::Over(End::Done));
    }

    #[test]
    fn never_is_the_last_word_whatever_the_policy_says() {
        let hook = Hook { failure_policy: HookFailurePolicy::Ignore, ..hook() };
        let mut called = called(&hook);
        called.answered(1, answer(Verdict::Never), at(1));
        assert_eq!(called.state(&hook, at(9999)), State::Over(End::Refused));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_wait_longer() {
        let hook = hook();
        let mut called = called(&hook);
        called.answered(1, answer(Verdict::NotYet { retry_after_seconds: 30 }), at(10));
        assert_eq!(called.state(&hook, at(-5000)), State::Due);
        called.answered(2, answer(Verdict::NotYet { retry_after_seconds: 30 }), at(-5000));
        assert_eq!(called.state(&hook, at(-4990)), State::Waits(at(-4970)));
        assert_eq!(called.state(&hook, at(-4400)), State::Over(End::Failed));
    }

    #[test]
    fn a_hook_ends_with_its_phase_but_gets_one_call() {
        let hook = hook();
        assert_eq!(deadline(&hook, at(10_000), at(0)), at(600), "its own time");
        assert_eq!(deadline(&hook, at(60), at(0)), at(60), "that of the phase");
        assert_eq!(deadline(&hook, at(-60), at(0)), at(6), "one call");
    }

    #[test]
    fn the_end_of_a_long_output_is_kept_between_characters() {
        assert_eq!(tail("äbcä".into(), 3), "cä");
        assert_eq!(tail("äbcä".into(), 5), "bcä".to_owned());
        assert_eq!(tail("abc".into(), 3), "abc");
    }
}
