//! §1.5: what upstream's admission webhook refuses. We have no such webhook: the CRD's schema refuses some of it, the rest is
//! named by `faults()` (an Event, and `lint`) and lets nobody pass.

use hitless_api::PodTransitionRule;
use hitless_gate::Denies;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use crate::scene::Namespace;

fn rule_schema() -> Value {
    let crd = serde_json::to_value(PodTransitionRule::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rules"]["items"]
        .clone()
}

#[test]
fn a_rule_without_a_name_is_refused_by_the_schema() {
    let rule = rule_schema();
    assert!(rule["required"].as_array().unwrap().contains(&json!("name")));
    assert_eq!(rule["properties"]["name"]["minLength"], 1);
}

#[test]
fn numbers_are_checked_by_the_schema_where_upstream_checks_nothing() {
    let value = &rule_schema()["properties"]["availablePolicy"]["properties"]["maxUnavailableValue"];
    assert_eq!((value["minimum"].as_f64(), value["x-kubernetes-int-or-string"].as_bool()), (Some(0.0), Some(true)));
    assert_eq!(value["pattern"], "^(100|[1-9]?[0-9])%$");
}

#[test]
fn a_missing_selector_is_a_fault_and_governs_nobody_where_upstream_refuses_it() {
    let rules = json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": 0}}]);
    let namespace = Namespace::of(1).rule_set("ptr", json!({"rules": rules}));
    assert!(namespace.one("p0").allowed);
    assert!(namespace.rule_sets[0].faults()[0].contains("spec.selector is absent"));
}

#[test]
fn what_upstream_refuses_in_a_rule_is_a_fault_and_lets_nobody_pass() {
    for (rule, fault) in [
        (json!({"labelCheck": {}}), "labelCheck asks for nothing; set requires"),
        (
            json!({"availablePolicy": {}}),
            "availablePolicy limits nothing; set maxUnavailableValue or minAvailableValue",
        ),
        (json!({"webhook": {"clientConfig": {}}}), "set url or service"),
    ] {
        let mut rule = rule;
        rule["name"] = json!("r");
        let namespace = Namespace::of(2).rule(rule);
        assert!(namespace.allowed().is_empty(), "{fault}");
        let faults = namespace.rule_sets[0].faults();
        assert!(faults.len() == 1 && faults[0].contains(fault) && faults[0].starts_with("rule r: "), "{faults:?}");
    }
}

#[test]
fn what_upstream_does_not_check_is_a_fault_too() {
    for (rule, fault) in [
        (json!({"availablePolicy": {"maxUnavailableValue": "half"}}), "maxUnavailableValue is \"half\""),
        (json!({"availablePolicy": {"minAvailableValue": -1}}), "minAvailableValue is -1"),
        (json!({"availablePolicy": {"maxUnavailablePolicy": {"expFunc": {"pow": "x"}}}}), "expFunc.pow is \"x\""),
        (json!({"webhook": {"clientConfig": {"url": "http://x"}, "failurePolicy": "Perhaps"}}), "use Fail or Ignore"),
        (
            json!({"labelCheck": {"requires": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}),
            "operator \"Like\"",
        ),
    ] {
        let mut rule = rule;
        rule["name"] = json!("r");
        let namespace = Namespace::of(1).rule(rule);
        let verdict = namespace.one("p0");
        assert!(
            matches!(verdict.rules[0].denies(), Some(Denies::Misconfigured { text }) if text.contains(fault)),
            "{verdict}"
        );
        assert_eq!(namespace.rule_sets[0].faults().len(), 1);
    }
}

#[test]
fn equal_names_are_accepted_as_upstream_and_each_of_the_rules_counts() {
    let rules = json!([
        {"name": "same", "availablePolicy": {"maxUnavailableValue": 2}},
        {"name": "same", "availablePolicy": {"maxUnavailableValue": 1}},
    ]);
    let namespace = Namespace::of(3).rules("ptr", rules);
    assert_eq!(namespace.allowed(), ["p0"]);
    assert!(namespace.rule_sets[0].faults().is_empty());
}

#[test]
fn defaults_are_understood_where_upstream_writes_them_into_the_object() {
    // Upstream's webhook fills in failurePolicy Ignore, and then never looks at it: in effect it is Fail. Ours is honoured, and
    // absent means Fail.
    let hook =
        |policy: Value| json!({"name": "w", "webhook": {"clientConfig": {"url": "http://x"}, "failurePolicy": policy}});
    let unreachable = hitless_gate::Approval::Unreachable;
    let asked = |policy| Namespace::of(1).rule(hook(policy)).answer("p0", "ptr/w", unreachable.clone()).one("p0");
    assert!(!asked(Value::Null).allowed);
    assert!(!asked(json!("Fail")).allowed);
    assert!(asked(json!("Ignore")).allowed);
}
