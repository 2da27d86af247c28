//! What each rule answers: upstream's worked values first, then what differs on purpose.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use hitless_gate::{
    Approvals, Because, Candidate, Decision, GateInput, Held, ImplicitBudget, OwnerFacts, OwnerKey, PodFacts, RuleSet,
    Settings, Verdict, decide,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A namespace with pods `p0`, `p1`, … of one Deployment.
#[derive(Default)]
struct Namespace {
    pods: Vec<PodFacts>,
    owners: BTreeMap<OwnerKey, OwnerFacts>,
    rule_sets: Vec<RuleSet>,
    reserved: BTreeSet<String>,
    implicit: Option<ImplicitBudget>,
}

fn owner(name: &str) -> OwnerKey {
    OwnerKey { kind: "Deployment".into(), namespace: "default".into(), name: name.into(), uid: name.into() }
}

fn pod(name: &str, owner: Option<OwnerKey>) -> PodFacts {
    PodFacts {
        uid: format!("uid-{name}"),
        namespace: "default".into(),
        name: name.into(),
        labels: BTreeMap::from([("app".into(), "web".into())]),
        node: None,
        owner,
        available: true,
        unavailable_since: None,
        returned_at: None,
    }
}

impl Namespace {
    fn of(count: u32) -> Self {
        let pods = (0..count).map(|number| pod(&format!("p{number}"), Some(owner("web")))).collect();
        let owners = BTreeMap::from([(owner("web"), OwnerFacts { desired: count })]);
        Self { pods, owners, ..Self::default() }
    }

    fn desired(mut self, desired: u32) -> Self {
        self.owners.insert(owner("web"), OwnerFacts { desired });
        self
    }

    /// Adds a PodTransitionRule for `app=web`.
    fn rules(self, name: &str, rules: impl Into<Value>) -> Self {
        let rules: Value = rules.into();
        self.rule_set(name, json!({"selector": {"matchLabels": {"app": "web"}}, "rules": rules}))
    }

    fn rule_set(mut self, name: &str, spec: Value) -> Self {
        let spec = serde_json::from_value(spec).unwrap();
        self.rule_sets.push(RuleSet { name: name.into(), namespace: "default".into(), spec });
        self
    }

