//! Namespaces that can't be read: nothing begins or ends there.

use hitless_api::{Grant, Reservation};
use hitless_rollout::round::Step;
use hitless_rollout::snapshot::{LedgerView, NodeTransitionView, Snapshot};

use super::Checks;
use crate::clock::Micros;

impl Checks {
    /// A controller has decided these writes while it could not read some namespaces.
    pub(super) fn left_out(&mut self, now: Micros, snapshot: &Snapshot, steps: &[Step]) {
        let Some(name) = snapshot.left_out.keys().next() else { return };
        let is_theirs = |grant: &&Grant| grant.pod.namespace == *name;
        for step in steps {
            let is_kept = if let Some(ledger) = LedgerView::after(&step.write, None) {
                let known = snapshot.ledgers.get(&ledger.namespace).map(|known| &known.spec.reservations);
                let theirs = |place: &&Reservation| {
                    ledger.namespace == *name || place.pod.split_once('/').is_some_and(|(of, _)| of == name)
                };
                let before = known.into_iter().flat_map(|known| known.values()).filter(theirs);
                before.eq(ledger.spec.reservations.values().filter(theirs))
            } else if let Some(next) = NodeTransitionView::after(&step.write, None) {
                let known = snapshot.node_transitions.get(&next.node);
                let before = known.into_iter().flat_map(|known| &known.spec.grants).filter(is_theirs);
                before.eq(next.spec.grants.iter().filter(is_theirs))
            } else {
                // By a RoleBinding agents go on with what is under way.
                step.write.verb == "role-binding" || step.write.namespace() != Some(name)
            };
            if !is_kept {
                let key = step.write.key();
                self.fail(now, format!("{key} is written though namespace {name} can't be read: {:?}", step.write));
            }
        }
    }
}
