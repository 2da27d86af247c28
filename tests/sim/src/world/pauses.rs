//! Pauses: users stop workloads in the middle of everything, and let them go on.

use hitless_api::names::annotations;

use super::World;
use crate::clock::{MS, Micros, SECOND};
use crate::faults::Fault;
use crate::trace::Who;
use crate::user::Deed;

impl World {
    /// Who is paused in this round and who goes on; some stay paused until a later one. Says when the last of that happens.
    pub(super) fn plan_pauses(&mut self) -> Micros {
        let (start, mut last) = (self.ground.now, self.ground.now);
        for index in 0..self.user.desired.len() {
            let is_paused = self.is_paused(index);
            let Some(chance) = &mut self.ground.pauses else { return last };
            let mut at = start + chance.delay(0, 25 * SECOND);
            if !is_paused {
                if !chance.happens(4_000) {
                    continue;
                }
                self.user.at(at, Deed::Pause(index, true));
                at += chance.delay(100 * MS, 60 * SECOND);
            }
            if chance.happens(7_000) {
                self.user.at(at, Deed::Pause(index, false));
                last = last.max(at);
            }
        }
        last
    }

    fn is_paused(&self, index: usize) -> bool {
        self.workload(index).is_some_and(|known| known.view.annotations.contains_key(annotations::PAUSED))
    }

    /// `kubectl hitless pause` and `resume`.
    pub(super) fn pause(&mut self, index: usize, paused: bool) {
        if self.is_paused(index) == paused {
            return;
        }
        let Some(known) = self.workload(index).cloned() else { return };
        let (now, name, uid) = (self.ground.now, &known.view.id.name, &known.view.id.uid);
        self.ground.fault(if paused { Fault::Paused } else { Fault::Resumed });
        self.ground.say(Who::User, || format!("{} {name}", if paused { "pauses" } else { "resumes" }));
        self.ground.checks.paused(uid, paused.then_some(now));
        self.ground.server.change_object(&known.key(), |object| {
            if paused {
                object["metadata"]["annotations"][annotations::PAUSED] = "true".into();
            } else if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.remove(annotations::PAUSED);
            }
        });
    }
}
