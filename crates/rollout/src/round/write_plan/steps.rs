//! The steps of a plan of writes: its writes in their order, with what each needs.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::CLUSTER;
use hitless_api::{NodeTransitionSpec, TransitionLedgerSpec};
use hitless_workloads::Write;

use crate::round::write::{self, Step};
use crate::round::write_plan::NodeWrites;
use crate::snapshot::Snapshot;

/// The writes with the places of those that they need. Where one of these was not decided, or comes later, the next round decides anew.
pub(crate) fn in_places(writes: Vec<Write>) -> Vec<Step> {
    let (mut steps, mut by_key): (Vec<Step>, BTreeMap<String, usize>) = (Vec::new(), BTreeMap::new());
    for write in writes {
        let needs: Option<Vec<usize>> = write.needs.iter().map(|needed| by_key.get(needed).copied()).collect();
        let Some(needs) = needs else { continue };
        by_key.insert(write.key(), steps.len());
        steps.push(Step { write, needs });
    }
    steps
}

/// The writes of ledgers that are not as they should be; their keys by namespace.
pub(crate) fn ledgers<'a>(
    writes: &mut Vec<Write>,
    snapshot: &Snapshot,
    ledgers: BTreeMap<&'a str, TransitionLedgerSpec>,
    in_cluster: &BTreeSet<&str>,
) -> BTreeMap<&'a str, String> {
    let mut keys = BTreeMap::new();
    // The cluster's comes first: it has the empty name.
    for (namespace, spec) in ledgers {
        let known = snapshot.ledgers.get(namespace);
        let same = |known: &TransitionLedgerSpec| known.reservations == spec.reservations && spec.fence.is_none();
        if known.map_or(spec.reservations.is_empty() && spec.fence.is_none(), |known| same(&known.spec)) {
            continue;
        }
        let needs = in_cluster.contains(namespace).then(|| keys.get(CLUSTER).cloned()).flatten();
        let write = write::ledger(namespace, known.map(|known| &known.version), spec).needing(needs);
        keys.insert(namespace, write.key());
        writes.push(write);
    }
    keys
}

/// The RoleBindings that grants need and that are not there; their keys by namespace. One that somebody has deleted is made again
/// also for operations that are under way.
pub(crate) fn bindings(
    writes: &mut Vec<Write>,
    snapshot: &Snapshot,
    nodes: &BTreeMap<&str, NodeWrites>,
    ledgers: &BTreeMap<&str, String>,
) -> BTreeMap<String, String> {
    let running = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    let running =
        running.map(|grant| &grant.pod.namespace).filter(|namespace| snapshot.ledgers.contains_key(*namespace));
    let granted: BTreeSet<&String> = nodes.values().flat_map(|node| &node.added).chain(running).collect();
    let mut keys = BTreeMap::new();
    for namespace in granted {
        let ledger_uid = snapshot.ledgers.get(namespace).map(|ledger| ledger.version.uid.as_str());
        let binding = snapshot.bindings.get(namespace);
        if binding.zip(ledger_uid).is_some_and(|(binding, ledger)| binding.serves(ledger)) {
            continue;
        }
        let write = write::role_binding(namespace, ledger_uid).needing(ledgers.get(namespace.as_str()).cloned());
        keys.insert(namespace.clone(), write.key());
        writes.push(write);
    }
    keys
}

/// The writes of NodeTransitions that are not as they should be.
pub(crate) fn nodes(
    writes: &mut Vec<Write>,
    snapshot: &Snapshot,
    nodes: BTreeMap<&str, NodeWrites>,
    ledgers: &BTreeMap<&str, String>,
    bindings: &BTreeMap<String, String>,
) {
    for (node, node_writes) in nodes {
        let known = snapshot.node_transitions.get(node);
        if node_writes.fence.is_none() && known.is_some_and(|known| known.spec.grants == node_writes.grants) {
            continue;
        }
        // Without the Node nobody could act on it, and it would be collected at once.
        let own = || snapshot.nodes.get(node).map(|node| node.uid.clone());
        let unknown = || snapshot.unknown.nodes.then(String::new);
        let Some(node_uid) = known.map(|known| known.spec.node_uid.clone()).or_else(own).or_else(unknown) else {
            continue;
        };
        let ledgers = node_writes.touched.iter().filter_map(|namespace| ledgers.get(namespace.as_str()));
        let bindings = node_writes.added.iter().filter_map(|namespace| bindings.get(namespace));
        let needs: Vec<String> = ledgers.chain(bindings).cloned().collect();
        let (grants, propagation) = (node_writes.grants, node_writes.propagation);
        let spec = NodeTransitionSpec { node_uid, epoch: snapshot.epoch, grants, propagation };
        let write = write::node_transition(node, known.map(|known| &known.version), spec, node_writes.fence);
        writes.push(write.needing(needs));
    }
}
