//! What differs from upstream on purpose, or is not there: bases, several rule sets at once, the implicit budget, faults.

use hitless_gate::{Allows, Candidate, Denies, ImplicitBudget};
use serde_json::{Value, json};

use crate::scene::{Namespace, owner, pod};

#[test]
fn a_reserved_pod_is_not_asked_again() {
    let namespace = Namespace::of(2).max(0).reserved(&["p0"]);
    let verdict = namespace.all().into_iter().find(|verdict| verdict.pod == "p0").unwrap();
    assert!(verdict.allowed);
    assert_eq!(verdict.rules[0].because, Allows::AlreadyReserved);
}

#[test]
fn two_rules_on_the_same_pod_must_both_have_room_and_neither_waits_for_the_other() {
    let zone = json!({"selector": {"matchLabels": {"zone": "a"}}, "rules": [
        {"name": "one", "availablePolicy": {"maxUnavailableValue": 1}}]});
    let namespace = Namespace::of(4).max(2).rule_set("zone-a", zone).label("p0", "zone", "a").label("p1", "zone", "a");
    let verdicts = namespace.all();
    let allowed: Vec<_> = verdicts.iter().map(|verdict| verdict.allowed).collect();
    // p1 has room in `max` and none in `zone-a`: it takes neither, so p2 gets what it leaves.
    assert_eq!(allowed, [true, false, true, false]);
    let p1: Vec<_> = verdicts[1].rules.iter().map(|rule| (&*rule.rule, rule.is_allowed())).collect();
    assert_eq!(p1, [("max/r", true), ("zone-a/one", false)]);
    assert_eq!(verdicts[0].agreed(), ["max/r", "zone-a/one"]);
}

#[test]
fn a_rule_that_can_never_pass_says_so() {
    let namespace = Namespace::of(3).max(0);
    assert!(namespace.allowed().is_empty());
    let denial = namespace.denial();
    assert!(denial.starts_with("max/r: [r] blocked by max unavailable policy: [max unavailable]=0/3"), "{denial}");
    assert!(denial.ends_with("this rule never lets an available pod go, raise its maximum"), "{denial}");
    assert!(Namespace::of(3).min(3).denial().ends_with("lower its minimum"));
}

#[test]
fn pods_without_an_owner_and_owners_that_are_unknown_count_as_they_are() {
    let mut namespace = Namespace::of(2).max("50%");
    namespace.pods.extend([pod("bare", None), pod("other", Some(owner("unknown")))]);
    assert_eq!(namespace.allowed().len(), 2);
}

#[test]
fn a_deleted_pod_is_missing_and_its_reservation_counts_no_more() {
    let mut namespace = Namespace::of(4).max(2).reserved(&["p3"]);
    namespace.pods.truncate(3);
    assert_eq!(namespace.allowed(), ["p0"], "one missing, not also one reserved");
    let gone = namespace.decide(&[Candidate::new("uid-p3")]);
    assert!(!gone[0].allowed);
    assert_eq!(gone[0].rules[0].because, Denies::NoSuchPod);
}

#[test]
fn what_can_not_be_evaluated_or_understood_lets_nobody_go() {
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
    for (rule, because) in [
        (json!({"webhook": {"clientConfig": {}}}), "set url or service"),
        (json!({"webhook": {"clientConfig": {"url": "http://x"}, "failurePolicy": "Perhaps"}}), "is \"Perhaps\""),
        (
            json!({"availablePolicy": {"maxUnavailablePolicy": {"expFunc": {"coeff": "few"}}}}),
            "maxUnavailablePolicy.expFunc.coeff is \"few\"",
        ),
        (
            json!({"availablePolicy": {"maxUnavailableValue": 3, "minAvailablePolicy": {}}}),
            "minAvailablePolicy has no function",
        ),
        (json!({"availablePolicy": {}}), "set maxUnavailableValue or minAvailableValue"),
        (json!({"availablePolicy": {"maxUnavailableValue": "many"}}), "maxUnavailableValue is \"many\""),
        (json!({"availablePolicy": {"minAvailableValue": -1}}), "minAvailableValue is -1"),
        (json!({"labelCheck": {}}), "set requires"),
        (json!({"labelCheck": {"requires": bad}}), "operator \"Like\""),
        (json!({"filter": {"labelSelector": bad}, "availablePolicy": {"maxUnavailableValue": 3}}), "filter"),
    ] {
        let mut rule = rule;
        rule["name"] = json!("r");
        let namespace = Namespace::of(3).rules("ptr", json!([rule])).down(&["p0"]);
        assert!(namespace.allowed().is_empty(), "{rule}");
        let denial = namespace.denial();
        assert!(denial.starts_with("ptr/r: ") && denial.contains(because), "{denial}");
        assert_eq!(namespace.rule_sets[0].faults().len(), 1, "{rule}");
    }
    // A value wins over a function on the same side, as upstream.
    let both = json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": 1, "maxUnavailablePolicy": {}}}]);
    let both = Namespace::of(3).rules("ptr", both);
    assert_eq!((both.allowed().len(), both.rule_sets[0].faults().len()), (1, 0));
}

