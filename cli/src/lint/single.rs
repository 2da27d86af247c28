//! What an object says wrong of itself.

use std::collections::BTreeMap;

use hitless_api::pod_transition_rule::TransitionRule;
use hitless_gate::Budget;
use jiff::tz::TimeZone;

use super::finding::Finding;
use super::object::{LimitObject, Limits};

/// `schema`: what was found before. What it says of a rule is not said again in the gate's words.
pub(super) fn check(known: &LimitObject<'_>, schema: &[Finding]) -> Vec<Finding> {
    let faults = match &known.limits {
        Limits::Rules(set) => set.faults(),
        Limits::Budget(budget) => budget.faults(),
        Limits::Disruption(budget) => budget.faults(),
    };
    let mut found: Vec<Finding> = faults.into_iter().filter_map(|text| fault(known, text, schema)).collect();
    if let Limits::Rules(set) = &known.limits {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, rule) in set.spec.rules.iter().enumerate() {
            let line = line_of_index(known, index);
            if names.insert(&rule.name, index).is_some() {
                let text = format!(
                    "rule {} has the name of an earlier one, so verdicts can't tell them apart; rename it",
                    rule.name
                );
                found.push(Finding::error(known.object, line, text));
            }
            found.extend(doubts(rule).into_iter().map(|text| Finding::warning(known.object, line, text)));
        }
    }
    if let Limits::Budget(budget) = &known.limits {
        found.extend(zones(known, budget, schema));
    }
    if let Limits::Budget(budget) = &known.limits
        && budget.spec.paused
    {
        let line = known.line_of_rule("paused");
        found.push(Finding::warning(known.object, line, "is paused, so nobody goes; set spec.paused to false"));
    }
    found
}

/// Time zones that nobody knows, where the gate's own words about windows are left out because the schema has found something there.
fn zones(known: &LimitObject<'_>, budget: &Budget, schema: &[Finding]) -> Vec<Finding> {
    if !known.is_said("windows", schema) {
        return Vec::new();
    }
    let named = budget.spec.windows.iter().filter_map(|window| window.time_zone.as_deref());
    let unknown = named.filter(|name| TimeZone::get(name).is_err());
    let text = |name| {
        format!("windows: the time zone {name:?} is not known; use a name of the IANA database, e.g. Europe/Berlin")
    };
    unknown.map(|name| Finding::error(known.object, known.line_of_rule("windows"), text(name))).collect()
}

/// The gate's texts begin with what they are about.
fn fault(known: &LimitObject<'_>, text: String, schema: &[Finding]) -> Option<Finding> {
    let rule = text.strip_prefix("rule ").and_then(|rest| rest.split_once(": ")).map(|(rule, _)| rule);
    let Some(rule) = rule else {
        // Of a selector's operator the schema has said more: where it stands.
        let is_said = |said: &Finding| said.is_error_of(known.object) && said.text.starts_with("spec.selector.");
        if text.starts_with("spec.selector: ") && schema.iter().any(is_said) {
            return None;
        }
        return Some(Finding::error(known.object, known.object.node.line_of(&["spec", "selector"]), text));
    };
    let line = known.line_of_rule(rule);
    (!known.is_said(rule, schema)).then(|| Finding::error(known.object, line, text))
}

fn line_of_index(known: &LimitObject<'_>, index: usize) -> u64 {
    let rules = known.object.node.get("spec").and_then(|spec| spec.get("rules"));
    rules.and_then(|rules| rules.items().get(index)).map_or(0, |item| item.line)
}

/// What is allowed and probably not meant.
fn doubts(rule: &TransitionRule) -> Vec<String> {
    let name = &rule.name;
    let mut found = Vec::new();
    let kinds = [
        ("availablePolicy", rule.available_policy.is_some()),
        ("labelCheck", rule.label_check.is_some()),
        ("webhook", rule.webhook.is_some()),
    ];
    let set: Vec<&str> = kinds.iter().filter(|(_, set)| *set).map(|(kind, _)| *kind).collect();
    match set.as_slice() {
        [] => found.push(format!("rule {name}: asks for nothing; set availablePolicy, labelCheck or webhook")),
        [_] => {}
        [first, rest @ ..] => found.push(format!(
            "rule {name}: only {first} counts, {} is ignored; make it a rule of its own",
            rest.join(" and ")
        )),
    }
    let ignores = |webhook: &hitless_api::pod_transition_rule::TransitionRuleWebhook| {
        webhook.failure_policy.as_deref() == Some("Ignore")
    };
    if rule.webhook.as_ref().is_some_and(ignores) && !rule.disabled {
        found.push(format!(
            "rule {name}: failurePolicy is Ignore, so pods go while the approver can't be reached; use Fail if it must be asked"
        ));
    }
    if let Some(stage) = rule.stage.as_deref().filter(|stage| !matches!(*stage, "PreCheck" | "PostCheck")) {
        found.push(format!("rule {name}: stage {stage:?} never comes; use PreCheck or PostCheck"));
    }
    found
}
