//! Objects that the API server takes and this version can't read.

use hitless_api::{Lenient, PodTransitionRule, TransitionBudget};
use hitless_gate::{Budget, RuleSet};
use serde_json::{Value, json};

use crate::scene::Namespace;

fn object(kind: &str, namespace: &str, spec: &Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "later", "namespace": namespace}, "spec": spec})
}

fn rule(selector: &Value) -> RuleSet {
    let spec = json!({"selector": selector, "rules": [{"name": "r", "stage": 7}]});
    let object = object("PodTransitionRule", "default", &spec);
    let Lenient { object, unreadable }: Lenient<PodTransitionRule> = serde_json::from_value(object).unwrap();
    RuleSet { name: "later".into(), namespace: "default".into(), spec: object.spec, unreadable }
}

fn budget(namespace: &str, spec: &Value) -> Budget {
    let object = object("TransitionBudget", namespace, spec);
    serde_json::from_value::<Lenient<TransitionBudget>>(object).unwrap().into()
}

#[test]
fn a_rule_that_cannot_be_read_lets_nobody_go_whom_it_selects() {
    let mut namespace = Namespace::of(2);
    namespace.rule_sets.push(rule(&json!({"matchLabels": {"app": "other"}})));
    assert_eq!(namespace.allowed().len(), 2, "it selects nobody here");
    namespace.rule_sets[0] = rule(&json!({"matchLabels": {"app": "web"}}));
    assert!(namespace.allowed().is_empty());
    let verdict = namespace.one("p0");
    let denied: Vec<_> = verdict.denied().map(ToString::to_string).collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert!(denied[0].contains("later/spec") && denied[0].contains("spec.rules[0].stage can't be read"), "{denied:?}");
    assert!(namespace.rule_sets[0].faults()[0].contains("nobody passes until then"));
}

#[test]
fn a_rule_whose_selector_cannot_be_read_governs_its_namespace() {
    let mut namespace = Namespace::of(1);
    namespace.rule_sets.push(rule(&json!({"matchLabels": {"app": ["web"]}})));
    assert!(namespace.allowed().is_empty());
}

#[test]
fn a_budget_that_cannot_be_read_keeps_its_scope() {
    let spec = json!({"selector": {}, "scope": "Cluster", "soakSeconds": "long"});
    for (at, goes) in [("default", 0), ("other", 1), ("hitless-system", 0)] {
        let mut namespace = Namespace::of(1);
        namespace.budgets.push(budget(at, &spec));
        assert_eq!(namespace.allowed().len(), goes, "{at}");
        assert!(namespace.budgets[0].faults().iter().any(|fault| fault.contains("spec.soakSeconds can't be read")));
    }
}
