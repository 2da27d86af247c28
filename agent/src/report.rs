//! What is written into the NodeTransition's status, and when: what the controller waits for at once, other phases
//! only if they last, numbers seldom.

use std::collections::BTreeMap;

use hitless_api::node_transition::AgentInfo;
use hitless_api::{Grant, MicroTime, NodeTransitionStatus, Outcome, Phase, Propagation, Transition, TransitionResult};
use jiff::{SignedDuration, Timestamp};

use crate::decision::Decision;
use crate::hooks;
use crate::instant::after;
use crate::memory::Memory;
use crate::view::{Count, HoldNumbers, Listening, Losses, Observation, Stage};

/// Longest message, in bytes (the CRD's limit is in characters).
const LONGEST_MESSAGE: usize = 512;
/// What the controller waits for, of several operations within this time, goes into one write.
const ANSWERS_TOGETHER: SignedDuration = SignedDuration::from_millis(100);
/// A phase that is over sooner is never written.
const PHASE_LASTS: SignedDuration = SignedDuration::from_millis(3000);
/// Between two writes that only tell of phases.
const BETWEEN_PHASES: SignedDuration = SignedDuration::from_secs(1);
/// Between two writes that only tell of numbers and messages; the node's endpoint has them at once.
const BETWEEN_NUMBERS: SignedDuration = SignedDuration::from_secs(5);

/// The report of one grant as it should be now.
#[must_use]
pub fn entry(
    grant: &Grant,
    decision: &Decision,
    memory: &Memory,
    observation: &Observation,
    stored: Option<&Transition>,
    now: Timestamp,
) -> Transition {
    if let Some(ended) = stored.filter(|stored| stored.result.is_some()) {
        return ended.clone();
    }
    let same_phase = stored.filter(|stored| stored.phase == decision.phase);
    let remembered = memory.phase.filter(|(phase, _)| *phase == decision.phase).map(|(_, since)| since);
    let since = same_phase.map_or_else(|| remembered.unwrap_or(now), |stored| stored.since.0);
    let count = match observation {
        Observation::Counted(count) => Some(count.inbound),
        Observation::Held(held) => match held.stage {
            Stage::Settling(busy) => Some(busy),
            Stage::Prepared(_) | Stage::Settled(_) | Stage::Released | Stage::Failed(_) => None,
        },
        Observation::None | Observation::Failed(_) => None,
    };
    let (hooks_done, hooks) = hooks::report::report(grant, &memory.hooks, stored, now);
    // Where a port is not listened to again and the pod gets ready all the same, the new version does not open it any more.
    let is_done = decision.result.as_ref().is_some_and(|(outcome, _)| *outcome == Outcome::Done);
    let is_leaving = matches!(decision.phase, Phase::Leaving | Phase::Draining | Phase::Holding | Phase::Settling);
    Transition {
        id: grant.id.clone(),
        granted: grant.granted.clone(),
        phase: decision.phase,
        since: MicroTime(since),
        deadline: decision.deadline.map(MicroTime),
        connections: count.filter(|_| is_leaving),
        gap_milliseconds: gap(memory)
            .or_else(|| gap_to_ready(memory).filter(|_| is_done && memory.held.is_some()))
            .or_else(|| stored.and_then(|stored| stored.gap_milliseconds))
            .filter(|_| !grant.unfetched),
        ready_milliseconds: gap_to_ready(memory)
            .or_else(|| stored.and_then(|stored| stored.ready_milliseconds))
            .filter(|_| !grant.unfetched),
        hooks_done,
        hooks,
        rollback: decision
            .rollback
            .clone()
            .or_else(|| memory.rollback.clone())
            .or_else(|| stored.and_then(|stored| stored.rollback.clone()))
            .map(|reason| bounded(reason, LONGEST_MESSAGE)),
        message: bounded(message(decision, memory), LONGEST_MESSAGE),
        result: decision.result.as_ref().map(|(outcome, reason)| TransitionResult {
            outcome: *outcome,
            reason: bounded(reason.clone(), LONGEST_MESSAGE),
            report: numbers(memory, now),
        }),
    }
}

