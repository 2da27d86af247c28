//! Budgets and rules of every kind, read once into one form: a list of checks.

mod budget;
mod limit;
mod power;
mod rule_set;
pub(crate) mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::selector::{self, Selector};
use crate::{Allows, Budget, Denies, DisruptionBudget, RuleSet};
pub(crate) use limit::{Bound, Limits, Rounding};
use window::Windows;

/// Which object a group of pods comes from: namespace and name. Groups are asked in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    RuleSet(String, String),
    Budget(String, String),
    Disruption(String, String),
}

/// What is asked before a pod of a group may go.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// `None`: the implicit budget of an owner.
    pub(crate) source: Option<Source>,
    pub(crate) rules: Vec<Rule>,
    /// It asks about nodes, so that these are counted.
    pub(crate) counts_nodes: bool,
    /// It asks when pods were back, so that this is counted.
    pub(crate) counts_returns: bool,
    /// Pods of the group have no implicit budget.
    pub(crate) replaces_implicit: bool,
    /// How many failures it tolerates, if it says so.
    pub(crate) max_failures: Option<u32>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// Name in verdicts, see [`crate::RuleVerdict::rule`].
    pub(crate) path: Arc<str>,
    /// Name that a pod's annotation may excuse it from; none for our own budgets.
    pub(crate) name: Option<String>,
    pub(crate) stage: Stage,
    pub(crate) filter: Option<Selector<'static>>,
    pub(crate) conditions: BTreeSet<String>,
    pub(crate) check: Check,
}

/// When a rule is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before an operation.
    PreCheck,
    /// Before the operated pod returns.
    PostCheck,
    /// Never.
    Other(String),
}

/// What a rule asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Check {
    /// Passes everybody.
    Pass(Allows),
    /// Passes nobody.
    Deny(Denies),
    /// Passes pods with these labels.
    Labels(Selector<'static>),
    /// Passes whom an approver lets go.
    Approval { ignores_failure: bool },
    /// Passes at these times.
    Windows(Windows),
    /// Passes some time after the last pod was back, and nobody while a wave is under way.
    Soak { seconds: u32 },
    /// Passes while fewer operations have failed.
    Failures { most: u32 },
    /// Passes as long as there is room.
    Availability(Limits),
    /// Passes as long as no more nodes than these have an unavailable pod.
    Nodes(Bound),
    /// Passes as long as no more values of a node's label than these have an unavailable pod.
    Topology { key: String, most: u64 },
    /// Passes if so many stay on the pod's node.
    PerNode { fewest: u64 },
    /// Passes as long as fewer are operated.
    Concurrent { most: u64 },
}

impl Check {
    /// Whether it could keep anybody.
    pub(crate) fn has_effect(&self) -> bool {
        !matches!(self, Self::Pass(_))
    }
}

impl Rule {
    /// A check that concerns all pods of the group before their operation.
    fn pre_check(path: String, check: Check) -> Self {
        Self { path: path.into(), name: None, stage: Stage::PreCheck, filter: None, conditions: BTreeSet::new(), check }
    }
}

impl Policy {
    pub(crate) fn implicit() -> Self {
        Self {
            source: None,
            rules: Vec::new(),
            counts_nodes: false,
            counts_returns: false,
            replaces_implicit: false,
            max_failures: None,
        }
    }

    pub(crate) fn of_rule_set(set: &RuleSet, skipped_kinds: &BTreeSet<String>) -> Self {
        Self {
            source: Some(Source::RuleSet(set.namespace.clone(), set.name.clone())),
            rules: governing(&set.name, set.spec.selector.as_ref(), || rule_set::rules(set, skipped_kinds)),
            replaces_implicit: true,
            ..Self::implicit()
        }
    }

    pub(crate) fn of_budget(budget: &Budget) -> Self {
        let rules = governing(&budget.name, budget.spec.selector.as_ref(), || budget::rules(budget));
        let counts_nodes = rules
            .iter()
            .any(|rule| matches!(rule.check, Check::Nodes(_) | Check::Topology { .. } | Check::PerNode { .. }));
        let counts_returns = rules.iter().any(|rule| matches!(rule.check, Check::Soak { .. }));
        let replaces_implicit = rules.iter().any(|rule| matches!(rule.check, Check::Availability(_)));
        let max_failures = budget.spec.max_failures;
        let source = Some(Source::Budget(budget.namespace.clone(), budget.name.clone()));
        Self { source, rules, counts_nodes, counts_returns, replaces_implicit, max_failures }
    }

    pub(crate) fn of_disruption_budget(budget: &DisruptionBudget) -> Self {
        let source = Some(Source::Disruption(budget.namespace.clone(), budget.name.clone()));
        let rules = governing(&budget.name, budget.selector.as_ref(), || vec![budget::disruption(budget)]);
        Self { source, rules, ..Self::implicit() }
    }
}

/// The rules of an object that limits. If nobody can tell for whom it is, nobody whom it might mean may go.
fn governing(object: &str, selector: Option<&LabelSelector>, rules: impl FnOnce() -> Vec<Rule>) -> Vec<Rule> {
    match selector.and_then(selector::fault) {
        None => rules(),
        Some(fault) => {
            let text = format!("spec.selector: {fault}");
            vec![Rule::pre_check(format!("{object}/spec.selector"), Check::Deny(Denies::Misconfigured { text }))]
        }
    }
}

fn selector_faults(selector: Option<&LabelSelector>) -> Option<String> {
    let Some(selector) = selector else {
        return Some("spec.selector is absent, so the rules govern no pod; set it".to_owned());
    };
    let fault = selector::fault(selector)?;
    Some(format!("spec.selector: {fault}; no pod that it might mean passes until then"))
}

fn rule_faults(rules: &[Rule]) -> impl Iterator<Item = String> {
    rules.iter().filter_map(|rule| {
        let name = rule.path.split_once('/').map_or(&*rule.path, |(_, name)| name);
        match &rule.check {
            Check::Deny(Denies::Misconfigured { text }) => {
                Some(format!("rule {name}: {text}; nobody passes until then"))
            }
            _ => None,
        }
    })
}

impl RuleSet {
    /// Whether the rules govern a pod. Without a selector they govern nobody, with one that can't be understood all of the namespace.
    #[must_use]
    pub fn selects(&self, pod: &crate::PodFacts) -> bool {
        self.namespace == pod.namespace
            && self.spec.selector.as_ref().is_some_and(|selector| selector::limits(selector, &pod.labels))
    }

    /// What the author of the rules should mend, in words; each text begins with what it is about.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let rules = rule_set::rules(self, &BTreeSet::new());
        selector_faults(self.spec.selector.as_ref()).into_iter().chain(rule_faults(&rules)).collect()
    }
}

impl DisruptionBudget {
    /// What its author should mend, in words.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        match &self.selector {
            None => vec!["spec.selector is absent, so it selects no pod; set it".to_owned()],
            Some(selector) => selector_faults(Some(selector)).into_iter().collect(),
        }
    }
}

impl Budget {
    /// Whether it limits a pod. With a selector that can't be understood it limits all of its scope.
    #[must_use]
    pub fn selects(&self, pod: &crate::PodFacts) -> bool {
        (self.namespace == pod.namespace || self.is_cluster_wide())
            && self.spec.selector.as_ref().is_some_and(|selector| selector::limits(selector, &pod.labels))
    }

    /// What its author should mend, in words.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let rules = budget::rules(self);
        selector_faults(self.spec.selector.as_ref()).into_iter().chain(rule_faults(&rules)).collect()
    }
}
