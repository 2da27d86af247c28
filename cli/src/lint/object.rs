//! What lint knows of rules and budgets.

use hitless_api::{PodTransitionRule, TransitionBudget};
use hitless_gate::{Budget, DisruptionBudget, RuleSet};
use hitless_rollout::snapshot::RuleView;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::finding::Finding;
use crate::files::{Misread, Object};

/// An object that limits operations.
#[derive(Clone, Debug)]
pub(super) struct LimitObject<'a> {
    pub(super) object: &'a Object,
    pub(super) limits: Limits,
}

#[derive(Clone, Debug)]
pub(super) enum Limits {
    Rules(RuleSet),
    Budget(Budget),
    Disruption(DisruptionBudget),
}

impl<'a> LimitObject<'a> {
    /// `None` if the object is of no interest; an error if it can't be understood.
    pub(super) fn read(object: &'a Object) -> Result<Option<Self>, Misread> {
        let limits = match (object.group(), object.kind()) {
            ("apps.kusionstack.io", "PodTransitionRule") => {
                Limits::Rules(RuleSet::from(&RuleView::from(object.read::<PodTransitionRule>()?)))
            }
            ("hitless.dev", "TransitionBudget") => Limits::Budget(object.read::<TransitionBudget>()?.into()),
            ("policy", "PodDisruptionBudget") => Limits::Disruption(object.read::<PodDisruptionBudget>()?.into()),
            _ => return Ok(None),
        };
        if object.name().is_empty() {
            let text = "has no metadata.name; give it one".to_owned();
            return Err(Misread { line: object.node.line_of(&["metadata"]), text });
        }
        Ok(Some(Self { object, limits }))
    }

    pub(super) fn selector(&self) -> Option<&LabelSelector> {
        match &self.limits {
            Limits::Rules(set) => set.spec.selector.as_ref(),
            Limits::Budget(budget) => budget.spec.selector.as_ref(),
            Limits::Disruption(budget) => budget.selector.as_ref(),
        }
    }

    /// The same for everybody in its namespace.
    pub(super) fn for_everybody(&self) -> Limits {
        let mut limits = self.limits.clone();
        let everybody = Some(LabelSelector::default());
        match &mut limits {
            Limits::Rules(set) => set.spec.selector = everybody,
            Limits::Budget(budget) => budget.spec.selector = everybody,
            Limits::Disruption(budget) => budget.selector = everybody,
        }
        limits
    }

    pub(super) fn is_cluster_wide(&self) -> bool {
        matches!(&self.limits, Limits::Budget(budget) if budget.is_cluster_wide())
    }

    /// Where one of its rules or limits stands, as the schema's findings begin.
    pub(super) fn path_of_rule(&self, rule: &str) -> String {
        match &self.limits {
            Limits::Rules(set) => {
                let index = set.spec.rules.iter().position(|each| each.name == rule);
                index.map_or_else(|| "spec.rules".to_owned(), |index| format!("spec.rules[{index}]"))
            }
            Limits::Budget(_) | Limits::Disruption(_) => format!("spec.{}", self.field_of(rule)),
        }
    }

    /// Whether one of these says already what is wrong with the rule.
    pub(super) fn is_said(&self, rule: &str, findings: &[Finding]) -> bool {
        let path = self.path_of_rule(rule);
        findings.iter().filter(|said| said.is_error_of(self.object)).any(|said| {
            let rest = said.text.strip_prefix(&path);
            rest.is_some_and(|rest| rest.starts_with(['.', '[', ' ']))
        })
    }

    /// The field of a budget's limit.
    fn field_of<'r>(&self, rule: &'r str) -> &'r str {
        let spec = self.object.node.get("spec");
        match rule {
            "windows" if spec.is_some_and(|spec| spec.get("windows").is_none()) => "blackouts",
            other => other,
        }
    }

    /// The line of one of its rules or limits, as verdicts name it.
    pub(super) fn line_of_rule(&self, rule: &str) -> u64 {
        let node = &self.object.node;
        if let Some(rules) = node.get("spec").and_then(|spec| spec.get("rules")) {
            let named = rules
                .items()
                .iter()
                .find(|item| item.get("name").is_some_and(|name| name.to_json().as_str() == Some(rule)));
            return named.map_or(rules.line, |item| item.line);
        }
        node.line_of(&["spec", self.field_of(rule)])
    }
}