#[test]
fn a_selector_that_selects_nobody_governs_nobody() {
    let rules = json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": 0}}]);
    for (selector, faults) in [(json!({"matchLabels": {"app": "nothing"}}), 0), (Value::Null, 1)] {
        let namespace = Namespace::of(2).rule_set("ptr", json!({"selector": selector, "rules": rules}));
        assert_eq!(namespace.allowed().len(), 2, "{selector}");
        assert_eq!(namespace.rule_sets[0].faults().len(), faults, "{selector}");
        assert!(!namespace.rule_sets[0].selects(&namespace.pods[0]));
    }
    let mut elsewhere = Namespace::of(2).max(0);
    elsewhere.rule_sets[0].namespace = "other".into();
    assert_eq!(elsewhere.allowed().len(), 2);
}

#[test]
fn a_selector_that_is_not_understood_lets_nobody_go_whom_it_might_mean() {
    for (selector, words) in [
        (json!({"matchExpressions": [{"key": "app", "operator": "in", "values": ["db"]}]}), "operator \"in\"; use In"),
        (json!({"matchExpressions": [{"key": "app", "operator": "NotIn"}]}), "NotIn and no values"),
        (json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["db"]}]}), "Exists and values"),
        (json!({"matchLabels": {"app": "no label"}}), "can't have the value \"no label\""),
    ] {
        // What it would allow counts for nothing, also not for a pod that is down or says that it is excused.
        let rules = json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": "100%"}}]);
        let namespace = Namespace::of(2).rule_set("ptr", json!({"selector": selector, "rules": rules})).down(&["p0"]);
        assert!(namespace.allowed().is_empty(), "{selector}");
        let denial = namespace.denial();
        assert!(denial.starts_with("ptr/spec.selector: ") && denial.contains(words), "{denial}");
        assert!(namespace.rule_sets[0].faults()[0].contains(words), "{selector}");
        assert!(namespace.rule_sets[0].selects(&namespace.pods[0]));
        let mut elsewhere = namespace;
        elsewhere.rule_sets[0].namespace = "other".into();
        assert_eq!(elsewhere.allowed().len(), 2, "{selector}");
    }
}

#[test]
fn where_no_rule_set_selects_a_pod_a_quarter_of_its_owner_may_go_and_at_least_one() {
    for (pods, allowed) in [(1, 1), (3, 1), (7, 1), (8, 2), (100, 25)] {
        let namespace = Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::of(pods) };
        assert_eq!(namespace.allowed().len(), allowed, "of {pods}");
    }
    let down = Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::of(4) }.down(&["p3"]);
    assert_eq!(down.allowed(), ["p3"]);
    assert!(down.denial().starts_with("implicit: [implicit] blocked by max unavailable policy"));
    let missing = Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::of(3) }.desired(4);
    assert!(missing.allowed().is_empty());
    let selected = Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::of(4) }.max(3);
    assert_eq!(selected.allowed().len(), 3, "a rule set takes the place of the implicit budget");
    let mut bare = Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::default() };
    bare.pods.extend([pod("a", None), pod("b", None)]);
    assert_eq!(bare.allowed().len(), 2);
    assert_eq!(Namespace::of(4).allowed().len(), 4, "switched off");
}

#[test]
fn the_implicit_budget_counts_pods_of_the_owner_that_a_rule_set_lets_go() {
    let zone = json!({"selector": {"matchLabels": {"zone": "a"}}, "rules": []});
    let namespace = Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::of(4) };
    let namespace = namespace.rule_set("zone-a", zone).label("p0", "zone", "a");
    assert_eq!(namespace.allowed(), ["p0"]);
}
