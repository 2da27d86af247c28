//! The writes of a round, one after another, and the report behind them.

use hitless_agent::decision::{Action, Direction};
use hitless_agent::deed::Deed;
use hitless_agent::patch;
use hitless_api::{Grant, GrantMode, NodeTransitionStatus, PodRef, Transition};
use kube::api::Patch;

use super::{Agent, LONG_AWAY, LONGEST_AWAY, LONGEST_SLEEP, Sent, Task};
use crate::checks::Operation;
use crate::clock::{MS, Micros, NEVER, SECOND, micros, passed, when};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::server::Request;
use crate::watch::Key;

impl Agent {
    /// Sends the next write of the round; ends the round when nothing is left.
    pub(super) fn go_on(&mut self, ground: &mut Ground) {
        loop {
            let Some(doing) = &mut self.doing else { return };
            let Some(task) = doing.tasks.pop_front() else { break };
            let transition = doing.transition.clone();
            let grant = |index: usize| transition.as_deref().and_then(|each| each.spec.grants.get(index));
            match task {
                Task::Act(index, action) => {
                    if let Some(grant) = grant(index)
                        && self.act(index, grant, action, ground)
                    {
                        return;
                    }
                }
                Task::Raise(pod, reason) => {
                    if self.raise(pod, reason, ground) {
                        return;
                    }
                }
            }
        }
        self.report(ground);
    }

    fn is_paused(&self, uid: &str, now: Micros) -> bool {
        self.pauses.is_paused(uid, passed(now))
    }

    /// Begins one action; false if there is nothing to send.
    fn act(&mut self, index: usize, grant: &Grant, action: Action, ground: &mut Ground) -> bool {
        let uid = grant.pod.uid.as_str();
        if self.is_paused(uid, ground.now) {
            return false;
        }
        if action == Action::FetchPod {
            ground.send(Request::Read(grant.pod.clone()), self.reply());
            return self.sending(Sent::Look(index, ground.now));
        }
        // The pod that this was decided on.
        let Some(pod) = self.by_uid.get(uid).cloned() else { return false };
        let now = ground.wall(self.skew);
        if let Some(memory) = self.memories.get_mut(&grant.id) {
            memory.sending(&action, grant, &pod.view, now);
        }
        let held = grant.mode == GrantMode::Hold;
        let mut operation = Operation { id: grant.id.clone(), granted: grant.granted.0, forward: true, held };
        ground.say(self.who(), || format!("{}: {action:?}", grant.pod.name));
        let condition =
            |is_true, reason: &str, message: &str| patch::in_service(&pod.view, is_true, reason, message, now);
        let request = match &action {
            // No workload of the simulation reloads.
            Action::FetchPod | Action::LookAtVolumes | Action::WantVolumes => return false,
            Action::LeaveService => {
                let patch = condition(false, "Leaving", &grant.id);
                Request::InService { pod: grant.pod.clone(), patch, operation: Some(operation) }
            }
            Action::ShowDrained => {
                let patch = patch::drained(&pod.view, &grant.id, now);
                Request::InService { pod: grant.pod.clone(), patch, operation: Some(operation) }
            }
            Action::ReturnToService { reason, message } => {
                let patch = condition(true, reason, message);
                Request::InService { pod: grant.pod.clone(), patch, operation: Some(operation) }
            }
            Action::Patch(direction) => {
                operation.forward = *direction == Direction::Forward;
                ground.checks.operating(ground.now, &operation);
                let Patch::Json(patch) = Deed::of(grant).patch(&pod, *direction).build() else { return false };
                Request::Images { pod: grant.pod.clone(), patch, operation }
            }
        };
        self.transmit(request, Sent::Act(index, action), ground)
    }

