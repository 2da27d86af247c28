//! §1.1 and §1.2: the object and its fields; §1.4: the annotation that excuses a pod, kinds that are skipped.

use hitless_api::PodTransitionRule;
use hitless_gate::facts::skipped_rules;
use hitless_gate::{Allows, Candidate, Denies};
use kube::{CustomResourceExt as _, Resource as _};
use serde_json::json;

use crate::scene::Namespace;

#[test]
fn the_object_has_upstreams_names_and_our_printer_columns() {
    let crd = serde_json::to_value(PodTransitionRule::crd()).unwrap();
    assert_eq!(PodTransitionRule::group(&()), "apps.kusionstack.io");
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(crd["spec"]["names"]["plural"], "podtransitionrules");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["ptr"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!("v1alpha1"), &json!(true), &json!(true))
    );
    assert_eq!(version["subresources"]["status"], json!({}));
    // Upstream has none.
    assert_eq!(version["additionalPrinterColumns"][0]["name"], "Rules");
}

#[test]
fn every_field_of_upstreams_spec_is_read_and_written_as_it_was() {
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "rules": [
            {"name": "budget", "stage": "PreCheck", "conditions": ["Warm"], "filter": {"labelSelector": {"matchLabels": {"tier": "x"}}},
                "availablePolicy": {"maxUnavailableValue": "50%", "minAvailableValue": 1,
                    "maxUnavailablePolicy": {"expFunc": {"coeff": "1", "pow": "0.5"}},
                    "minAvailablePolicy": {"expFunc": {"coeff": "0.1", "pow": "1"}}}},
            {"name": "flag", "disabled": true, "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}},
            {"name": "hook", "stage": "PostCheck", "webhook": {
                "clientConfig": {"url": "https://approver.example/ask", "caBundle": "Cg==", "poll": {
                    "url": "https://approver.example/poll", "rawQueryKey": "task-id", "caBundle": "Cg==",
                    "intervalSeconds": 5, "timeoutSeconds": 60}},
                "failurePolicy": "Ignore",
                "parameters": [
                    {"key": "a", "value": "literal"},
                    {"key": "b", "valueFrom": {"type": "Ref", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]}},
        ],
    });
    let read: hitless_api::PodTransitionRuleSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), spec);
}

#[test]
fn every_field_of_upstreams_status_is_read_and_written_as_it_was() {
    let task = json!({"taskId": "t", "processing": ["p0"], "approved": ["p1"], "beginTime": "2026-11-21T00:00:00Z",
        "lastTime": "2026-11-21T00:00:05Z", "message": "polling"});
    let status = json!({
        "observedGeneration": 3, "updateTime": "2026-11-21T00:00:00Z", "targets": ["p0", "p1"],
        "details": [{"name": "p0", "stage": "PreCheck", "passed": false, "passedRules": ["a"],
            "rejectInfo": [{"ruleName": "b", "reason": "because"}]}],
        "ruleStates": [{"name": "b", "webhookStatus": {"taskStates": [task], "history": [task]}}],
    });
    let read: hitless_api::pod_transition_rule::PodTransitionRuleStatus =
        serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), status);
}

#[test]
fn a_rule_without_a_stage_is_for_pre_check_and_one_with_an_unknown_stage_never_runs() {
    let rule = |stage| json!({"name": "r", "stage": stage, "availablePolicy": {"maxUnavailableValue": 0}});
    assert!(Namespace::of(1).max(0).allowed().is_empty());
    assert!(Namespace::of(1).rule(rule("PreCheck")).allowed().is_empty());
    let never = Namespace::of(1).rule(rule("PreTrafficOff"));
    assert!(never.one("p0").allowed);
    assert_eq!(never.one("p0").rules[0].because, Allows::OtherStage { stage: "PreTrafficOff".into() });
    assert!(!never.gate().has_post_check("uid-p0", || Namespace::candidate("p0")));
}

#[test]
fn a_disabled_rule_is_ignored_in_every_stage() {
    for stage in ["PreCheck", "PostCheck"] {
        let rule =
            json!({"name": "r", "stage": stage, "disabled": true, "availablePolicy": {"maxUnavailableValue": 0}});
        let namespace = Namespace::of(1).rule(rule);
        assert_eq!(namespace.one("p0").rules[0].because, Allows::Disabled);
        assert!(!namespace.gate().has_post_check("uid-p0", || Namespace::candidate("p0")));
    }
}

#[test]
fn conditions_are_those_of_the_pod_where_upstream_registers_no_predicate() {
    let rule = json!({"name": "r", "conditions": ["Warm", "Hot"], "availablePolicy": {"maxUnavailableValue": 0}});
    let namespace = Namespace::of(1).rule(rule);
    let because = namespace.one("p0").rules[0].because.clone();
    assert_eq!(because, Allows::ConditionsUnmet { conditions: vec!["Hot".into(), "Warm".into()] });
    let hot = Candidate { conditions: ["Hot".to_owned()].into(), ..Namespace::candidate("p0") };
    assert!(!namespace.decide(&[hot])[0].allowed, "one of them is enough for the rule to apply");
}

#[test]
fn a_filter_narrows_who_is_asked_and_not_the_base() {
    let rule = json!({"name": "r", "filter": {"labelSelector": {"matchLabels": {"tier": "x"}}},
        "availablePolicy": {"maxUnavailableValue": "50%"}});
    let namespace = Namespace::of(4).rule(rule).label("p2", "tier", "x").label("p3", "tier", "x");
    let verdicts = namespace.all();
    let allowed: Vec<_> = verdicts.iter().map(|verdict| verdict.allowed).collect();
    // p0 and p1 are not asked, but they are gone all the same.
    assert_eq!(allowed, [true, true, false, false]);
    assert!(verdicts[2].to_string().contains("[max unavailable]=2/4, [current unavailable]=2/4"));
    assert_eq!(verdicts[0].rules[0].because, Allows::FilteredOut);
}

