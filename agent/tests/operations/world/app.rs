//! The application: what it answers when its hooks are called.

use std::collections::BTreeMap;

use hitless_agent::hooks::answer::{Answer, Verdict};
use hitless_agent::hooks::called::Ask;
use hitless_agent::hooks::task::Saying;
use jiff::{SignedDuration, Timestamp};

/// A call that the application has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) hook: String,
    pub(crate) at: Timestamp,
    pub(crate) in_service: bool,
    pub(crate) image: String,
}

#[derive(Default)]
pub(crate) struct App {
    /// By name of the hook: what its calls lead to, one after another, the last one again and again. `None`: no answer.
    pub(crate) answers: BTreeMap<&'static str, Vec<Option<Verdict>>>,
    /// How long an answer takes, in milliseconds.
    pub(crate) takes: i64,
    pub(crate) received: Vec<Received>,
    /// What it says by itself.
    pub(crate) saying: Option<Saying>,
    running: Option<(Ask, Timestamp, Option<Verdict>)>,
}

impl App {
    /// The agent that called is gone.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Who is to be called now; `pod` is whether it is in service, and its image.
    pub(crate) fn order(&mut self, ask: Option<&Ask>, pod: (bool, &str), now: Timestamp) {
        let is_same = |(running, _, _): &(Ask, Timestamp, Option<Verdict>)| {
            ask.is_some_and(|ask| (&ask.name, ask.attempt) == (&running.name, running.attempt))
        };
        if self.running.as_ref().is_some_and(is_same) {
            return;
        }
        self.running = ask.map(|ask| {
            let before = self.received.iter().filter(|call| call.hook == ask.name).count();
            let answers = &self.answers[ask.name.as_str()];
            let (in_service, image) = (pod.0, pod.1.to_owned());
            self.received.push(Received { hook: ask.name.clone(), at: now, in_service, image });
            let end = now.checked_add(SignedDuration::from_millis(self.takes)).unwrap();
            (ask.clone(), end, answers[before.min(answers.len() - 1)])
        });
    }

    /// When the next answer comes.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.running.as_ref().filter(|(_, _, answer)| answer.is_some()).map(|(_, end, _)| *end)
    }

    /// An answer that has come.
    pub(crate) fn reply(&mut self, now: Timestamp) -> Option<(Ask, Answer)> {
        let (ask, verdict) = match &self.running {
            Some((ask, end, Some(verdict))) if *end <= now => (ask.clone(), *verdict),
            Some(_) | None => return None,
        };
        self.running = None;
        let milliseconds = u32::try_from(self.takes).unwrap();
        Some((ask, Answer { verdict, milliseconds, output: format!("{verdict:?}") }))
    }

    /// Names of the hooks that were called, one for each call.
    pub(crate) fn calls(&self) -> Vec<&str> {
        self.received.iter().map(|call| call.hook.as_str()).collect()
    }
}
