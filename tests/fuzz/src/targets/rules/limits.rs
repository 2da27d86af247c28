//! The limits, counted a second time in the plainest way: no decision may grant more.

use std::collections::BTreeSet;

use hitless_api::pod_transition_rule::TransitionRule;
use hitless_api::selector;
use hitless_gate::{PodFacts, Verdict};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::cluster::Cluster;

/// Pods that rules or a budget select, after the decision.
struct Members {
    all: u64,
    available: u64,
    /// Operated now, or from now on.
    operated: u64,
    /// Allowed by this decision.
    newly: usize,
    /// The same, and available until then.
    newly_taken: usize,
}

impl Members {
    fn of<'a>(pods: impl Iterator<Item = &'a PodFacts>, cluster: &Cluster, allowed: &BTreeSet<&str>) -> Self {
        let mut members = Self { all: 0, available: 0, operated: 0, newly: 0, newly_taken: 0 };
        for pod in pods {
            let is_reserved = cluster.reserved.contains_key(&pod.uid);
            let is_new = !is_reserved && allowed.contains(pod.uid.as_str());
            members.all += 1;
            members.available += u64::from(pod.available && !is_reserved && !is_new);
            members.operated += u64::from(is_reserved || is_new);
            members.newly += usize::from(is_new);
            members.newly_taken += usize::from(is_new && pod.available);
        }
        members
    }

    /// With whoever was taken out of service by this decision, at most so many are out of service, and so many stay.
    fn check(&self, most: Option<&IntOrString>, fewest: Option<&IntOrString>, up: (bool, bool), what: &str) {
        if let Some(most) = most {
            let Some(most) = number(most, self.all, up.0) else { return self.nobody(what) };
            let unavailable = self.all - self.available;
            assert!(self.newly_taken == 0 || unavailable <= most, "{what}: {unavailable} unavailable, at most {most}");
        }
        if let Some(fewest) = fewest {
            let Some(fewest) = number(fewest, self.all, up.1) else { return self.nobody(what) };
            assert!(self.newly_taken == 0 || self.available >= fewest, "{what}: {} left of {fewest}", self.available);
        }
    }

    fn nobody(&self, what: &str) {
        assert_eq!(self.newly, 0, "{what} lets nobody go");
    }
}

/// `None`: neither a count nor a percentage.
fn number(value: &IntOrString, all: u64, up: bool) -> Option<u64> {
    match value {
        IntOrString::Int(count) => u64::try_from(*count).ok(),
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            let percent = digits.parse::<u64>().ok().filter(|percent| *percent <= 100 && digits.len() <= 3)?;
            Some((all * percent + if up { 99 } else { 0 }) / 100)
        }
    }
}

pub(super) fn check(cluster: &Cluster, verdicts: &[Verdict]) {
    let allowed = verdicts.iter().filter(|verdict| verdict.allowed).map(|verdict| verdict.pod_uid.as_str()).collect();
    let members = |selects: &dyn Fn(&PodFacts) -> bool| {
        Members::of(cluster.pods.iter().filter(|pod| selects(pod)), cluster, &allowed)
    };
    for set in &cluster.rule_sets {
        let members = members(&|pod| set.selects(pod));
        if set.unreadable.is_some() || set.spec.selector.as_ref().is_some_and(|own| selector::fault(own).is_some()) {
            members.nobody("a rule that can't be read");
        }
        set.spec.rules.iter().for_each(|rule| of_rule(rule, &members));
    }
    for budget in &cluster.budgets {
        let (members, spec) = (members(&|pod| budget.selects(pod)), &budget.spec);
        let is_faulty = spec.selector.as_ref().is_some_and(|own| selector::fault(own).is_some());
        if spec.paused || is_faulty || budget.unreadable.is_some() {
            members.nobody("a budget that is paused or can't be read");
        }
        members.check(spec.max_unavailable.as_ref(), spec.min_available.as_ref(), (false, true), "a budget");
        if let Some(most) = spec.max_concurrent {
            assert!(members.newly == 0 || members.operated <= u64::from(most), "{} operated", members.operated);
        }
    }
    for budget in &cluster.disruption_budgets {
        let selects = |pod: &PodFacts| {
            let is_selected = budget.selector.as_ref().is_some_and(|wanted| selector::limits(wanted, &pod.labels));
            is_selected && pod.namespace == budget.namespace
        };
        let (most, fewest) = (budget.max_unavailable.as_ref(), budget.min_available.as_ref());
        members(&selects).check(most, fewest, (true, true), "a PodDisruptionBudget");
    }
}

/// Rules that concern all members before their operation.
fn of_rule(rule: &TransitionRule, members: &Members) {
    let is_for_all = rule.filter.is_none() && rule.conditions.is_empty();
    if rule.disabled || !is_for_all || !matches!(rule.stage.as_deref(), None | Some("PreCheck")) {
        return;
    }
    if let Some(policy) = &rule.available_policy {
        let (most, fewest) = (policy.max_unavailable_value.as_ref(), policy.min_available_value.as_ref());
        members.check(most, fewest, (true, false), "a rule");
    } else if rule.label_check.is_none() && rule.webhook.is_some() {
        members.nobody("an approver who has not answered");
    }
}