/// From the image patch until the new processes listen (docs/contract.md#learned-gap); unknown if nobody saw both.
fn gap(memory: &Memory) -> Option<u32> {
    let (operated, listening) = (memory.operated.as_ref()?, memory.listening?);
    u32::try_from(listening.at.duration_since(operated.at).as_millis()).ok()
}

/// The same until the new containers are ready, or had answered before the kubelet asked them.
fn gap_to_ready(memory: &Memory) -> Option<u32> {
    let (operated, ready) = (memory.operated.as_ref()?, memory.ready?);
    let ready = memory.answered.map_or(ready, |answered| answered.min(ready));
    u32::try_from(ready.duration_since(operated.at).as_millis()).ok()
}

/// An operation that was successful all the same may have let clients notice it.
fn message(decision: &Decision, memory: &Memory) -> String {
    let has_expired = decision.result.is_some() && memory.held.is_some_and(|held| held.expired);
    if !has_expired || !decision.message.is_empty() {
        return decision.message.clone();
    }
    let words = "new connections could not be held until the new process listened";
    match &decision.result {
        // Only where the new process came too late would a longer hold have helped.
        Some((Outcome::Done, _)) => format!("{words}: see holdCapMilliseconds"),
        Some(_) | None => words.to_owned(),
    }
}

/// What this process knows of the operation in numbers (docs/draining.md); an agent that was restarted in between knows less.
fn numbers(memory: &Memory, now: Timestamp) -> BTreeMap<String, i64> {
    let milliseconds = |from: Timestamp, to: Timestamp| i64::try_from(to.duration_since(from).as_millis()).unwrap_or(0);
    let mut numbers = BTreeMap::new();
    let mut add = |name: &str, number: i64| numbers.insert(name.to_owned(), number);
    let operated = memory.operated.as_ref().map(|operated| operated.at);
    if let Some(count) = memory.drained {
        let Count { most, closed, destroyed, inbound, unused, newcomers, came_until, losses, .. } = count;
        add_connections(&mut add, most, closed, destroyed, inbound.saturating_add(unused));
        add("newAfterLeaving", newcomers.into());
        if let (Some(lowered), Some(until)) = (memory.lowered, came_until) {
            add(Propagation::REPORTED, milliseconds(lowered, until).max(0));
        }
        if let Some(Losses { open, reset, unanswered }) = losses {
            add(TransitionResult::OPEN_WHEN_NOT_READY, open.into());
            add(TransitionResult::RESET_WHEN_NOT_READY, reset.into());
            add(TransitionResult::UNANSWERED_WHEN_NOT_READY, unanswered.into());
        }
    }
    if let Some(held) = memory.held {
        let HoldNumbers { connections, closed, destroyed, left, waited, replayed, longest_milliseconds, expired } =
            held;
        add_connections(&mut add, connections, closed, destroyed, left);
        add("parked", waited.into());
        add("replayed", replayed.into());
        add(TransitionResult::LONGEST_PAUSE, longest_milliseconds.into());
        add("holdExpired", expired.into());
    }
    if let Some(lowered) = memory.lowered {
        add(TransitionResult::DRAIN, milliseconds(lowered, operated.unwrap_or(now)));
    }
    if let Some(operated) = operated {
        add("operateMilliseconds", milliseconds(operated, now));
    }
    if let Some(gap) = gap(memory) {
        add(TransitionResult::GAP, gap.into());
    }
    if let Some(gap) = gap_to_ready(memory) {
        add(TransitionResult::READY, gap.into());
    }
    if let Some(Listening { killed: Some(killed), at }) = memory.listening {
        add("killToListenMilliseconds", milliseconds(killed, at));
    }
    numbers
}

