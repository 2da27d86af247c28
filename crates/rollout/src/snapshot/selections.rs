//! Who finds pods by their labels.

use hitless_workloads::{By, Selection};

use super::Snapshot;

/// A selection, and the namespace in which it selects; `None`: in all of them.
type Named<'a> = (Option<&'a str>, Selection<'a>);

fn named<'a>(namespace: &'a str, kind: &'static str, name: &'a str, by: By<'a>) -> Named<'a> {
    (Some(namespace), Selection { kind, name, by })
}

impl Snapshot {
    /// Who finds pods by their labels, with the namespace in which; `None`: in all of them.
    pub fn selections(&self) -> impl Iterator<Item = (Option<&str>, Selection<'_>)> {
        let services = self
            .services
            .iter()
            .map(|service| named(&service.namespace, "Service", &service.name, By::Labels(&service.selector)));
        let disruption_budgets = self.disruption_budgets.iter().filter_map(|budget| {
            let by = By::Selector(budget.selector.as_ref()?);
            Some(named(&budget.namespace, "PodDisruptionBudget", &budget.name, by))
        });
        let rules = self.rules.iter().flat_map(|set| {
            let filters = set.spec.rules.iter().filter_map(|rule| rule.filter.as_ref()?.label_selector.as_ref());
            let all = set.spec.selector.iter().chain(filters);
            all.map(|by| named(&set.namespace, "PodTransitionRule", &set.name, By::Selector(by)))
        });
        let budgets = self.budgets.iter().filter_map(|budget| {
            let by = By::Selector(budget.spec.selector.as_ref()?);
            let (namespace, selection) = named(&budget.namespace, "TransitionBudget", &budget.name, by);
            Some((namespace.filter(|_| !budget.is_cluster_wide()), selection))
        });
        services.chain(disruption_budgets).chain(rules).chain(budgets)
    }
}
