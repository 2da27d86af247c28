//! The steps of a draft: its writes in their order, with what each needs.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::CLUSTER;
use hitless_api::{NodeTransitionSpec, TransitionLedgerSpec};

use crate::round::draft::NodeDraft;
use crate::round::write::{LedgerWrite, NodeTransitionWrite, RoleBindingWrite, Step, Write};
use crate::snapshot::Snapshot;

/// Adds steps on which nothing else of the round rests. Writes to workloads' objects name those that they need.
pub(crate) fn others(steps: &mut Vec<Step>, writes: Vec<Step>) {
    let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
    for mut step in writes {
        if let Write::Workload(write) = &step.write {
            // What it needs was not decided, or comes later: then the next round decides anew.
            let needs: Option<Vec<usize>> = write.needs.iter().map(|needed| by_key.get(needed).copied()).collect();
            let Some(needs) = needs else { continue };
            step.needs.extend(needs);
            by_key.insert(write.key(), steps.len());
        }
        steps.push(step);
    }
}

/// The writes of ledgers that are not as they should be; their indices by namespace.
pub(crate) fn ledgers<'a>(
    steps: &mut Vec<Step>,
    snapshot: &Snapshot,
    ledgers: BTreeMap<&'a str, TransitionLedgerSpec>,
    in_cluster: &BTreeSet<&str>,
) -> BTreeMap<&'a str, usize> {
    let mut indices = BTreeMap::new();
    // The cluster's comes first: it has the empty name.
    for (namespace, spec) in ledgers {
        let known = snapshot.ledgers.get(namespace);
        let same = |known: &TransitionLedgerSpec| known.reservations == spec.reservations && spec.fence.is_none();
        if known.map_or(spec.reservations.is_empty() && spec.fence.is_none(), |known| same(&known.spec)) {
            continue;
        }
        let needs = in_cluster.contains(namespace).then(|| indices.get(CLUSTER).copied()).flatten();
        indices.insert(namespace, steps.len());
        let version = known.map(|known| known.version.clone());
        let write = Write::Ledger(LedgerWrite { namespace: namespace.to_owned(), version, spec });
        steps.push(Step { write, needs: needs.into_iter().collect(), done: None });
    }
    indices
}

/// The RoleBindings that grants need and that are not there; their indices by namespace. One that somebody has deleted is made again
/// also for operations that are under way.
pub(crate) fn bindings(
    steps: &mut Vec<Step>,
    snapshot: &Snapshot,
    nodes: &BTreeMap<&str, NodeDraft>,
    ledgers: &BTreeMap<&str, usize>,
) -> BTreeMap<String, usize> {
    let running = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    let running =
        running.map(|grant| &grant.pod.namespace).filter(|namespace| snapshot.ledgers.contains_key(*namespace));
    let granted: BTreeSet<&String> = nodes.values().flat_map(|node| &node.added).chain(running).collect();
    let mut indices = BTreeMap::new();
    for namespace in granted {
        let ledger_uid = snapshot.ledgers.get(namespace).map(|ledger| ledger.version.uid.clone());
        let binding = snapshot.bindings.get(namespace);
        if binding.zip(ledger_uid.as_ref()).is_some_and(|(binding, ledger)| binding.serves(ledger)) {
            continue;
        }
        indices.insert(namespace.clone(), steps.len());
        let needs = ledgers.get(namespace.as_str()).copied().into_iter().collect();
        let write = Write::RoleBinding(RoleBindingWrite { namespace: namespace.clone(), ledger_uid });
        steps.push(Step { write, needs, done: None });
    }
    indices
}

/// The writes of NodeTransitions that are not as they should be.
pub(crate) fn nodes(
    steps: &mut Vec<Step>,
    snapshot: &Snapshot,
    nodes: BTreeMap<&str, NodeDraft>,
    ledgers: &BTreeMap<&str, usize>,
    bindings: &BTreeMap<String, usize>,
) {
    for (node, draft) in nodes {
        let known = snapshot.node_transitions.get(node);
        if draft.fence.is_none() && known.is_some_and(|known| known.spec.grants == draft.grants) {
            continue;
        }
        // Without the Node nobody could act on it, and it would be collected at once.
        let own = || snapshot.nodes.get(node).map(|node| node.uid.clone());
        let unknown = || snapshot.unknown.nodes.then(String::new);
        let Some(node_uid) = known.map(|known| known.spec.node_uid.clone()).or_else(own).or_else(unknown) else {
            continue;
        };
        let mut needs: Vec<usize> =
            draft.touched.iter().filter_map(|namespace| ledgers.get(namespace.as_str()).copied()).collect();
        needs.extend(draft.added.iter().filter_map(|namespace| bindings.get(namespace).copied()));
        let write = Write::NodeTransition(NodeTransitionWrite {
            node: node.to_owned(),
            version: known.map(|known| known.version.clone()),
            spec: NodeTransitionSpec {
                node_uid,
                epoch: snapshot.epoch,
                grants: draft.grants,
                propagation: draft.propagation,
            },
            fence: draft.fence,
        });
        steps.push(Step { write, needs, done: None });
    }
}