/// Where the connections at the start went. Those that came later and ended may be among the ones that ended by themselves.
fn add_connections(add: &mut impl FnMut(&str, i64) -> Option<i64>, most: u32, closed: u32, destroyed: u32, left: u32) {
    add("connections", most.into());
    add(TransitionResult::CLOSED, closed.into());
    add(TransitionResult::DESTROYED, destroyed.into());
    add(TransitionResult::GIVEN_UP, left.into());
    add("endedThemselves", most.saturating_sub(closed).saturating_sub(destroyed).saturating_sub(left).into());
}

fn bounded(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
        text.truncate(end);
    }
    text
}

/// When what was written; may be lost at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The last write.
    written: Option<Timestamp>,
    /// Since when something that the controller waits for is to be written.
    answer_waits: Option<Timestamp>,
}

/// What to do about the status.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Write this now.
    pub write: Option<NodeTransitionStatus>,
    /// Ask again then.
    pub wake_at: Option<Timestamp>,
}

impl Pace {
    /// A write was stored.
    pub fn wrote(&mut self, now: Timestamp) {
        *self = Self { written: Some(now), ..Self::default() };
    }

    /// Whether the status is to be written now, given what is stored and what should be.
    pub fn report(
        &mut self,
        stored: &NodeTransitionStatus,
        wanted: &[Transition],
        agent: &AgentInfo,
        now: Timestamp,
    ) -> Report {
        // Entries whose grant is gone are no reason to write: they go with the next write, and nobody takes them for an answer.
        // What an earlier agent could do says nothing of this one, and the controller waits for what it can.
        let is_other = stored.agent.as_ref().is_some_and(|known| known != agent);
        let mut due = is_other.then_some(now);
        for entry in wanted {
            let stored =
                stored.transitions.iter().find(|stored| stored.id == entry.id && stored.granted == entry.granted);
            due = due.into_iter().chain(self.due(stored, entry, wanted, now)).min();
        }
        match due {
            None => Report { write: None, wake_at: None },
            Some(due) if due > now => Report { write: None, wake_at: Some(due) },
            Some(_) => {
                let status = NodeTransitionStatus { agent: Some(agent.clone()), transitions: wanted.to_vec() };
                Report { write: Some(status), wake_at: None }
            }
        }
    }

    /// When the difference between the two is to be written; `None` if there is none that matters.
    fn due(
        &mut self,
        stored: Option<&Transition>,
        entry: &Transition,
        wanted: &[Transition],
        now: Timestamp,
    ) -> Option<Timestamp> {
        if stored.is_some_and(|stored| stored.result.is_some()) {
            return None;
        }
        let is_known = stored.is_some_and(|stored| stored.phase == entry.phase);
        if entry.result.is_some() || entry.phase == Phase::Checking && !is_known {
            let first = *self.answer_waits.get_or_insert(now);
            let is_alone = wanted.iter().all(is_answer);
            return Some(if is_alone { first } else { after(first, ANSWERS_TOGETHER) });
        }
        if entry.rollback.is_some() && stored.is_none_or(|stored| stored.rollback.is_none()) {
            return Some(now);
        }
        let not_before = |pause| self.written.map_or(Timestamp::MIN, |written| after(written, pause));
        match stored {
            Some(stored) if stored.phase == entry.phase => {
                let differs = stored.connections != entry.connections || stored.message != entry.message;
                let numbers = differs.then(|| not_before(BETWEEN_NUMBERS).max(after(entry.since.0, BETWEEN_NUMBERS)));
                // An agent that is killed before calls them again.
                let is_done = stored.hooks_done != entry.hooks_done;
                let hooks = is_done.then(|| not_before(BETWEEN_PHASES).max(after(entry.since.0, PHASE_LASTS)));
                numbers.into_iter().chain(hooks).min()
            }
            Some(_) | None => Some(not_before(BETWEEN_PHASES).max(after(entry.since.0, PHASE_LASTS))),
        }
    }
}

