//! One round: what is seen, what is decided, and who is told what to do.

use std::collections::{BTreeMap, VecDeque};

use hitless_agent::decision::{Action, Decision, Direction, Hold, Watch};
use hitless_agent::memory::Memory;
use hitless_agent::report;
use hitless_agent::round::{NodeView, round};
use hitless_agent::view::{Observation, Stage};
use hitless_api::{Grant, GrantMode, NodeTransition, Outcome, Phase, Transition};
use hitless_world::kubelet::runs;
use jiff::{SignedDuration, Timestamp};

use super::clients::Watched;
use super::holder::Target;
use super::{Agent, Doing, Task};
use crate::clock::{Micros, NEVER, when};
use crate::ground::Ground;
use crate::trace::Who;

impl Agent {
    /// Decides once, and begins to act.
    pub(super) fn run_round(&mut self, ground: &mut Ground) {
        let now = ground.wall(self.skew);
        if self.pods.take_changed() {
            self.by_uid = self.pods.values().map(|pod| (pod.view.id.uid.clone(), pod.node_pod.clone())).collect();
        }
        self.transitions.take_changed();
        self.holder.take_news();
        let transition = self.transitions.get(&self.node.name).map(|each| each.object.clone());
        self.remember_grants(transition.as_deref(), ground, now);
        self.observe(ground.now);
        let view = NodeView {
            node: &self.node,
            pods: &self.by_uid,
            transition: transition.as_deref(),
            synced: true,
            memories: &self.memories,
            observations: &self.observations,
        };
        let decided = round(&view, now);
        let mut steps: Vec<Decision> = decided.steps.into_iter().map(|(_, decision)| decision).collect();
        let raises = decided.raises;
        let grants = transition.as_deref().map(|each| each.spec.grants.as_slice()).unwrap_or_default();
        // A patch that is still on its way was sent by a version that knows the operation, and no request outlives an upgrade.
        let refused =
            steps.iter_mut().zip(grants).filter(|(_, grant)| self.refuses && !ground.may_be_patched(&grant.pod));
        refused.for_each(|(step, _)| refuse(step));
        let mut wake = steps.iter().filter_map(|step| step.wake_at).min().map_or(NEVER, |at| when(at) - self.skew);
        let entries = self.entries(grants, &steps, transition.as_deref(), ground, now);
        self.watch(grants, &steps, ground);
        self.holds(grants, &steps, ground, now);
        wake = wake.min(self.watched.values().map(|each| each.next(ground.now)).min().unwrap_or(NEVER));
        let actions = steps.into_iter().enumerate();
        let mut tasks: VecDeque<Task> =
            actions.filter_map(|(index, step)| Some(Task::Act(index, step.action?))).collect();
        tasks.extend(raises.into_iter().map(|(pod, reason)| Task::Raise(pod, reason)));
        self.doing = Some(Doing { tasks, sent: None, now, transition, entries, wake, has_reported: false });
        self.go_on(ground);
    }

    fn remember_grants(&mut self, transition: Option<&NodeTransition>, ground: &mut Ground, now: Timestamp) {
        let grants = transition.map(|each| each.spec.grants.as_slice()).unwrap_or_default();
        self.memories.retain(|id, _| grants.iter().any(|grant| grant.id == *id));
        for grant in grants {
            if !self.memories.contains_key(&grant.id) {
                self.memories.insert(grant.id.clone(), Memory::default());
            }
            if let Some(memory) = self.memories.get_mut(&grant.id) {
                memory.see(grant, now);
            }
            if grant.cancel.is_some() {
                ground.checks.cancel_seen(grant);
            }
        }
    }

    fn entries(
        &mut self,
        grants: &[Grant],
        steps: &[Decision],
        transition: Option<&NodeTransition>,
        ground: &mut Ground,
        now: Timestamp,
    ) -> Vec<Transition> {
        let mut entries = Vec::with_capacity(steps.len());
        for (grant, step) in grants.iter().zip(steps) {
            let reported = transition.and_then(|each| each.transition(grant));
            let Some(memory) = self.memories.get_mut(&grant.id) else { continue };
            if memory.enter(step, reported, now) && reported.is_none_or(|each| each.result.is_none()) {
                ground.trace.say(ground.now, Who::Agent(self.index), || {
                    let waits: Vec<_> = step.waiting_for.iter().map(ToString::to_string).collect();
                    format!("{}: {:?} {} {}", grant.pod.name, step.phase, step.message, waits.join(", "))
                });
            }
            let observation = self.observations.get(&grant.pod.uid).unwrap_or(&Observation::None);
            memory.observe(step.phase, observation, now);
            entries.push(report::entry(grant, step, memory, observation, reported, now));
        }
        entries
    }

