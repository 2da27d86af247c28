//! PodTransitionRules whose pods may all go at once: whom one selects, the built-in limit does not limit.

use hitless_api::pod_transition_rule::TransitionRule;
use hitless_gate::RuleSet;

use super::finding::Finding;
use super::never::selects;
use super::object::{LimitObject, Limits};
use super::pods::Pods;

pub(super) fn check(known: &[LimitObject<'_>], pods: &[Pods]) -> Vec<Finding> {
    let unlimited = known.iter().filter_map(|each| match &each.limits {
        Limits::Rules(set) if !limits_at_a_time(set) && !is_limited_otherwise(each, known, pods) => Some((each, set)),
        Limits::Rules(_) | Limits::Budget(_) | Limits::Disruption(_) => None,
    });
    let said = unlimited.map(|(each, set)| {
        let text = if set.spec.rules.is_empty() {
            "has no rules, so the pods that it selects have no limit at all, not even the built-in one; \
             add a rule or remove it"
        } else {
            "limits no number of pods (no enabled rule of stage PreCheck has an availablePolicy or asks an approver), and \
             the pods that it selects lose the built-in limit, so all may go at once; add such a rule, or a TransitionBudget"
        };
        let line = each.object.node.line_of(&["spec", "rules"]);
        Finding::warning(each.object, line, text)
    });
    said.collect()
}

/// Whether one of its rules keeps pods from going together. An approver may.
fn limits_at_a_time(set: &RuleSet) -> bool {
    let is_asked =
        |rule: &&TransitionRule| !rule.disabled && rule.stage.as_deref().is_none_or(|stage| stage == "PreCheck");
    let limits = |rule: &TransitionRule| {
        rule.available_policy.is_some() || (rule.label_check.is_none() && rule.webhook.is_some())
    };
    set.unreadable.is_some() || set.spec.rules.iter().filter(is_asked).any(limits)
}

/// Whether something else limits all pods that it selects. Where none are known, whatever has the same selector.
fn is_limited_otherwise(each: &LimitObject<'_>, known: &[LimitObject<'_>], pods: &[Pods]) -> bool {
    let mut selected = pods.iter().filter(|pods| selects(each, pods)).peekable();
    if selected.peek().is_none() {
        let same = |other: &LimitObject<'_>| {
            other.selector() == each.selector() && other.object.namespace() == each.object.namespace()
        };
        return known.iter().any(|other| limits(other) && same(other));
    }
    // Their own strategies limit them.
    let has_own = |pods: &Pods| pods.of.starts_with("StatefulSet/") || pods.of.starts_with("DaemonSet/");
    selected.all(|pods| has_own(pods) || known.iter().any(|other| limits(other) && selects(other, pods)))
}

fn limits(known: &LimitObject<'_>) -> bool {
    match &known.limits {
        Limits::Rules(set) => limits_at_a_time(set),
        Limits::Budget(budget) => {
            let spec = &budget.spec;
            spec.max_unavailable.is_some()
                || spec.min_available.is_some()
                || spec.max_unavailable_nodes.is_some()
                || spec.topology.is_some()
                || spec.per_node_min_available.is_some()
                || spec.max_concurrent.is_some()
        }
        Limits::Disruption(budget) => budget.min_available.is_some() || budget.max_unavailable.is_some(),
    }
}
