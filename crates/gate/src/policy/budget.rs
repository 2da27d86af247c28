//! Limits of a TransitionBudget and of a PodDisruptionBudget.

use hitless_api::names;
use hitless_api::transition_budget::Scope;

use super::rule_set::misconfigured;
use super::window::Windows;
use super::{Bound, Check, Limits, Rounding, Rule};
use crate::verdict::DISRUPTION_BUDGET;
use crate::{Allows, Budget, Denies, DisruptionBudget};

/// One rule for each field that is set.
pub(super) fn rules(budget: &Budget) -> Vec<Rule> {
    let prefix = if budget.is_cluster_wide() {
        format!("budget:{}.{}", budget.namespace, budget.name)
    } else {
        format!("budget:{}", budget.name)
    };
    let spec = &budget.spec;
    let mut rules = Vec::new();
    let mut add = |name: &str, check: Check| rules.push(Rule::pre_check(format!("{prefix}/{name}"), check));
    if let Some(fault) = &budget.unreadable {
        add("spec", misconfigured(fault.clone()));
    }
    if spec.scope == Scope::Cluster && !budget.is_cluster_wide() {
        let text =
            format!("scope Cluster is obeyed in namespace {} only; move the budget there", names::system_namespace());
        add("scope", misconfigured(text));
    }
    if spec.paused {
        add("paused", Check::Deny(Denies::Paused));
    }
    if !spec.windows.is_empty() || !spec.blackouts.is_empty() {
        add("windows", Windows::parse(&spec.windows, &spec.blackouts).map_or_else(misconfigured, Check::Windows));
    }
    if let Some(most) = spec.max_failures {
        add("maxFailures", Check::Failures { most });
    }
    if let Some(seconds) = spec.soak_seconds {
        add("soakSeconds", Check::Soak { seconds });
    }
    // Our own budgets round to the safe side (docs/contract.md#rounding).
    let max = spec.max_unavailable.as_ref().map(|value| Bound::parse("maxUnavailable", value, Rounding::Down));
    match max.transpose() {
        Ok(None) => {}
        Ok(max_unavailable) => {
            add("maxUnavailable", Check::Availability(Limits { max_unavailable, ..Limits::default() }));
        }
        Err(text) => add("maxUnavailable", misconfigured(text)),
    }
    let min = spec.min_available.as_ref().map(|value| Bound::parse("minAvailable", value, Rounding::Up));
    match min.transpose() {
        Ok(None) => {}
        Ok(min_available) => add("minAvailable", Check::Availability(Limits { min_available, ..Limits::default() })),
        Err(text) => add("minAvailable", misconfigured(text)),
    }
    if let Some(value) = &spec.max_unavailable_nodes {
        let bound = Bound::parse("maxUnavailableNodes", value, Rounding::Down);
        add("maxUnavailableNodes", bound.map_or_else(misconfigured, Check::Nodes));
    }
    if let Some(topology) = &spec.topology {
        let most = u64::from(topology.max_unavailable_domains);
        add("topology", Check::Topology { key: topology.key.clone(), most });
    }
    if let Some(fewest) = spec.per_node_min_available {
        add("perNodeMinAvailable", Check::PerNode { fewest: u64::from(fewest) });
    }
    if let Some(most) = spec.max_concurrent {
        add("maxConcurrent", Check::Concurrent { most: u64::from(most) });
    }
    rules
}

/// A PodDisruptionBudget counts as the disruption controller has it: both of its percentages round up.
pub(super) fn disruption(budget: &DisruptionBudget) -> Rule {
    let side =
        |name, value: &Option<_>| value.as_ref().map(|value| Bound::parse(name, value, Rounding::Up)).transpose();
    let check = match (side("minAvailable", &budget.min_available), side("maxUnavailable", &budget.max_unavailable)) {
        (Ok(None), Ok(None)) => Check::Pass(Allows::Empty),
        (Ok(min_available), Ok(max_unavailable)) => {
            Check::Availability(Limits { max_unavailable, min_available, counts_extra_pods: true })
        }
        (Err(text), _) | (_, Err(text)) => misconfigured(text),
    };
    Rule::pre_check(format!("{DISRUPTION_BUDGET}{}", budget.name), check)
}
