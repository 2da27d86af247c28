//! Rules of a PodTransitionRule.

use std::collections::BTreeSet;

use hitless_api::pod_transition_rule::{TransitionRule, TransitionRuleWebhook};

use super::{Check, Limits, Rule, Stage};
use crate::approval::target::Target;
use crate::selector::{self, Selector};
use crate::{Allows, Denies, RuleSet};

pub(super) fn rules(set: &RuleSet, skipped_kinds: &BTreeSet<String>) -> Vec<Rule> {
    if let Some(fault) = &set.unreadable {
        return vec![Rule::pre_check(format!("{}/spec", set.name), misconfigured(fault.clone()))];
    }
    // A filter that can't be understood leaves nobody out: the rule is a denial then.
    let filter = |rule: &TransitionRule| {
        let filter = rule.filter.as_ref()?.label_selector.as_ref()?;
        selector::read(filter).ok().map(Selector::into_owned)
    };
    let read = |rule: &TransitionRule| Rule {
        path: format!("{}/{}", set.name, rule.name).into(),
        name: Some(rule.name.clone()),
        stage: match rule.stage.as_deref() {
            None | Some("PreCheck") => Stage::PreCheck,
            Some("PostCheck") => Stage::PostCheck,
            Some(other) => Stage::Other(other.to_owned()),
        },
        filter: filter(rule),
        conditions: rule.conditions.iter().cloned().collect(),
        check: check(rule, skipped_kinds),
    };
    set.spec.rules.iter().map(read).collect()
}

/// Upstream's order of precedence: switched off, then the first of availablePolicy, labelCheck and webhook that is set.
fn check(rule: &TransitionRule, skipped_kinds: &BTreeSet<String>) -> Check {
    if rule.disabled {
        return Check::Pass(Allows::Disabled);
    }
    let filter = rule.filter.as_ref().and_then(|filter| filter.label_selector.as_ref());
    if let Some(fault) = filter.and_then(selector::fault) {
        return misconfigured(format!("filter.labelSelector: {fault}"));
    }
    let (kind, check) = if let Some(available) = &rule.available_policy {
        ("availablePolicy", Limits::of_rule(available).map_or_else(misconfigured, Check::Availability))
    } else if let Some(labels) = &rule.label_check {
        let check = match &labels.requires {
            None => misconfigured("labelCheck asks for nothing; set requires".to_owned()),
            Some(requires) => match selector::read(requires) {
                Ok(requires) => Check::Labels(requires.into_owned()),
                Err(fault) => misconfigured(format!("labelCheck.requires: {fault}")),
            },
        };
        ("labelCheck", check)
    } else if let Some(webhook) = &rule.webhook {
        ("webhook", webhook_check(webhook))
    } else {
        return Check::Pass(Allows::Empty);
    };
    if skipped_kinds.contains(kind) {
        return Check::Pass(Allows::KindSkipped { kind: kind.to_owned() });
    }
    check
}

fn webhook_check(webhook: &TransitionRuleWebhook) -> Check {
    let client = &webhook.client_config;
    if client.url.is_empty() && client.service.is_none() {
        return misconfigured("webhook.clientConfig says nowhere to ask; set url or service".to_owned());
    }
    if !client.url.is_empty() && client.service.is_some() {
        return misconfigured("webhook.clientConfig has both url and service; remove one".to_owned());
    }
    let ignores_failure = match webhook.failure_policy.as_deref() {
        None | Some("Fail" | "") => false,
        Some("Ignore") => true,
        Some(other) => {
            let other: String = other.chars().take(32).collect();
            return misconfigured(format!("webhook.failurePolicy is {other:?}; use Fail or Ignore"));
        }
    };
    let poll = client.poll.as_ref().map(Target::poll).transpose();
    Target::of(client).and(poll).map_or_else(misconfigured, |_| Check::Approval { ignores_failure })
}

pub(super) fn misconfigured(text: String) -> Check {
    Check::Deny(Denies::Misconfigured { text })
}
