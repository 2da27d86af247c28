//! What becomes of the agent's writes.

use hitless_agent::decision::{Action, Direction};
use hitless_api::{Grant, GrantMode, GrantOp, NodeTransitionStatus};
use jiff::SignedDuration;

use super::pod::{self, FROM, TO};
use super::{Fault, IN_SERVICE, Patched, World};

impl World {
    pub(super) fn fault(&mut self) -> Fault {
        if self.silence.is_some() {
            return Fault::Lost;
        }
        self.faults.pop().unwrap_or(Fault::None)
    }

    /// Carries out what it was asked before it fell silent.
    pub(super) fn break_silence(&mut self) {
        if let Some((_, action)) = self.silence.take_if(|(until, _)| *until <= self.now) {
            let grant = self.grant().clone();
            self.apply(&grant, &action);
        }
    }

    pub(super) fn write(&mut self, resource: &'static str) {
        self.writes.push(resource);
        self.version += 1;
        self.pod.view.resource_version = self.version.to_string();
    }

    /// Stores the report; false if the agent was killed.
    pub(super) fn store(&mut self, status: &NodeTransitionStatus) -> bool {
        let fault = self.fault();
        if !matches!(fault, Fault::KilledBefore | Fault::Lost | Fault::Conflict) {
            self.write("nodetransitions/status");
            // What the wire can't hold is lost.
            self.transition.status = serde_json::from_value(serde_json::to_value(status).unwrap()).unwrap();
        }
        match fault {
            Fault::KilledBefore | Fault::KilledAfter => self.kill(),
            Fault::Lost | Fault::Unanswered | Fault::Conflict | Fault::Silence(_) => {}
            Fault::None => {
                self.pace.wrote(self.now);
                for entry in &status.transitions {
                    self.memories.get_mut(&entry.id).unwrap().reported(entry);
                }
            }
        }
        !matches!(fault, Fault::KilledBefore | Fault::KilledAfter)
    }

    /// Carries out one action; false if the agent was killed.
    pub(super) fn act(&mut self, grant: &Grant, action: &Action) -> bool {
        let now = self.now;
        let memory = self.memories.get_mut(&grant.id).unwrap();
        memory.sending(action, grant, &self.pod.view, now);
        if self.denied && matches!(action, Action::Patch(_)) {
            memory.not_done(action);
            memory.refused(action, "AdmissionDenied", "not granted", now);
            return true;
        }
        let fault = self.fault();
        if let Fault::Silence(milliseconds) = fault {
            self.silence = Some((now.checked_add(SignedDuration::from_millis(milliseconds)).unwrap(), action.clone()));
        }
        if !matches!(fault, Fault::KilledBefore | Fault::Lost | Fault::Conflict | Fault::Silence(_)) {
            self.apply(grant, action);
        }
        let memory = self.memories.get_mut(&grant.id).unwrap();
        match fault {
            Fault::None if *action == Action::FetchPod => memory.answered(self.answers_after, now),
            Fault::None => memory.done(action, now),
            Fault::Lost | Fault::Unanswered | Fault::Silence(_) => {}
            Fault::Conflict => {
                memory.not_done(action);
                if matches!(action, Action::Patch(_)) {
                    memory.refused(action, "PatchConflict", "changed", now);
                }
            }
            Fault::KilledBefore | Fault::KilledAfter => self.kill(),
        }
        !matches!(fault, Fault::KilledBefore | Fault::KilledAfter)
    }

    pub(super) fn apply(&mut self, grant: &Grant, action: &Action) {
        match action {
            Action::FetchPod | Action::LookAtVolumes | Action::WantVolumes => {}
            Action::LeaveService => {
                assert_eq!(grant.mode, GrantMode::Leave, "in a Hold the pod stays in service");
                let may_take = !grant.while_unavailable || !self.pod.view.ready() || self.image() == TO;
                assert!(may_take, "took an available pod that was granted as an unavailable one");
                self.write("pods/status");
                pod::set_in_service(&mut self.pod, false, "Leaving", &grant.id, self.now);
                self.lowered_at = Some(self.now);
            }
            Action::ShowDrained => {
                self.write("pods/status");
                let since = self.pod.view.conditions.get(IN_SERVICE).unwrap().since.unwrap();
                pod::set_in_service(&mut self.pod, false, "Drained", &grant.id, since);
            }
            Action::ReturnToService { reason, message } => {
                let status = self.pod.view.containers[0].status.as_ref().unwrap();
                let is_held = grant.mode == GrantMode::Hold;
                assert!(reason != "InService" || !is_held, "it was never lowered");
                let is_current = self.kubelet.running_image == self.image() && status.ready;
                assert!(reason != "InService" || is_current, "raised before the right container was ready");
                assert!(
                    reason != "InService" || self.image() == FROM || !self.is_pending(),
                    "raised before the rules passed"
                );
                self.write("pods/status");
                pod::set_in_service(&mut self.pod, true, reason, message, self.now);
            }
            Action::Patch(Direction::Forward) if grant.op == GrantOp::Relabel => {
                self.write("pods");
                for (label, change) in &grant.labels {
                    let labels = &mut self.pod.view.labels;
                    assert_eq!(labels.get(label), change.from.as_ref(), "the patch tests it");
                    match &change.to {
                        Some(value) => labels.insert(label.clone(), value.clone()),
                        None => labels.remove(label),
                    };
                }
            }
            Action::Patch(direction) => {
                let direction = *direction;
                self.patches.push(Patched {
                    direction,
                    at: self.now,
                    lowered_at: self.lowered_since().and(self.lowered_at),
                    ready: self.pod.view.ready(),
                    cancelled_before: self.cancel_seen,
                    held: self.holder.is_settled() || !self.runs(),
                });
                self.write("pods");
                let (from, to) = if direction == Direction::Forward { (FROM, TO) } else { (TO, FROM) };
                assert_eq!(self.image(), from, "the patch tests it");
                self.pod.view.containers[0].image = to.to_owned();
                self.pod.view.generation += 1;
            }
        }
        self.kubelet.notice(&self.pod, self.now);
    }
}