/// Whether the controller has the next move.
fn is_answer(entry: &Transition) -> bool {
    entry.result.is_some() || entry.phase == Phase::Checking
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        after("2026-01-01T00:00:00Z".parse().unwrap(), SignedDuration::from_millis(milliseconds))
    }

    fn entry(id: &str, phase: Phase, since: i64, result: Option<Outcome>) -> Transition {
        Transition {
            id: id.into(),
            granted: MicroTime(at(0)),
            phase,
            since: MicroTime(at(since)),
            deadline: None,
            connections: None,
            gap_milliseconds: None,
            ready_milliseconds: None,
            hooks_done: Vec::new(),
            hooks: Vec::new(),
            rollback: None,
            message: String::new(),
            result: result.map(|outcome| TransitionResult { outcome, reason: "R".into(), report: BTreeMap::new() }),
        }
    }

    fn status(transitions: &[Transition]) -> NodeTransitionStatus {
        NodeTransitionStatus { agent: None, transitions: transitions.to_vec() }
    }

    /// When, in milliseconds, a write is due, if at all.
    fn due(pace: &mut Pace, stored: &[Transition], wanted: &[Transition], now: i64) -> Option<i64> {
        let report = pace.report(&status(stored), wanted, &AgentInfo::default(), at(now));
        let milliseconds = |time: Timestamp| i64::try_from(time.duration_since(at(0)).as_millis()).unwrap();
        report.write.map(|_| now).or_else(|| report.wake_at.map(milliseconds))
    }

    #[test]
    fn a_phase_is_told_of_once_it_has_lasted_and_at_most_once_a_second() {
        let mut pace = Pace::default();
        let draining = entry("a", Phase::Draining, 0, None);
        assert_eq!(due(&mut pace, &[], std::slice::from_ref(&draining), 20), Some(3000));
        assert_eq!(due(&mut pace, &[], std::slice::from_ref(&draining), 3000), Some(3000));
        pace.wrote(at(3000));
        assert_eq!(due(&mut pace, std::slice::from_ref(&draining), std::slice::from_ref(&draining), 3100), None);
        let verifying = entry("a", Phase::Verifying, 500, None);
        assert_eq!(due(&mut pace, &[draining], &[verifying], 3100), Some(4000));
    }

    #[test]
    fn a_result_is_told_of_at_once_unless_others_may_end_with_it() {
        let live = [entry("a", Phase::Returning, 0, None), entry("b", Phase::Returning, 0, None)];
        let both = [
            entry("a", Phase::Returning, 0, Some(Outcome::Done)),
            entry("b", Phase::Returning, 0, Some(Outcome::Done)),
        ];
        assert_eq!(due(&mut Pace::default(), &live[..1], &both[..1], 700), Some(700));
        let mut pace = Pace::default();
        let one = [both[0].clone(), live[1].clone()];
        assert_eq!(due(&mut pace, &live, &one, 700), Some(800));
        assert_eq!(due(&mut pace, &live, &one, 790), Some(800), "the time does not run anew");
        assert_eq!(due(&mut pace, &live, &both, 795), Some(795), "nobody is left to wait for");
    }

    #[test]
    fn that_the_rules_are_waited_for_is_told_of_at_once_and_once() {
        let stored = entry("a", Phase::Draining, 0, None);
        let checking = entry("a", Phase::Checking, 700, None);
        let mut pace = Pace::default();
        pace.wrote(at(600));
        assert_eq!(due(&mut pace, &[], std::slice::from_ref(&checking), 700), Some(700));
        assert_eq!(due(&mut pace, std::slice::from_ref(&stored), std::slice::from_ref(&checking), 700), Some(700));
        pace.wrote(at(700));
        assert_eq!(due(&mut pace, std::slice::from_ref(&checking), std::slice::from_ref(&checking), 9000), None);
        let returning = entry("a", Phase::Returning, 9000, None);
        assert_eq!(
            due(&mut pace, std::slice::from_ref(&checking), &[returning], 9000),
            Some(12_000),
            "a phase like others"
        );
        let both = [checking, entry("b", Phase::Verifying, 0, None)];
        assert_eq!(due(&mut Pace::default(), &both[1..], &both, 700), Some(800), "others may end with it");
    }

    #[test]
    fn the_way_back_is_told_of_at_once() {
        let stored = entry("a", Phase::Verifying, 0, None);
        let back = Transition { rollback: Some("Why".into()), ..entry("a", Phase::Returning, 100, None) };
        assert_eq!(due(&mut Pace::default(), &[stored], &[back], 100), Some(100));
    }

    #[test]
    fn numbers_are_told_of_seldom_and_only_of_a_long_drain() {
        let mut pace = Pace::default();
        let mut stored = entry("a", Phase::Draining, 0, None);
        stored.connections = Some(4);
        let now = Transition { connections: Some(3), ..stored.clone() };
        pace.wrote(at(1500));
        assert_eq!(due(&mut pace, std::slice::from_ref(&stored), std::slice::from_ref(&now), 1600), Some(6500));
        assert_eq!(due(&mut Pace::default(), &[stored], &[now], 1600), Some(5000));
    }

    #[test]
    fn entries_without_a_grant_go_with_the_next_write_and_are_no_reason_for_one() {
        let refused = entry("b", Phase::Granted, 0, Some(Outcome::Refused));
        assert_eq!(due(&mut Pace::default(), std::slice::from_ref(&refused), &[], 100), None);
        let live = entry("a", Phase::Draining, 0, None);
        let wanted = std::slice::from_ref(&live);
        let report = Pace::default().report(&status(&[refused]), wanted, &AgentInfo::default(), at(9000));
        assert_eq!(report.write.map(|status| status.transitions), Some(vec![live]));
    }

    #[test]
    fn an_agent_that_can_do_other_things_than_the_one_before_says_so_at_once_and_once() {
        let status = |version: &str| NodeTransitionStatus {
            agent: Some(AgentInfo { version: version.into(), ..AgentInfo::default() }),
            transitions: Vec::new(),
        };
        let (own, mut pace) = (status("2").agent.unwrap(), Pace::default());
        let write = pace.report(&status("1"), &[], &own, at(0)).write;
        assert_eq!(write.and_then(|status| status.agent), Some(own.clone()));
        assert_eq!(pace.report(&status("2"), &[], &own, at(0)), Report { write: None, wake_at: None });
        let silent = pace.report(&NodeTransitionStatus::default(), &[], &own, at(0));
        assert_eq!(silent, Report { write: None, wake_at: None }, "with the first report");
    }

    #[test]
    fn hooks_that_are_over_are_told_of_once_their_phase_lasts() {
        let stored = entry("a", Phase::Leaving, 0, None);
        let wanted = Transition { hooks_done: vec!["ask".into()], ..stored.clone() };
        let wanted = std::slice::from_ref(&wanted);
        assert_eq!(due(&mut Pace::default(), std::slice::from_ref(&stored), wanted, 20), Some(3000));
        let mut pace = Pace::default();
        pace.wrote(at(8500));
        assert_eq!(due(&mut pace, &[stored], wanted, 9000), Some(9500));
    }

    #[test]
    fn a_result_of_an_earlier_grant_of_the_same_wish_is_not_this_ones() {
        let earlier = entry("a", Phase::Returning, 0, Some(Outcome::Done));
        let earlier = Transition { granted: MicroTime(at(-5000)), ..earlier };
        let now = entry("a", Phase::Returning, 0, Some(Outcome::Refused));
        assert_eq!(due(&mut Pace::default(), &[earlier], &[now], 700), Some(700));
    }

    #[test]
    fn what_is_stored_is_not_written_again() {
        let ended = entry("a", Phase::Returning, 0, Some(Outcome::Done));
        assert_eq!(
            due(&mut Pace::default(), std::slice::from_ref(&ended), std::slice::from_ref(&ended), 9_999_999),
            None
        );
    }

    #[test]
    fn messages_are_bounded_between_characters() {
        assert_eq!(bounded("aä".repeat(3), 5), "aäa");
        assert_eq!(bounded("a".repeat(600), LONGEST_MESSAGE).len(), LONGEST_MESSAGE);
    }
}
