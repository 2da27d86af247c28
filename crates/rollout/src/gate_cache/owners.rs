//! What the gate knows of workloads.

use std::collections::{BTreeSet, HashMap};

use hitless_api::OwnerKey;
use hitless_gate::{Gate, OwnerFacts};
use hitless_workloads::Owners;

use crate::snapshot::Snapshot;

/// What the gate was told of owners.
#[derive(Default)]
pub(super) struct Tops {
    /// Top workload by uid of the ReplicaSet.
    of_set: HashMap<String, OwnerKey>,
    desired: HashMap<OwnerKey, u32>,
}

impl Tops {
    /// Tells the gate how many pods workloads want; returns the ReplicaSets whose pods belong to another workload than before.
    pub(super) fn look(&mut self, snapshot: &Snapshot, owners: &Owners<'_>, gate: &mut Gate) -> BTreeSet<String> {
        let (mut of_set, mut desired) = (HashMap::new(), HashMap::new());
        for set in &snapshot.replica_sets {
            let (top, wanted) = owners.top(set);
            if let Some(wanted) = wanted {
                desired.insert(top.clone(), wanted);
            }
            of_set.insert(set.uid.clone(), top);
        }
        for (top, wanted) in desired.iter().filter(|(top, wanted)| self.desired.get(*top) != Some(*wanted)) {
            gate.set_owner(top, Some(OwnerFacts { desired: *wanted }));
        }
        for gone in self.desired.keys().filter(|top| !desired.contains_key(*top)) {
            gate.set_owner(gone, None);
        }
        let gone = self.of_set.keys().filter(|set| !of_set.contains_key(*set));
        let moved = of_set.iter().filter(|(set, top)| self.of_set.get(*set) != Some(*top)).map(|(set, _)| set);
        let moved = moved.chain(gone).cloned().collect();
        (self.of_set, self.desired) = (of_set, desired);
        moved
    }
}