    /// Sends a write, unless the process is killed at that moment.
    fn transmit(&mut self, request: Request, sent: Sent, ground: &mut Ground) -> bool {
        if ground.chance.happens(ground.weather.agent_killed) {
            let back = ground.now + away(ground);
            if ground.chance.happens(5_000) {
                ground.fault(Fault::AgentKilledBeforeWrite);
                self.kill(ground, back);
                return true;
            }
            ground.fault(Fault::AgentKilledAfterWrite);
            ground.send(request, self.reply());
            self.kill(ground, back);
            return true;
        }
        ground.send(request, self.reply());
        self.sending(sent)
    }

    pub(super) fn sending(&mut self, sent: Sent) -> bool {
        if let Some(doing) = &mut self.doing {
            doing.sent = Some(sent);
        }
        true
    }

    fn raise(&mut self, pod: PodRef, reason: &'static str, ground: &mut Ground) -> bool {
        if self.is_paused(&pod.uid, ground.now) {
            return false;
        }
        let Some(known) = self.by_uid.get(&pod.uid).cloned() else { return false };
        ground.say(self.who(), || format!("{}: raise ({reason})", pod.name));
        let patch = patch::in_service(&known.view, true, reason, "", ground.wall(self.skew));
        let request = Request::InService { pod: pod.clone(), patch, operation: None };
        self.transmit(request, Sent::Raise(pod), ground)
    }

    fn report(&mut self, ground: &mut Ground) {
        let Some(doing) = &mut self.doing else { return };
        if let Some(transition) = doing.transition.clone().filter(|_| !doing.has_reported) {
            doing.has_reported = true;
            let no_status = NodeTransitionStatus::default();
            let stored = transition.status.as_ref().unwrap_or(&no_status);
            let report = self.pace.report(stored, &doing.entries, &self.info, doing.now);
            let may = self.report_after <= ground.now;
            if may && let Some(status) = report.write {
                ground.say(self.who(), || {
                    let all: Vec<_> = status.transitions.iter().map(shown).collect();
                    format!("reports [{}]", all.join(", "))
                });
                let version = hitless_rollout::snapshot::Version {
                    uid: transition.metadata.uid.clone().unwrap_or_default(),
                    resource_version: transition.metadata.resource_version.clone().unwrap_or_default(),
                };
                let node: Key = self.node.name.as_str().into();
                let request = Request::Report { node, version, status: Box::new(status.clone()) };
                self.transmit(request, Sent::Report(Box::new(status)), ground);
                return;
            }
            if may && let Some(at) = report.wake_at {
                doing.wake = doing.wake.min(when(at) - self.skew);
            }
        }
        self.end_turn(ground.now);
    }

    pub(super) fn end_turn(&mut self, now: Micros) {
        let Some(doing) = self.doing.take() else { return };
        let retry = self.pauses.next(passed(now)).map_or(NEVER, micros);
        let report = if self.report_after > now { self.report_after } else { NEVER };
        self.next = doing.wake.max(now).min(retry).min(report);
        let is_live = doing.transition.as_deref().is_some_and(|transition| {
            let mut held = transition.spec.grants.iter().filter(|grant| grant.mode == GrantMode::Hold);
            held.any(|grant| transition.transition(grant).is_none_or(|reported| reported.result.is_none()))
        });
        if is_live || self.holder.is_busy() {
            self.next = self.next.min(now + LONGEST_SLEEP);
        }
        if self.has_news() {
            self.next = now;
        }
    }
}

fn shown(entry: &Transition) -> String {
    let result = entry.result.as_ref().map(|result| format!(" {:?}/{}", result.outcome, result.reason));
    format!("{:?}{}", entry.phase, result.unwrap_or_default())
}

/// How long a killed process is away.
fn away(ground: &mut Ground) -> Micros {
    if ground.chance.happens(ground.weather.agent_away_long) {
        ground.fault(Fault::AgentAwayLong);
        return ground.chance.between(LONG_AWAY, LONGEST_AWAY);
    }
    ground.chance.delay(100 * MS, 10 * SECOND)
}