#[test]
fn of_several_definitions_the_first_of_available_policy_label_check_webhook_counts() {
    let labels = json!({"requires": {"matchLabels": {"may-go": "true"}}});
    let hook = json!({"clientConfig": {"url": "http://approver.example"}});
    let all =
        json!({"name": "r", "availablePolicy": {"maxUnavailableValue": 1}, "labelCheck": labels, "webhook": hook});
    assert!(Namespace::of(1).rule(all).one("p0").allowed);
    let two = json!({"name": "r", "labelCheck": labels, "webhook": hook});
    let verdict = Namespace::of(1).rule(two).one("p0");
    assert_eq!(verdict.rules[0].because, Denies::LabelsDiffer { requires: "may-go=true".into() });
    assert!(verdict.asks.is_empty());
}

#[test]
fn a_rule_without_a_definition_is_skipped() {
    let verdict = Namespace::of(1).rule(json!({"name": "r"})).one("p0");
    assert!(verdict.allowed);
    assert_eq!(verdict.rules[0].because, Allows::Empty);
    assert!(verdict.agreed().is_empty());
}

#[test]
fn a_function_is_evaluated_where_upstream_ignores_it_and_a_value_wins_over_it() {
    let root = json!({"expFunc": {"coeff": "1", "pow": "0.5"}});
    let policy = |policy| json!({"name": "r", "availablePolicy": policy});
    assert_eq!(Namespace::of(16).rule(policy(json!({"maxUnavailablePolicy": root}))).allowed().len(), 4);
    assert_eq!(Namespace::of(10).rule(policy(json!({"maxUnavailablePolicy": root}))).allowed().len(), 4, "rounds up");
    assert_eq!(Namespace::of(10).rule(policy(json!({"minAvailablePolicy": root}))).allowed().len(), 7, "rounds down");
    let both = policy(json!({"maxUnavailableValue": 1, "maxUnavailablePolicy": root}));
    assert_eq!(Namespace::of(16).rule(both).allowed().len(), 1);
}

#[test]
fn the_annotation_excuses_a_pod_from_the_rules_that_it_names() {
    let rules = json!([
        {"name": "a", "availablePolicy": {"maxUnavailableValue": 0}},
        {"name": "b", "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}},
    ]);
    let namespace = Namespace::of(2).rules("ptr", rules);
    let with = |annotation: &str| Candidate { skips: skipped_rules(annotation), ..Namespace::candidate("p0") };
    let verdict = &namespace.decide(&[with(r#"{"skipRules":["a","b"]}"#)])[0];
    assert!(verdict.allowed && verdict.rules.iter().all(|rule| rule.because == Allows::Skipped));
    assert!(verdict.agreed().is_empty());
    let verdict = &namespace.decide(&[with(r#"{"skipRules":["a"]}"#)])[0];
    assert_eq!(verdict.denied().map(hitless_gate::RuleVerdict::rule_name).collect::<Vec<_>>(), ["b"]);
    for nonsense in ["", "a", "[]", r#"{"skipRules":"a"}"#, r#"{"skiprules":["a","b"]}"#] {
        assert!(!namespace.decide(&[with(nonsense)])[0].allowed, "{nonsense:?} excuses nobody");
    }
}

#[test]
fn the_annotation_excuses_from_a_rule_that_can_not_be_understood_too_and_never_from_a_budget() {
    let namespace = Namespace::of(1).rule(json!({"name": "r", "availablePolicy": {"maxUnavailableValue": "many"}}));
    let skips = Candidate {
        skips: ["r".to_owned(), "paused".to_owned(), "budget:b/paused".to_owned()].into(),
        ..Namespace::candidate("p0")
    };
    assert!(!namespace.one("p0").allowed);
    assert!(namespace.decide(std::slice::from_ref(&skips))[0].allowed);
    let paused = namespace.budget(json!({"paused": true}));
    assert!(!paused.decide(&[skips])[0].allowed);
}

#[test]
fn kinds_that_are_skipped_are_not_evaluated_at_all() {
    let rules = json!([
        {"name": "a", "availablePolicy": {"maxUnavailableValue": 0}},
        {"name": "l", "labelCheck": {"requires": {"matchLabels": {"may-go": "true"}}}},
        {"name": "w", "webhook": {"clientConfig": {"url": "http://approver.example"}}},
    ]);
    let kinds = ["availablePolicy", "labelCheck", "webhook"];
    for (kind, rule) in kinds.iter().zip(["a", "l", "w"]) {
        let mut namespace = Namespace::of(1).rules("ptr", rules.clone());
        namespace.skipped_kinds.insert((*kind).to_owned());
        let verdict = namespace.one("p0");
        let skipped = verdict.rules.iter().find(|each| each.rule_name() == rule).unwrap();
        assert_eq!(skipped.because, Allows::KindSkipped { kind: (*kind).to_owned() });
        assert_eq!(verdict.denied().count(), 2, "the other two still deny");
    }
    let mut none = Namespace::of(1).rules("ptr", rules);
    none.skipped_kinds.extend(kinds.iter().map(|kind| (*kind).to_owned()));
    assert!(none.one("p0").allowed && none.one("p0").asks.is_empty());
}
