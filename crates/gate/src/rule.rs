//! A rule of a PodTransitionRule, read once for all pods of a round.

use hitless_api::pod_transition_rule::TransitionRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::limit::{LimitFault, Limits};
use crate::{Because, PodFacts, RuleSet, selector};

/// What a rule asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Check<'a> {
    /// Passes everybody.
    Pass(Because),
    /// Passes nobody.
    Deny(Because),
    /// Passes pods with these labels.
    Labels(&'a LabelSelector),
    /// Passes pods as long as there is room.
    Availability(Limits),
}

/// A rule that has been read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule<'a> {
    /// `<PodTransitionRule>/<rule>`.
    pub(crate) path: String,
    filter: Option<&'a LabelSelector>,
    check: Check<'a>,
}

impl<'a> Rule<'a> {
    pub(crate) fn read(rule_set: &str, rule: &'a TransitionRule) -> Self {
        let filter = rule.filter.as_ref().and_then(|filter| filter.label_selector.as_ref());
        Self { path: format!("{rule_set}/{}", rule.name), filter, check: check(rule, filter) }
    }

    /// What the rule asks of this pod.
    pub(crate) fn check(&self, pod: &PodFacts) -> Check<'a> {
        match self.filter {
            Some(filter) if self.has_effect() && !selector::matches(filter, &pod.labels) => {
                Check::Pass(Because::FilteredOut)
            }
            _ => self.check.clone(),
        }
    }

    fn has_effect(&self) -> bool {
        match &self.check {
            // A filter with a fault matches nobody, and must not let everybody pass because of that.
            Check::Deny(Because::Misconfigured { .. }) | Check::Pass(_) => false,
            Check::Deny(_) | Check::Labels(_) | Check::Availability(_) => true,
        }
    }
}

/// Upstream's order of precedence: switched off, other stage, conditions; then the first of availablePolicy, labelCheck and
/// webhook that is set.
fn check<'a>(rule: &'a TransitionRule, filter: Option<&LabelSelector>) -> Check<'a> {
    if rule.disabled {
        return Check::Pass(Because::Disabled);
    }
    if let Some(stage) = rule.stage.as_deref().filter(|stage| *stage != "PreCheck") {
        return Check::Pass(Because::OtherStage { stage: stage.to_owned() });
    }
    if !rule.conditions.is_empty() {
        return Check::Pass(Because::UnknownConditions { conditions: rule.conditions.clone() });
    }
    if let Some(fault) = filter.and_then(selector::fault) {
        return misconfigured(format!("filter.labelSelector: {fault}"));
    }
    if let Some(available) = &rule.available_policy {
        match Limits::parse(available) {
            Ok(limits) => Check::Availability(limits),
            Err(LimitFault::NotEvaluated(kind)) => Check::Deny(Because::NotEvaluated { kind: kind.to_owned() }),
            Err(LimitFault::Misconfigured(text)) => misconfigured(text),
        }
    } else if let Some(labels) = &rule.label_check {
        match &labels.requires {
            None => misconfigured("labelCheck asks for nothing; set requires".to_owned()),
            Some(requires) => match selector::fault(requires) {
                Some(fault) => misconfigured(format!("labelCheck.requires: {fault}")),
                None => Check::Labels(requires),
            },
        }
    } else if rule.webhook.is_some() {
        Check::Deny(Because::NotEvaluated { kind: "webhook".to_owned() })
    } else {
        Check::Pass(Because::Empty)
    }
}

fn misconfigured<'a>(text: String) -> Check<'a> {
    Check::Deny(Because::Misconfigured { text })
}

impl RuleSet {
    /// Whether the rules govern this pod. Without a selector, or with one that can't be understood, they govern nobody.
    #[must_use]
    pub fn selects(&self, pod: &PodFacts) -> bool {
        self.namespace == pod.namespace
            && self.spec.selector.as_ref().is_some_and(|selector| selector::matches(selector, &pod.labels))
    }

    /// What the author of the rules should mend, in words; each text begins with what it is about.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let selector = match &self.spec.selector {
            None => Some("spec.selector is absent, so the rules govern no pod; set it".to_owned()),
            Some(selector) => {
                selector::fault(selector).map(|fault| format!("spec.selector: {fault}; the rules govern no pod"))
            }
        };
        let rules = self.spec.rules.iter().filter_map(|rule| match Rule::read(&self.name, rule).check {
            Check::Deny(Because::Misconfigured { text }) => {
                Some(format!("rule {}: {text}; nobody passes until then", rule.name))
            }
            Check::Deny(because) => Some(format!("rule {}: {because}", rule.name)),
            Check::Pass(_) | Check::Labels(_) | Check::Availability(_) => None,
        });
        selector.into_iter().chain(rules).collect()
    }
}
