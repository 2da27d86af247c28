//! Who owns pods in the end.

use std::collections::{BTreeSet, HashMap};

use hitless_api::pod::PodView;
use hitless_gate::{Gate, OwnerFacts, OwnerKey};
use hitless_workloads::{DeploymentView, ReplicaSetView};

use crate::snapshot::Snapshot;

/// The workloads of a snapshot by uid.
pub(crate) struct Owners<'a> {
    sets: HashMap<&'a str, &'a ReplicaSetView>,
    deployments: HashMap<&'a str, &'a DeploymentView>,
}

impl<'a> Owners<'a> {
    pub(crate) fn of_snapshot(snapshot: &'a Snapshot) -> Self {
        Self {
            sets: snapshot.replica_sets.iter().map(|set| (set.uid.as_str(), &**set)).collect(),
            deployments: snapshot.deployments.iter().map(|each| (each.uid.as_str(), &**each)).collect(),
        }
    }

    /// The top workload of the pod, and how many pods that is meant to have if that is known.
    pub(crate) fn of(&self, pod: &PodView) -> Option<(OwnerKey, Option<u32>)> {
        let direct = pod.owner.as_ref()?;
        let Some(set) = self.sets.get(direct.uid.as_str()) else {
            return Some((key(&direct.kind, &pod.id.namespace, &direct.name, &direct.uid), None));
        };
        Some(self.top(set, &pod.id.namespace))
    }

    /// `<kind>/<name>` of the top workload, or empty.
    pub(crate) fn label(&self, pod: &PodView) -> String {
        self.of(pod).map(|(owner, _)| format!("{}/{}", owner.kind, owner.name)).unwrap_or_default()
    }

    fn top(&self, set: &ReplicaSetView, namespace: &str) -> (OwnerKey, Option<u32>) {
        match set.owner.as_ref().and_then(|owner| self.deployments.get(owner.uid.as_str())) {
            Some(top) => (key("Deployment", namespace, &top.name, &top.uid), u32::try_from(top.replicas).ok()),
            None => (key("ReplicaSet", namespace, &set.name, &set.uid), u32::try_from(set.replicas).ok()),
        }
    }
}

fn key(kind: &str, namespace: &str, name: &str, uid: &str) -> OwnerKey {
    OwnerKey { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

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
            let (top, wanted) = owners.top(set, &set.namespace);
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
