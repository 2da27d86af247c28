//! How far the companion pod of a workload is, and what comes next.

use hitless_api::pod::PodView;
use hitless_workloads::Plan;
use jiff::{SignedDuration, Timestamp};

use crate::companion::{self, Outcome, State, Tried};
use crate::round::facts::Facts;
use crate::round::facts::agents::{AGENT_IS_AWAY, without_agent_for};
use crate::round::facts::companions::{ROOM_WITHIN, SLOW_AFTER, deadline, is_known, is_skipped};
use crate::round::wait_reason::companion::Companion;

impl Facts<'_, '_> {
    /// How far the companion is, which is to serve or only to try the version. `None`: the pod need not wait.
    pub(crate) fn stage(&self, plan: &Plan, serves: bool) -> Option<Companion> {
        let companion = self.companions.of(plan);
        if is_skipped(plan) || (is_known(plan) && !serves) {
            // Nobody would use it, and a Service that is opened for a held pod would send it connections.
            let is_leaving = |pod: &&PodView| !companion::has_served(pod) && !self.is_lost_companion(pod);
            return companion.filter(is_leaving).map(|_| Companion::Leaving);
        }
        let Some(pod) = companion else { return Some(Companion::Missing) };
        if self.is_lost_companion(pod) {
            let node = pod.node.as_deref().unwrap_or_default();
            return Some(skipped(plan, format!("it is being deleted on node {node}, which does not answer")));
        }
        if pod.terminating {
            return Some(Companion::Leaving);
        }
        match (State::of(pod, self.companions.now), pod.in_service()) {
            (_, Some(condition)) if condition.is_true && pod.available() => None,
            (State::Ready { .. }, Some(condition)) if !condition.is_true => Some(Companion::Leaving),
            (State::Ready { start_milliseconds }, None) if !serves => {
                let message = String::new();
                let start_milliseconds = Some(start_milliseconds);
                let (revision, outcome) = (plan.target.clone(), Outcome::Good);
                Some(Companion::Tried(Tried { revision, outcome, start_milliseconds, message }))
            }
            (State::Ready { .. }, None) => Some(self.joining(plan, pod)),
            (State::Ready { .. }, Some(_)) => Some(Companion::Joining),
            (state, _) => Some(self.unready(plan, pod, state)),
        }
    }

    /// It is put in service only where an agent can take it out again: nobody else counts its connections.
    fn joining(&self, plan: &Plan, pod: &PodView) -> Companion {
        let node = pod.node.as_deref().unwrap_or_default();
        match without_agent_for(AGENT_IS_AWAY, self.snapshot, pod, self.companions.now) {
            None => Companion::Joining,
            Some(until) if until > self.companions.now => {
                Companion::Starting(format!("its node {node} has no Ready agent"))
            }
            Some(_) => skipped(plan, format!("it was put on node {node}, which has no agent that could drain it")),
        }
    }

    /// Its name is taken for as long as its node does not answer.
    pub(crate) fn is_lost_companion(&self, pod: &PodView) -> bool {
        pod.terminating && self.lost.has(&pod.id.uid)
    }

    pub(crate) fn unready(&self, plan: &Plan, pod: &PodView, state: State) -> Companion {
        let age =
            |since: Option<Timestamp>| since.map_or(SignedDuration::ZERO, |at| self.companions.now.duration_since(at));
        let is_late = age(pod.created) >= deadline(plan, pod);
        if self.lost.has(&pod.id.uid) {
            // That says nothing of the version.
            return skipped(plan, format!("its node {} does not answer", pod.node.as_deref().unwrap_or_default()));
        }
        match state {
            State::Unschedulable { since, words } if age(since.or(pod.created)) >= ROOM_WITHIN => {
                skipped(plan, format!("no node has room for it: {words}"))
            }
            State::Starting { words, .. } | State::Failing(words) if is_late => {
                told(plan, Outcome::Bad, format!("after {} s: {words}", deadline(plan, pod).as_secs()))
            }
            State::Starting { words, .. } if age(pod.created) >= SLOW_AFTER => Companion::Slow(words),
            State::Unschedulable { words, .. } | State::Starting { words, .. } => Companion::Starting(words),
            State::Failing(words) => Companion::Failing(words),
            State::Ready { .. } => Companion::Joining,
        }
    }
}

fn told(plan: &Plan, outcome: Outcome, message: String) -> Companion {
    Companion::Tried(Tried { revision: plan.target.clone(), outcome, start_milliseconds: None, message })
}

/// It can't be tried, or can't serve: the version comes without it.
fn skipped(plan: &Plan, message: String) -> Companion {
    told(plan, Outcome::Skipped, message)
}
