//! What the gate knows of workloads.

use std::collections::{BTreeSet, HashMap};

use hitless_api::ObjectRef;
use hitless_gate::{Gate, OwnerFacts};
use hitless_workloads::World;
use hitless_workloads::kind::Size;
use hitless_workloads::registry;

use crate::snapshot::Snapshot;

/// What the gate was told of owners.
#[derive(Default)]
pub(super) struct TopOwners {
    /// Top workload by uid of an object that belongs to another one.
    above: HashMap<String, ObjectRef>,
    sizes: HashMap<ObjectRef, Size>,
}

impl TopOwners {
    /// Tells the gate how many pods workloads want; returns the objects whose pods belong to another workload than before.
    pub(super) fn sync(&mut self, snapshot: &Snapshot, world: &World<'_>, gate: &mut Gate) -> BTreeSet<String> {
        let (mut above, mut sizes) = (HashMap::new(), HashMap::new());
        for object in &snapshot.objects {
            let top = world.top_of(object);
            if top.id == object.id {
                if let Some(size) = registry::size(object) {
                    sizes.insert(top.id.clone(), size);
                }
            } else {
                above.insert(object.id.uid.clone(), top.id.clone());
            }
        }
        for (top, size) in sizes.iter().filter(|(top, size)| self.sizes.get(*top) != Some(*size)) {
            let Size { desired, surplus: _, max_unavailable, counts_extra_pods } = *size;
            gate.set_owner(top, Some(OwnerFacts { desired, max_unavailable, counts_extra_pods }));
        }
        for gone in self.sizes.keys().filter(|top| !sizes.contains_key(*top)) {
            gate.set_owner(gone, None);
        }
        let gone = self.above.keys().filter(|object| !above.contains_key(*object));
        let moved =
            above.iter().filter(|(object, top)| self.above.get(*object) != Some(*top)).map(|(object, _)| object);
        let moved = moved.chain(gone).cloned().collect();
        (self.above, self.sizes) = (above, sizes);
        moved
    }
}