    /// Which pods are looked at from now on.
    fn watch(&mut self, grants: &[Grant], steps: &[Decision], ground: &mut Ground) {
        let mut wanted: BTreeMap<&str, bool> = BTreeMap::new();
        for (grant, step) in grants.iter().zip(steps) {
            match step.watch {
                Watch::No | Watch::Replacing => {}
                Watch::Leaving => _ = wanted.insert(&grant.pod.uid, false),
                Watch::Draining | Watch::Destroying => _ = wanted.insert(&grant.pod.uid, true),
            }
        }
        self.watched.retain(|uid, _| wanted.contains_key(uid.as_str()));
        for (uid, draining) in wanted {
            if !self.watched.contains_key(uid) {
                let watched = Watched::new(ground);
                self.watched.insert(uid.to_owned(), watched);
            }
            if let Some(watched) = self.watched.get_mut(uid) {
                watched.follow(draining, ground.now);
                ground.checks.clients(uid, watched.gone_at().unwrap_or(NEVER));
            }
        }
    }

    /// Of which pods new connections are held from now on, as `hitless_agent::agent::kernel_targets` has it.
    fn holds(&mut self, grants: &[Grant], steps: &[Decision], ground: &mut Ground, now: Timestamp) {
        let mut targets: BTreeMap<String, Target> = BTreeMap::new();
        for (grant, step) in grants.iter().zip(steps) {
            self.may_replace(grant, step, ground);
            // The simulation has no clients who come to a pod that has left.
            if grant.mode == GrantMode::Leave {
                continue;
            }
            let hold = match step.hold {
                // A killed process may have left a block that keeps clients waiting.
                Hold::No if grant.mode == GrantMode::Hold && !self.has_decided => Hold::Continue(Direction::Forward),
                Hold::No => continue,
                hold => hold,
            };
            if self.by_uid.contains_key(&grant.pod.uid) {
                let seconds = i64::from(grant.ttl_seconds.saturating_add(Grant::CLOCK_SKEW_SECONDS));
                let fresh = now.duration_since(grant.granted.0) <= SignedDuration::from_secs(seconds);
                targets.insert(grant.pod.uid.clone(), Target { hold, drain: grant.drain.clone(), fresh });
            }
        }
        self.has_decided = true;
        self.holder.set_targets(targets, Who::Agent(self.index), ground);
    }

    /// The containers of a held pod are replaced once its clients are held, unless there is nobody to hold.
    fn may_replace(&self, grant: &Grant, step: &Decision, ground: &mut Ground) {
        if grant.mode != GrantMode::Hold || step.action != Some(Action::Patch(Direction::Forward)) {
            return;
        }
        let Some(pod) = self.by_uid.get(&grant.pod.uid) else { return };
        let is_held = match self.observations.get(&grant.pod.uid) {
            Some(Observation::Held(held)) => matches!(held.stage, Stage::Settled(_) | Stage::Prepared(0)),
            _ => false,
        };
        if runs(&pod.view) && !is_held {
            let what = format!("pod {} is to be replaced in a Hold, and its clients are not held", grant.pod.name);
            ground.checks.fail(ground.now, what);
        }
    }

    fn observe(&mut self, now: Micros) {
        self.observations = self.watched.iter().map(|(uid, watched)| (uid.clone(), watched.look(now))).collect();
        self.observations.extend(self.holder.observations().map(|(uid, told)| (uid.clone(), told)));
    }
}

/// As an agent of a version that knows no operation.
fn refuse(step: &mut Decision) {
    if step.phase == Phase::Granted && step.result.is_none() {
        step.action = None;
        (step.watch, step.hold) = (Watch::No, Hold::No);
        step.result = Some((Outcome::Refused, "UnsupportedOp".to_owned()));
    }
}
