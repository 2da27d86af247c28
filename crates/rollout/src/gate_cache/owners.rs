//! What the gate knows of workloads.

use std::collections::{BTreeSet, HashMap};

use hitless_api::ObjectRef;
use hitless_gate::{Gate, OwnerFacts};
use hitless_workloads::{World, kind};

use crate::snapshot::Snapshot;

/// What the gate was told of owners.
#[derive(Default)]
pub(super) struct TopOwners {
    /// Top workload by uid of an object that belongs to another one.
    above: HashMap<String, ObjectRef>,
    desired: HashMap<ObjectRef, u32>,
}

impl TopOwners {
    /// Tells the gate how many pods workloads want; returns the objects whose pods belong to another workload than before.
    pub(super) fn sync(&mut self, snapshot: &Snapshot, world: &World<'_>, gate: &mut Gate) -> BTreeSet<String> {
        let (mut above, mut desired) = (HashMap::new(), HashMap::new());
        for object in &snapshot.objects {
            let top = world.top_of(object);
            if top.id == object.id {
                if let Some(wanted) = kind::desired(object) {
                    desired.insert(top.id.clone(), wanted);
                }
            } else {
                above.insert(object.id.uid.clone(), top.id.clone());
            }
        }
        for (top, wanted) in desired.iter().filter(|(top, wanted)| self.desired.get(*top) != Some(*wanted)) {
            gate.set_owner(top, Some(OwnerFacts { desired: *wanted }));
        }
        for gone in self.desired.keys().filter(|top| !desired.contains_key(*top)) {
            gate.set_owner(gone, None);
        }
        let gone = self.above.keys().filter(|object| !above.contains_key(*object));
        let moved =
            above.iter().filter(|(object, top)| self.above.get(*object) != Some(*top)).map(|(object, _)| object);
        let moved = moved.chain(gone).cloned().collect();
        (self.above, self.desired) = (above, desired);
        moved
    }
}
