//! Namespaces with more PodTransitionRules or TransitionBudgets than are looked at: one that says no stands for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::crowd;
use hitless_api::pod_transition_rule::PodTransitionRuleSpec;
use hitless_api::transition_budget::{Scope, TransitionBudgetSpec};
use hitless_gate::Budget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Key;
use crate::snapshot::{RuleView, Version};

/// By key; `known` are those of the round before.
pub(super) fn rules(all: &[Arc<RuleView>], known: &BTreeMap<Key, Arc<RuleView>>) -> BTreeMap<Key, Arc<RuleView>> {
    let key = |rule: &RuleView| (rule.namespace.clone(), rule.name.clone());
    let for_all = |first: &RuleView, text: String| RuleView {
        version: Version { uid: first.version.uid.clone(), resource_version: String::new() },
        generation: 0,
        spec: PodTransitionRuleSpec { selector: Some(LabelSelector::default()), rules: Vec::new() },
        unreadable: Some(text),
        status: None,
        namespace: first.namespace.clone(),
        name: first.name.clone(),
    };
    counted("PodTransitionRules", all, known, key, |first, _, text| for_all(first, text))
}

/// The same of TransitionBudgets. One of them that is for the whole cluster makes the one that says no so, too.
pub(super) fn budgets(all: &[Arc<Budget>], known: &BTreeMap<Key, Arc<Budget>>) -> BTreeMap<Key, Arc<Budget>> {
    let key = |budget: &Budget| (budget.namespace.clone(), budget.name.clone());
    let wide: BTreeSet<&str> =
        all.iter().filter(|each| each.is_cluster_wide()).map(|each| each.namespace.as_str()).collect();
    let for_all = |first: &Budget, namespace: &str, text: String| {
        let scope = if wide.contains(namespace) { Scope::Cluster } else { Scope::default() };
        let spec =
            TransitionBudgetSpec { scope, selector: Some(LabelSelector::default()), ..TransitionBudgetSpec::default() };
        Budget { spec, unreadable: Some(text), ..first.clone() }
    };
    counted("TransitionBudgets", all, known, key, for_all)
}

fn counted<T: PartialEq>(
    kinds: &str,
    all: &[Arc<T>],
    known: &BTreeMap<Key, Arc<T>>,
    key: impl Fn(&T) -> Key,
    for_all: impl Fn(&T, &str, String) -> T,
) -> BTreeMap<Key, Arc<T>> {
    let mut counted: BTreeMap<Key, Arc<T>> = all.iter().map(|each| (key(each), Arc::clone(each))).collect();
    let crowded = crowd::crowded(counted.keys().map(|(namespace, _)| namespace.as_str()));
    let crowded: Vec<(String, usize)> = crowded.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    for (namespace, count) in crowded {
        let first = counted.range((namespace.clone(), String::new())..).next();
        let Some((key, first)) = first.map(|(key, first)| (key.clone(), Arc::clone(first))) else { continue };
        let text = format!("{}; until then nobody passes", crowd::text(kinds, &namespace, count));
        let one = for_all(&first, &namespace, text);
        // The same as in the round before is not told again.
        let one = known.get(&key).filter(|before| ***before == one).cloned().unwrap_or_else(|| Arc::new(one));
        counted.retain(|(other, _), _| *other != namespace);
        counted.insert(key, one);
    }
    counted
}
