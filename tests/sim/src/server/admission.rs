//! The policy that lets an agent set only what the ledger grants, with a copy of the ledger that is a moment old.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::Reservation;
use hitless_api::pod::PodView;
use hitless_rollout::snapshot::LedgerView;

use super::Refusal;
use crate::clock::{MS, Micros};

/// Age of the policy's copy of the ledger (measured on a real cluster: 68 ms).
const LAG: Micros = 70 * MS;

#[derive(Default)]
pub(super) struct Admission {
    /// By namespace: versions and from when they count, the oldest first.
    ledgers: BTreeMap<String, Vec<(Micros, Arc<LedgerView>)>>,
    /// Namespaces with the RoleBinding without which agents may operate no pod.
    bound: BTreeSet<String>,
}

impl Admission {
    pub(super) fn learn(&mut self, now: Micros, ledger: &Arc<LedgerView>) {
        let known = self.ledgers.entry(ledger.namespace.clone()).or_default();
        let current = known.iter().rposition(|(from, _)| *from <= now).unwrap_or(0);
        known.drain(..current);
        known.push((now + LAG, ledger.clone()));
    }

    pub(super) fn bind(&mut self, namespace: &str) {
        self.bound.insert(namespace.to_owned());
    }

    pub(super) fn unbind(&mut self, namespace: &str) {
        self.bound.remove(namespace);
    }

    fn reservation(&self, now: Micros, pod: &PodView) -> Option<&Reservation> {
        let known = self.ledgers.get(&pod.id.namespace)?;
        let (_, ledger) = known.iter().rev().find(|(from, _)| *from <= now)?;
        ledger.spec.reservations.get(&pod.id.uid)
    }

    /// Whether an agent may make `after` of `before`.
    pub(super) fn review(&self, now: Micros, before: &PodView, after: &PodView) -> Result<(), Refusal> {
        let place = self.reservation(now, after);
        let lowers =
            after.in_service().is_some_and(|is| !is.is_true) && before.in_service().is_none_or(|is| is.is_true);
        let replaces = after.containers.iter().zip(&before.containers).any(|(new, old)| new.image != old.image);
        // manifests/rbac/agent.yaml: without it there is neither the right to patch pods nor to operate. InService may be raised.
        if (lowers || replaces) && !self.bound.contains(&after.id.namespace) {
            return Err(Refusal::Denied("RBAC: no RoleBinding lets agents operate pods of this namespace"));
        }
        if lowers && place.is_none() {
            return Err(Refusal::Denied("out of service: the namespace's ledger has no reservation for this pod"));
        }
        let allowed = |container: &str, image: &String| {
            place.is_some_and(|place| {
                place.images.get(container) == Some(image) || place.from_images.get(container) == Some(image)
            })
        };
        let changed = after.containers.iter().zip(&before.containers).filter(|(new, old)| new.image != old.image);
        for (container, _) in changed {
            if !allowed(&container.name, &container.image) {
                return Err(Refusal::Denied("image: only those that the namespace's ledger names for this pod"));
            }
        }
        Ok(())
    }
}