    fn max(self, value: impl Into<Value>) -> Self {
        let value: Value = value.into();
        self.rules("max", json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": value}}]))
    }

    fn min(self, value: impl Into<Value>) -> Self {
        let value: Value = value.into();
        self.rules("min", json!([{"name": "r", "availablePolicy": {"minAvailableValue": value}}]))
    }

    fn down(mut self, names: &[&str]) -> Self {
        for pod in &mut self.pods {
            pod.available &= !names.contains(&pod.name.as_str());
        }
        self
    }

    fn reserved(mut self, names: &[&str]) -> Self {
        self.reserved.extend(names.iter().map(|name| format!("uid-{name}")));
        self
    }

    fn label(mut self, name: &str, key: &str, value: &str) -> Self {
        for pod in self.pods.iter_mut().filter(|pod| pod.name == name) {
            pod.labels.insert(key.into(), value.into());
        }
        self
    }

    fn decide(&self, candidates: &[Candidate]) -> Vec<Verdict> {
        let held = Held { since: Timestamp::UNIX_EPOCH };
        let input = GateInput {
            pods: &self.pods,
            owners: &self.owners,
            nodes: &BTreeMap::new(),
            rule_sets: &self.rule_sets,
            budgets: &[],
            disruption_budgets: &[],
            reserved: &self.reserved.iter().map(|uid| (uid.clone(), held.clone())).collect(),
            failed: &BTreeSet::new(),
            approvals: &Approvals::new(),
            settings: &Settings { implicit: self.implicit, ..Settings::default() },
        };
        decide(&input, candidates, Timestamp::UNIX_EPOCH)
    }

    /// Asks for all pods at once.
    fn all(&self) -> Vec<Verdict> {
        let candidates: Vec<_> = self.pods.iter().map(|pod| Candidate::new(&pod.uid)).collect();
        self.decide(&candidates)
    }

    fn allowed(&self) -> Vec<String> {
        self.all().into_iter().filter(|verdict| verdict.allowed).map(|verdict| verdict.pod).collect()
    }

    /// What stands in the way of the last pod in order.
    fn denial(&self) -> String {
        let verdicts = self.all();
        let denied: Vec<String> = verdicts.last().unwrap().denied().map(ToString::to_string).collect();
        denied.join("\n")
    }
}

#[test]
fn a_maximum_lets_so_many_go_as_upstream() {
    for (pods, value, allowed) in [
        (3, json!("50%"), 2),
        (4, json!("50%"), 2),
        (3, json!("10%"), 1),
        (100, json!("1%"), 1),
        (3, json!(1), 1),
        (3, json!(5), 3),
        (3, json!("100%"), 3),
        (3, json!(0), 0),
        (3, json!("0%"), 0),
    ] {
        assert_eq!(Namespace::of(pods).max(value.clone()).allowed().len(), allowed, "{value} of {pods}");
    }
}

#[test]
fn a_minimum_keeps_so_many_as_upstream() {
    for (pods, value, allowed) in [
        (3, json!("50%"), 2),
        (4, json!("50%"), 2),
        (3, json!(2), 1),
        (3, json!(3), 0),
        (3, json!(7), 0),
        (3, json!(0), 3),
        (3, json!("100%"), 0),
    ] {
        assert_eq!(Namespace::of(pods).min(value.clone()).allowed().len(), allowed, "{value} of {pods}");
    }
}

#[test]
fn operators_find_upstreams_texts() {
    let max = Namespace::of(4).max("50%").reserved(&["p0"]).down(&["p1"]);
    assert!(
        max.denial()
            .contains("[r] blocked by max unavailable policy: [max unavailable]=2/4, [current unavailable]=2/4")
    );
    let min = Namespace::of(4).min(3).down(&["p1"]);
    assert!(
        min.denial().contains("blocked by min available policy: [min available]=3/4, [current keep available]=3/4")
    );
}

#[test]
fn a_pod_that_is_down_or_reserved_or_both_counts_once() {
    for (down, reserved, allowed) in [
        (&["p0"][..], &[][..], &["p0", "p1"][..]),
        (&[], &["p0"], &["p0", "p1"]),
        (&["p0"], &["p0"], &["p0", "p1"]),
        (&["p0", "p1"], &["p2"], &["p0", "p1", "p2"]),
    ] {
        let namespace = Namespace::of(4).max(2).down(down).reserved(reserved);
        assert_eq!(namespace.allowed(), allowed, "down {down:?}, reserved {reserved:?}");
    }
}

#[test]
fn a_pod_that_is_down_anyway_goes_first_and_costs_nothing() {
    let verdicts = Namespace::of(4).max(1).min(3).down(&["p2"]).all();
    let order: Vec<_> = verdicts.iter().map(|verdict| (verdict.pod.as_str(), verdict.allowed)).collect();
    assert_eq!(order, [("p2", true), ("p0", false), ("p1", false), ("p3", false)]);
    assert!(verdicts[0].rests_on_unavailability() && !verdicts[1].rests_on_unavailability());
}

#[test]
fn a_reserved_pod_is_not_asked_again() {
    let namespace = Namespace::of(2).max(0).reserved(&["p0"]);
    let verdict = namespace.all().into_iter().find(|verdict| verdict.pod == "p0").unwrap();
    assert!(verdict.allowed);
    assert_eq!(verdict.rules[0].because, Because::AlreadyReserved);
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
    let p1: Vec<_> = verdicts[1].rules.iter().map(|rule| (rule.rule.as_str(), rule.verdict)).collect();
    assert_eq!(p1, [("max/r", Decision::Allowed), ("zone-a/one", Decision::Denied)]);
    assert_eq!(verdicts[0].agreed(), ["max/r", "zone-a/one"]);
}

#[test]
fn a_maximum_and_a_minimum_in_one_rule_both_hold() {
    let both = json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": "75%", "minAvailableValue": 3}}]);
    assert_eq!(Namespace::of(4).rules("both", both).allowed(), ["p0"]);
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
fn the_base_is_what_the_owner_desires_and_what_is_missing_is_unavailable() {
    // Scaled from 3 to 6 in mid-rollout: the old three may not all go before the first new one is there.
    let scaled_up = Namespace::of(3).desired(6).max("50%");
    assert!(scaled_up.allowed().is_empty());
    assert!(
        scaled_up.denial().contains("[max unavailable]=3/6, [current unavailable]=3/6 (3 of them not created yet)")
    );
    assert_eq!(Namespace::of(5).desired(6).max("50%").allowed().len(), 2);
    // Scaled down, pods not gone yet: the base is the smaller number.
    assert_eq!(Namespace::of(6).desired(2).max("50%").allowed().len(), 1);
    assert_eq!(Namespace::of(6).desired(3).min("100%").allowed().len(), 3, "three more than needed");
}

#[test]
fn a_rule_for_part_of_an_owner_counts_that_part_alone() {
    // Upstream takes the pods that are not selected for missing ones and lets nobody go.
    let zone = json!({"selector": {"matchLabels": {"zone": "a"}}, "rules": [
        {"name": "half", "availablePolicy": {"maxUnavailableValue": "50%"}}]});
    let namespace = Namespace::of(9).rule_set("zone-a", zone).label("p0", "zone", "a").label("p1", "zone", "a");
    let verdicts = namespace.all();
    assert!(verdicts[0].allowed && !verdicts[1].allowed);
    assert!(verdicts[1].to_string().contains("[max unavailable]=1/2, [current unavailable]=1/2"));
    assert!(verdicts[2..].iter().all(|verdict| verdict.allowed), "no rule and no implicit budget");
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
    assert_eq!(gone[0].rules[0].because, Because::NoSuchPod);
}

#[test]
fn priority_decides_and_then_the_name() {
    let namespace = Namespace::of(4).max(2);
    let candidate = |name: &str, priority| Candidate { priority, ..Candidate::new(format!("uid-{name}")) };
    let verdicts =
        namespace.decide(&[candidate("p2", 0), candidate("p3", 7), candidate("p0", i32::MIN), candidate("p1", 0)]);
    let order: Vec<_> = verdicts.iter().map(|verdict| (verdict.pod.as_str(), verdict.allowed)).collect();
    assert_eq!(order, [("p3", true), ("p1", true), ("p2", false), ("p0", false)]);
    let twice = namespace.decide(&[candidate("p2", 0), candidate("p2", 1)]);
    assert_eq!(twice.len(), 1);
}

#[test]
fn labels_are_checked_before_any_place_is_taken() {
    let namespace = Namespace::of(3)
        .max(1)
        .rules("ready", json!([{"name": "flag", "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}}]));
    let namespace = namespace.label("p2", "may-go", "true");
    assert_eq!(namespace.allowed(), ["p2"]);
    let verdicts = namespace.all();
    assert!(verdicts[0].to_string().contains("- ready/flag: the pod's labels do not match may-go=true"));
}

#[test]
fn what_does_not_concern_the_pod_lets_it_go() {
    for rule in [
        json!({"name": "r", "disabled": true, "availablePolicy": {"maxUnavailableValue": 0}}),
        json!({"name": "r", "stage": "PostCheck", "availablePolicy": {"maxUnavailableValue": 0}}),
        json!({"name": "r", "stage": "Elsewhere", "webhook": {"clientConfig": {"url": "http://x"}}}),
        json!({"name": "r", "conditions": ["Unmet"], "availablePolicy": {"maxUnavailableValue": 0}}),
        json!({"name": "r", "filter": {"labelSelector": {"matchLabels": {"app": "other"}}},
            "availablePolicy": {"maxUnavailableValue": 0}}),
        json!({"name": "r"}),
    ] {
        let verdicts = Namespace::of(1).rules("ptr", json!([rule])).all();
        assert!(verdicts[0].allowed, "{rule}");
        assert!(verdicts[0].agreed().is_empty(), "{rule}");
    }
    let stage = json!([{"name": "r", "stage": "PreCheck", "availablePolicy": {"maxUnavailableValue": 0}}]);
    assert!(Namespace::of(1).rules("ptr", stage).allowed().is_empty());
}

#[test]
fn a_filter_narrows_who_is_asked_and_not_the_base() {
    let rule = json!([{"name": "r", "filter": {"labelSelector": {"matchLabels": {"tier": "x"}}},
        "availablePolicy": {"maxUnavailableValue": "50%"}}]);
    let namespace = Namespace::of(4).rules("ptr", rule).label("p2", "tier", "x").label("p3", "tier", "x");
    let verdicts = namespace.all();
    let allowed: Vec<_> = verdicts.iter().map(|verdict| verdict.allowed).collect();
    // p0 and p1 are not asked, but they are gone all the same.
    assert_eq!(allowed, [true, true, false, false]);
    assert!(verdicts[2].to_string().contains("[max unavailable]=2/4, [current unavailable]=2/4"));
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
    let expressions = json!([{"key": "app", "operator": "Is"}]);
    for (selector, faults) in [
        (json!({"matchLabels": {"app": "nothing"}}), 0),
        (json!({"matchExpressions": expressions}), 1),
        (Value::Null, 1),
    ] {
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
