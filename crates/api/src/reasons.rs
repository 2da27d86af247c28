//! Every reason that hitless gives, what it means and what to do: the one source of `kubectl hitless explain`, of docs/reasons.md, and of the
//! label values that metrics have from the start.

mod changes;
mod events;
mod modes;
mod results;
mod waits;

use crate::Outcome;

/// A reason that hitless gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// In CamelCase.
    pub name: &'static str,
    /// What is so, a clause.
    pub means: &'static str,
    /// What to do, a clause.
    pub act: &'static str,
}

/// What a reason is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A pod waits: `status`, `why`, `wait`, and the metric `hitless_waiting_pods`.
    Wait,
    /// A change is left to the native controller, or refused.
    Change,
    /// A pod leaves service, or is held: `why` and `plan`.
    Mode,
    /// An operation has ended so: `status`, and the metric `hitless_transitions_ended_total`.
    Result(Outcome),
    /// An Event.
    Event,
}

/// What a reason that the program does not know by name counts as in metrics.
pub const OTHER: &str = "Other";

impl Reason {
    const fn new(name: &'static str, means: &'static str, act: &'static str) -> Self {
        Self { name, means, act }
    }
}

impl Topic {
    /// For people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Wait => "a pod waits",
            Self::Change => "a change is not made in place",
            Self::Mode => "how a pod goes",
            Self::Result(Outcome::Done) => "an operation is done",
            Self::Result(Outcome::RolledBack) => "an operation was rolled back",
            Self::Result(Outcome::Cancelled) => "an operation was cancelled",
            Self::Result(Outcome::Refused) => "an operation was refused",
            Self::Result(Outcome::Failed) => "an operation has failed",
            Self::Event => "an Event",
        }
    }
}

/// All of them, by what they are given for.
pub fn all() -> impl Iterator<Item = (Topic, &'static Reason)> {
    let plain = [(Topic::Wait, waits::ALL), (Topic::Change, changes::ALL), (Topic::Mode, modes::ALL)];
    let plain = plain.into_iter().flat_map(|(topic, all)| all.iter().map(move |reason| (topic, reason)));
    let results = results::ALL.iter().map(|(outcome, reason)| (Topic::Result(*outcome), reason));
    plain.chain(results).chain(events::ALL.iter().map(|reason| (Topic::Event, reason)))
}

/// What pods wait for.
pub fn waits() -> impl Iterator<Item = &'static str> {
    waits::ALL.iter().map(|reason| reason.name)
}

/// How operations end: outcome, and reason or [`OTHER`]. A cancelled one has no reason: that is the controller's.
pub fn results() -> impl Iterator<Item = (Outcome, &'static str)> {
    let named = results::ALL.iter().map(|(outcome, reason)| (*outcome, reason.name));
    let other = [Outcome::Done, Outcome::RolledBack, Outcome::Refused, Outcome::Failed].map(|outcome| (outcome, OTHER));
    named.chain(other).chain([(Outcome::Cancelled, "")])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_is_there_once_for_a_topic_and_says_what_it_means_and_what_to_do() {
        let mut seen = BTreeSet::new();
        for (topic, Reason { name, means, act }) in all() {
            assert!(seen.insert((topic.title(), name)), "{name} is there twice");
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric()) && name.starts_with(char::is_uppercase));
            assert!(means.len() > 10 && !act.is_empty() && !means.ends_with('.') && !act.ends_with('.'), "{name}");
        }
        assert!(seen.len() > 150, "{}", seen.len());
    }

    #[test]
    fn metrics_have_each_pair_once() {
        let all: Vec<_> = results().map(|(outcome, reason)| (format!("{outcome:?}"), reason)).collect();
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), unique.len());
        assert!(unique.contains(&("Failed".to_owned(), OTHER)) && unique.contains(&("Cancelled".to_owned(), "")));
    }
}
