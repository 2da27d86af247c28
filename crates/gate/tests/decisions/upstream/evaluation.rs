//! §1.6 and §1.7: who is asked, in which order, what several rules and several PodTransitionRules do together, stages; §1.9:
//! labelCheck and what a webhook's answer does (how it is asked: `controller/tests/approvals`).

use hitless_gate::{Allows, Approval, Candidate, Denies};
use serde_json::json;

use crate::scene::{Namespace, at};

fn hook() -> serde_json::Value {
    json!({"name": "hook", "webhook": {"clientConfig": {"url": "https://approver.example/ask"}}})
}

#[test]
fn all_reasons_are_shown_at_once_where_upstream_shows_one_per_stage() {
    let rules = json!([
        {"name": "max", "availablePolicy": {"maxUnavailableValue": 0}},
        {"name": "min", "availablePolicy": {"minAvailableValue": 1}},
        {"name": "flag", "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}},
    ]);
    let verdict = Namespace::of(1).rules("ptr", rules).one("p0");
    assert_eq!(verdict.denied().map(hitless_gate::RuleVerdict::rule_name).collect::<Vec<_>>(), ["max", "min", "flag"]);
}

#[test]
fn rules_answer_in_the_order_of_the_object_where_upstream_sorts_by_kind() {
    let rules = json!([
        {"name": "flag", "labelCheck": {"requires": {"matchLabels": {"app": "web"}}}},
        {"name": "max", "availablePolicy": {"maxUnavailableValue": 1}},
    ]);
    assert_eq!(Namespace::of(1).rules("ptr", rules).one("p0").agreed(), ["ptr/flag", "ptr/max"]);
}

#[test]
fn a_place_is_taken_after_the_free_rules_where_upstream_takes_it_first_and_starves_others() {
    // Upstream: p0 passes the budget, fails the label check, and keeps its place; p1 waits for ever.
    let namespace = Namespace::of(2)
        .max(1)
        .rules("flags", json!([{"name": "flag", "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}}]))
        .label("p1", "may-go", "true");
    assert_eq!(namespace.allowed(), ["p1"]);
    let asked = Namespace::of(2)
        .max(1)
        .rule_set("hooks", json!({"selector": {"matchLabels": {"slow": "yes"}}, "rules": [hook()]}));
    let asked = asked.label("p0", "slow", "yes");
    assert_eq!(asked.allowed(), ["p1"], "nor does somebody who waits for an approver hold a place");
}

#[test]
fn a_pod_that_passed_is_asked_anew_where_upstream_remembers_it_over_edits() {
    let before = Namespace::of(2).max(1);
    assert_eq!(before.allowed(), ["p0"]);
    // Tightened before the place was reserved: nobody goes. What is reserved stays so.
    assert!(Namespace::of(2).max(0).allowed().is_empty());
    assert_eq!(Namespace::of(2).max(0).reserved(&["p0"]).allowed(), ["p0"]);
}

#[test]
fn every_rule_set_that_selects_the_pod_must_agree() {
    let namespace = Namespace::of(3).max(2).min(2);
    assert_eq!(namespace.allowed(), ["p0"]);
    assert_eq!(namespace.all()[0].agreed(), ["max/r", "min/r"]);
}

#[test]
fn a_pod_that_no_rule_set_selects_passes() {
    let nobody = json!({"selector": {"matchLabels": {"app": "nothing"}}, "rules": [
        {"name": "r", "availablePolicy": {"maxUnavailableValue": 0}}]});
    assert!(Namespace::of(1).rule_set("ptr", nobody).one("p0").allowed);
}

#[test]
fn a_rule_set_of_another_namespace_has_no_say_where_upstream_looks_up_by_pod_name_alone() {
    let mut namespace = Namespace::of(1).max(0);
    namespace.rule_sets[0].namespace = "other".into();
    assert!(namespace.one("p0").allowed);
}

#[test]
fn a_new_rule_and_a_new_pod_count_at_once_where_upstream_waits_for_its_status() {
    let namespace = Namespace::of(2);
    let mut gate = namespace.gate();
    let candidates = [Namespace::candidate("p0"), Namespace::candidate("p9")];
    assert!(gate.decide(&candidates[..1], &namespace.approvals, at(0))[0].allowed);
    gate.set_rule_set(&Namespace::of(0).max(0).rule_sets[0]);
    gate.upsert_pod(&crate::scene::pod("p9", None));
    assert!(gate.decide(&candidates, &namespace.approvals, at(0)).iter().all(|verdict| !verdict.allowed));
}

#[test]
fn the_answer_does_not_depend_on_the_order_of_the_input_where_upstreams_is_random() {
    let namespace = Namespace::of(6).max(2);
    let mut candidates: Vec<Candidate> = (0..6).map(|number| Namespace::candidate(&format!("p{number}"))).collect();
    let expected = namespace.decide(&candidates);
    candidates.reverse();
    candidates.rotate_left(2);
    assert_eq!(namespace.decide(&candidates), expected);
}

#[test]
fn pre_check_and_post_check_are_separate() {
    let rules = json!([
        {"name": "before", "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}},
        {"name": "after", "stage": "PostCheck", "labelCheck": {"requires": {"matchLabels": {"may-return": "true"}}}},
    ]);
    let namespace = Namespace::of(1).rules("ptr", rules.clone()).label("p0", "may-go", "true");
    let verdict = namespace.one("p0");
    assert!(verdict.allowed);
    assert_eq!(verdict.rules[1].because, Allows::OtherStage { stage: "PostCheck".into() });
    let gate = namespace.gate();
    assert!(
        gate.has_post_check("uid-p0", || Namespace::candidate("p0"))
            && !gate.has_post_check("uid-unknown", || Namespace::candidate("unknown"))
    );
    let back = gate.post_check(&Namespace::candidate("p0"), &namespace.approvals, at(0));
    assert_eq!(back.denied().map(hitless_gate::RuleVerdict::rule_name).collect::<Vec<_>>(), ["after"]);
    let may = namespace.label("p0", "may-return", "true");
    assert!(may.gate().post_check(&Namespace::candidate("p0"), &may.approvals, at(0)).allowed);
    let gone = may.gate().post_check(&Namespace::candidate("p7"), &may.approvals, at(0));
    assert_eq!(gone.rules[0].because, Denies::NoSuchPod);
}

#[test]
fn availability_at_the_return_lets_the_operated_pod_pass_as_upstream() {
    // It is out of service itself; that it is reserved, or Ready already, must not keep it out.
    let rule = json!({"name": "r", "stage": "PostCheck", "availablePolicy": {"maxUnavailableValue": 1}});
    for namespace in [
        Namespace::of(2).rule(rule.clone()).reserved(&["p0"]).down(&["p0"]),
        Namespace::of(2).rule(rule).reserved(&["p0"]),
    ] {
        let back = namespace.gate().post_check(&Namespace::candidate("p0"), &namespace.approvals, at(0));
        assert!(back.allowed, "{back}");
        assert_eq!(back.rules[0].because, Allows::AlreadyUnavailable);
    }
}

#[test]
fn a_pod_does_not_set_out_that_could_not_return() {
    let rule = json!({"name": "r", "stage": "PostCheck", "labelCheck": {}});
    let namespace = Namespace::of(1).rule(rule);
    assert!(!namespace.one("p0").allowed);
    assert!(namespace.gate().has_post_check("uid-p0", || Namespace::candidate("p0")));
    let excused = Candidate { skips: ["r".to_owned()].into(), ..Namespace::candidate("p0") };
    assert!(namespace.decide(std::slice::from_ref(&excused))[0].allowed);
    assert!(!namespace.gate().has_post_check("uid-p0", || excused), "nothing keeps it from being held");
}

#[test]
fn a_rule_for_the_return_of_others_does_not_concern_a_pod() {
    let rule = |more: serde_json::Value| {
        let mut rule =
            json!({"name": "r", "stage": "PostCheck", "labelCheck": {"requires": {"matchLabels": {"go": "ok"}}}});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Namespace::of(1)
            .rule(rule)
            .label("p0", "app", "web")
            .gate()
            .has_post_check("uid-p0", || Namespace::candidate("p0"))
    };
    let filter = |app: &str| json!({"filter": {"labelSelector": {"matchLabels": {"app": app}}}});
    assert!(rule(json!({})) && rule(filter("web")));
    assert!(!rule(filter("api")), "it is filtered out");
    assert!(rule(json!({"conditions": ["Warm"]})), "it may be warm by then");
}

#[test]
fn a_label_check_passes_pods_whose_labels_match_and_names_the_selector_otherwise() {
    let rule = json!({"name": "flag", "labelCheck": {"requires": {
        "matchLabels": {"may-go": "true"}, "matchExpressions": [{"key": "frozen", "operator": "DoesNotExist"}]}}});
    let namespace = Namespace::of(3).rule(rule).label("p0", "may-go", "true").label("p1", "may-go", "true");
    let namespace = namespace.label("p1", "frozen", "");
    assert_eq!(namespace.allowed(), ["p0"]);
    let because = namespace.one("p1").rules[0].because.clone();
    assert_eq!(because, Denies::LabelsDiffer { requires: "may-go=true,!frozen".into() });
}

#[test]
fn a_webhook_is_asked_only_if_all_else_passes_where_upstream_has_taken_the_place_already() {
    let namespace = Namespace::of(3).max(2).rule(hook());
    let verdicts = namespace.all();
    assert!(verdicts.iter().all(|verdict| !verdict.allowed));
    // Two have room, if they are approved; the third is not asked about.
    let asks: Vec<_> = verdicts.iter().map(|verdict| verdict.asks.len()).collect();
    assert_eq!(asks, [1, 1, 0]);
    assert_eq!(verdicts[0].asks, ["ptr/hook"]);
    assert!(Namespace::of(1).max(0).rule(hook()).one("p0").asks.is_empty());
}

#[test]
fn what_an_approver_says_of_one_operation_holds_for_that_operation_alone() {
    for (approval, allowed) in [
        (Approval::Approved, true),
        (Approval::Pending, false),
        (Approval::Refused, false),
        (Approval::Unreachable, false),
    ] {
        let namespace = Namespace::of(2).rule(hook()).answer("p0", "ptr/hook", approval.clone());
        let verdict = namespace.one("p0");
        assert_eq!(verdict.allowed, allowed, "{approval:?}");
        assert_eq!(verdict.rules[0].since, Some(at(7)));
        assert_eq!(verdict.asks, ["ptr/hook"], "asked about, or was");
        assert!(!namespace.one("p1").allowed);
        let next = Candidate { operation: "another".into(), ..Namespace::candidate("p0") };
        assert!(!namespace.decide(&[next])[0].allowed);
    }
    let verdict = Namespace::of(1).rule(hook()).answer("p0", "ptr/hook", Approval::Refused).one("p0");
    assert!(!verdict.rules[0].is_allowed());
    assert_eq!(verdict.rules[0].reason(), "the approver refuses: so it says");
}

#[test]
fn a_webhook_works_in_post_check_too() {
    let rule =
        json!({"name": "hook", "stage": "PostCheck", "webhook": {"clientConfig": {"url": "https://approver.example"}}});
    let namespace = Namespace::of(1).rule(rule);
    assert!(namespace.one("p0").allowed && namespace.one("p0").asks.is_empty());
    let back =
        |namespace: &Namespace| namespace.gate().post_check(&Namespace::candidate("p0"), &namespace.approvals, at(0));
    let waiting = back(&namespace);
    assert!(!waiting.allowed);
    assert_eq!(waiting.asks, ["ptr/hook"]);
    assert!(back(&namespace.answer("p0", "ptr/hook", Approval::Approved)).allowed);
}
