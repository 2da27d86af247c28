//! Budgets that count by a label that no node of the cluster has: nobody ever goes under them.

use hitless_gate::{Denies, Gate, Settings};
use hitless_rollout::snapshot::NodeView;

use super::finding::Finding;
use super::object::{LimitObject, Limits};
use crate::files::Object;

/// The gate is asked, with the nodes that are known; of none nothing is said.
pub(super) fn check<'n>(objects: &[Object], nodes: impl IntoIterator<Item = &'n NodeView>) -> Vec<Finding> {
    let mut gate = Gate::new(Settings::default());
    for node in nodes {
        gate.set_node(&node.name, node.labels.clone());
    }
    let known = objects.iter().filter_map(|object| LimitObject::read(object).ok().flatten());
    let faults = known.filter_map(|each| {
        let Limits::Budget(budget) = &each.limits else { return None };
        let key = budget.spec.topology.as_ref().map(|topology| topology.key.clone())?;
        let line = each.object.node.line_of(&["spec", "topology", "key"]);
        let is_unknown = gate.is_unknown_node_label(&key);
        let because = Denies::NoNodeHasLabel { key };
        let advice = because.unblock().unwrap_or_default();
        is_unknown.then(|| Finding::error(each.object, line, format!("{because}; {advice}")))
    });
    faults.collect()
}
