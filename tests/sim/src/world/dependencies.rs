//! What the readiness probes of a whole workload ask goes away for a while: its containers run on, and none of its pods is Ready.

use super::World;
use crate::clock::{Micros, SECOND};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::trace::Who;
use crate::user::Deed;

impl World {
    /// Whose dependency goes in this round. Says when the last one does.
    pub(super) fn plan_dependencies(&mut self) -> Micros {
        let (start, mut last) = (self.ground.now, self.ground.now);
        let chance = &mut self.ground.dependencies;
        for index in 0..self.user.desired.len() {
            if !chance.happens(2_500) {
                continue;
            }
            let (at, length) = (start + chance.delay(0, 40 * SECOND), chance.delay(2 * SECOND, 40 * SECOND));
            self.user.at(at, Deed::DependencyAway(index, length));
            last = last.max(at);
        }
        last
    }

    pub(super) fn dependency_away(&mut self, who: usize, length: Micros) {
        let now = self.ground.now;
        let Some(key) = self.dependency(who) else { return };
        self.ground.fault(Fault::DependencyAway);
        self.ground.say(Who::User, || format!("readiness probes of {} fail", key.1));
        self.ground.checks.is_disturbed(now, &key, true);
        self.ground.away.insert(key);
        self.user.at(now + length, Deed::DependencyBack(who));
        self.probe();
    }

    pub(super) fn dependency_back(&mut self, who: usize) {
        let Some(key) = self.dependency(who) else { return };
        if self.ground.away.remove(&key) {
            self.ground.checks.is_disturbed(self.ground.now, &key, false);
            self.ground.say(Who::User, || format!("readiness probes of {} may pass again", key.1));
            self.probe();
        }
    }

    /// All of them.
    pub(super) fn dependencies_back(&mut self) {
        if !self.ground.away.is_empty() {
            let Ground { now, checks, away, .. } = &mut self.ground;
            for key in std::mem::take(away) {
                checks.is_disturbed(*now, &key, false);
            }
            self.probe();
        }
    }

    /// Namespace and name of a workload.
    fn dependency(&self, who: usize) -> Option<(String, String)> {
        let wanted = self.user.desired.get(who % self.user.desired.len().max(1))?;
        Some((wanted.namespace.clone(), wanted.name.clone()))
    }

    fn probe(&mut self) {
        let now = self.ground.now;
        self.nodes.iter_mut().for_each(|node| node.kubelet.probe(now));
    }
}
