//! Helper pods, which fetch images and try versions: at times, or for good, a namespace's quota or somebody's admission refuses them. All of
//! it is drawn apart.

use super::World;
use crate::clock::{Micros, SECOND};
use crate::faults::Fault;
use crate::trace::Who;
use crate::user::Deed;

/// What quotas and the admission of others say.
const WORDS: [&str; 2] = [
    "exceeded quota: small, requested: pods=1, used: pods=10, limited: pods=10",
    "admission webhook \"policy.example\" denied the request: such pods are not allowed here",
];

impl World {
    /// Where helper pods are refused in this round. Says when that is over, or goes on.
    pub(super) fn plan_helpers(&mut self) -> Micros {
        let start = self.ground.now;
        let Some(chance) = &mut self.ground.helpers else { return start };
        if !chance.happens(2_500) {
            return start;
        }
        let (who, words) = (chance.index(1_000), chance.index(WORDS.len()));
        let at = start + chance.delay(0, 10 * SECOND);
        self.user.at(at, Deed::RefuseHelpers(who, Some(words)));
        if !chance.happens(4_000) {
            return at;
        }
        let back = at + chance.delay(SECOND, 120 * SECOND);
        self.user.at(back, Deed::RefuseHelpers(who, None));
        back
    }

    pub(super) fn refuse_helpers(&mut self, who: usize, words: Option<usize>) {
        let namespace = self.user.desired[who % self.user.desired.len()].namespace.clone();
        let ground = &mut self.ground;
        let words = words.and_then(|index| WORDS.get(index)).copied();
        ground.say(Who::User, || format!("helper pods in {namespace}: {}", words.unwrap_or("accepted")));
        if words.is_some() {
            ground.fault(Fault::HelpersRefused);
        }
        ground.server.refuse_helpers(&namespace, words);
    }

    /// Nobody refuses them any more.
    pub(super) fn accept_helpers(&mut self) {
        self.ground.server.accept_helpers();
    }
}
