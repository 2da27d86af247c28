//! The first request, and every kind of answer to it.

use std::sync::Arc;

use hitless_controller::approval::Ask;
use hitless_controller::approval::requests::Failure;
use hitless_gate::approval::Approval::{Approved, Pending, Refused, Unreachable};
use hitless_rollout::snapshot::RuleView;
use serde_json::{Value, json};

use crate::office::{Office, ask, operation, plain, pods, polled, rule, uid, view};

#[test]
fn all_pods_go_into_one_question_and_no_pod_is_asked_about_twice() {
    let mut office = Office::new(&plain(), &["a", "b"]);
    let call = office.call();
    assert_eq!(pods(&call), ["a", "b"]);
    assert_eq!((call.rule.rule.as_str(), call.config.stage.as_deref(), call.timeout.as_secs()), ("ask", None, 30));
    assert_eq!(office.approvals(&["a", "b"]), [Pending, Pending]);
    office.asks.push(ask("c"));
    office.idle();
    office.reply(&call, &json!({"success": true}));
    assert_eq!(office.approvals(&["a", "b", "c"]), [Approved, Approved, Pending]);
    assert_eq!(pods(&office.call()), ["c"], "one question at a time, then those that came meanwhile");
}

#[test]
fn the_stage_is_sent_as_the_rule_has_it() {
    for stage in [json!("PreCheck"), json!("PostCheck"), Value::Null] {
        let mut office = Office::new(&plain(), &["a"]);
        office.rules = vec![view(&[json!({"name": "ask", "stage": stage, "webhook": plain()})], 1, None)];
        assert_eq!(office.call().config.stage.as_deref(), stage.as_str());
    }
}

#[test]
fn success_approves_all_and_a_refusal_only_those_that_are_named() {
    let mut office = Office::new(&plain(), &["a", "b"]);
    let call = office.call();
    office.reply(&call, &json!({"success": false, "finishedNames": ["b", "stranger"], "message": "not a"}));
    assert_eq!(office.said("a"), (Refused, "not a".into()));
    assert_eq!(office.said("b").0, Approved);
    assert_eq!(office.requests.approvals().len(), 2, "names that were not asked about are ignored");
    assert_eq!(office.sleep(), 5, "asked again after five seconds");
    let call = office.call();
    assert_eq!(pods(&call), ["a"], "only the one that was refused");
    assert_eq!(office.approvals(&["a"]), [Refused], "refused until there is another answer");
    office.reply(&call, &json!({"success": true}));
    assert_eq!(office.approvals(&["a", "b"]), [Approved, Approved]);
    office.idle();
    assert_eq!(office.requests.wake_at(), None);
}

#[test]
fn a_refusal_without_a_reason_says_so() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.reply(&call, &json!({"message": " "}));
    assert_eq!(office.said("a"), (Refused, "refused without a reason".into()), "no `success` is no success");
}

/// Upstream's manager dies of a transport error.
#[test]
fn an_approver_that_is_not_there_is_asked_less_and_less_often() {
    let mut office = Office::new(&plain(), &["a"]);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let call = office.call();
        office.fail(&call, "connection refused");
        assert_eq!(office.said("a"), (Unreachable, "connection refused".into()));
        office.asks = vec![ask("a"), ask("late")];
        office.idle();
        assert_eq!(office.approvals(&["late"]), [Unreachable], "a pod that comes later is told at once");
        waits.push(office.sleep());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
    let call = office.call();
    assert_eq!(pods(&call), ["a", "late"]);
    office.reply(&call, &json!({"success": false}));
    office.sleep();
    let call = office.call();
    office.fail(&call, "again");
    assert_eq!(office.sleep(), 1, "an answer ends the row of failures");
}

#[test]
fn what_is_no_answer_is_like_no_approver() {
    for body in
        ["", "null", "[true]", "{", "\"yes\"", "{\"success\":\"yes\"}", "<html>", "{\"success\":true} x", "\u{feff}{}"]
    {
        let mut office = Office::new(&plain(), &["a"]);
        let call = office.call();
        office.requests.done(call.id, Ok(body.as_bytes().to_vec()), office.now);
        assert_eq!(office.approvals(&["a"]), [Unreachable], "{body}");
    }
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.requests.done(call.id, Ok(vec![0xff, 0xfe]), office.now);
    assert_eq!(office.approvals(&["a"]), [Unreachable]);
}

/// `failurePolicy: Ignore` lets pods pass where the approver is unreachable; a rule that names none is something else.
#[test]
fn a_rule_that_can_ask_nobody_refuses() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.requests.done(call.id, Err(Failure::Misconfigured("caBundle".into())), office.now);
    assert_eq!(office.said("a"), (Refused, "caBundle".into()));
    assert_eq!(office.sleep(), 30);
}

#[test]
fn two_rules_of_one_name_ask_nobody() {
    let mut office = Office::new(&plain(), &["a"]);
    office.rules = vec![view(&[rule(&plain()), rule(&polled())], 1, None)];
    office.idle();
    let (approval, text) = office.said("a");
    assert!(approval == Refused && text.contains("rename one"), "{text}");
    office.rules = vec![view(&[rule(&plain())], 2, None)];
    assert_eq!(pods(&office.call()), ["a"], "mended");
}

#[test]
fn rules_that_ask_nobody_are_not_asked_for() {
    let off = json!({"name": "ask", "disabled": true, "webhook": plain()});
    let labels = json!({"name": "ask", "labelCheck": {"requires": {}}, "webhook": plain()});
    let available = json!({"name": "ask", "availablePolicy": {}, "webhook": plain()});
    for rules in [vec![], vec![off], vec![labels], vec![available]] {
        let mut office = Office::new(&plain(), &["a"]);
        office.rules = vec![view(&rules, 1, None)];
        office.idle();
        assert_eq!(office.answer("a"), None);
    }
}

/// Upstream keeps earlier passes when a rule is edited.
#[test]
fn answers_go_with_the_webhook_they_came_from() {
    let mut office = Office::new(&plain(), &["a", "b"]);
    let call = office.call();
    office.reply(&call, &json!({"success": false, "finishedNames": ["a"]}));
    office.rules = vec![view(&[rule(&plain()), json!({"name": "other"})], 2, None)];
    office.idle();
    assert_eq!(office.approvals(&["a", "b"]), [Approved, Refused], "another rule of the set changed");
    let elsewhere = json!({"clientConfig": {"url": "https://elsewhere/"}});
    office.rules = vec![view(&[rule(&elsewhere)], 3, None)];
    let call = office.call();
    assert_eq!((pods(&call), office.approvals(&["a", "b"])), (vec!["a", "b"], vec![Pending, Pending]));
    assert_eq!(call.config.webhook.client_config.url, "https://elsewhere/");
}

#[test]
fn an_answer_that_comes_after_the_rule_has_changed_is_nobodys() {
    let mut office = Office::new(&plain(), &["a"]);
    let old = office.call();
    office.rules = vec![view(&[rule(&json!({"clientConfig": {"url": "https://elsewhere/"}}))], 2, None)];
    let new = office.call();
    office.reply(&old, &json!({"success": true}));
    assert_eq!(office.approvals(&["a"]), [Pending]);
    office.reply(&new, &json!({"success": true}));
    assert_eq!(office.approvals(&["a"]), [Approved]);
    office.rules.clear();
    office.idle();
    assert_eq!(office.answer("a"), None, "the rule is gone");
    office.reply(&new, &json!({"success": true}));
    assert!(office.requests.approvals().is_empty());
}

#[test]
fn an_answer_is_for_one_operation_and_kept_only_while_it_is_of_use() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.reply(&call, &json!({"success": true}));
    office.asks[0].operation = "uid-a.other".into();
    assert_eq!(pods(&office.call()), ["a"], "the same pod, another operation");
    office.asks.clear();
    office.waiting = [uid("a")].into();
    office.pass(3600);
    office.idle();
    assert_eq!(office.approvals(&["a"]), [Approved], "there is no room for it now, that does not make it ask again");
    office.waiting.clear();
    office.pass(9);
    office.idle();
    assert_eq!(office.approvals(&["a"]), [Approved]);
    office.pass(1);
    office.idle();
    assert!(office.requests.approvals().is_empty(), "nobody wants to know any more");
}

#[test]
fn an_answer_is_used_up_when_the_operation_begins() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.reply(&call, &json!({"success": true}));
    office.asks.clear();
    office.running = [uid("a")].into();
    office.idle();
    assert_eq!(office.answer("a"), None);

    let mut office = Office::new(&plain(), &["a"]);
    office.rules = vec![view(&[json!({"name": "ask", "stage": "PostCheck", "webhook": plain()})], 1, None)];
    office.running = [uid("a")].into();
    let call = office.call();
    office.reply(&call, &json!({"success": true}));
    office.asks.clear();
    office.idle();
    assert_eq!(office.approvals(&["a"]), [Approved], "an answer about a running operation");
}

#[test]
fn a_pod_that_nobody_asks_about_any_more_is_not_asked_about_again() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.reply(&call, &json!({"success": false}));
    office.asks.clear();
    office.pass(6);
    office.idle();
    assert_eq!(office.requests.wake_at(), None);
}

#[test]
fn at_most_eight_requests_of_a_namespace_are_under_way_and_the_longest_waiting_goes_first() {
    let mut office = Office::new(&plain(), &[]);
    let rules: Vec<Value> = (0..20).map(|n| json!({"name": format!("r{n:02}"), "webhook": plain()})).collect();
    office.rules = vec![view(&rules, 1, None)];
    office.asks = (0..20).map(|n| Ask { rule: format!("r{n:02}"), ..ask("a") }).collect();
    let calls = office.turn();
    assert_eq!(calls.len(), 8);
    office.idle();
    assert_eq!(office.requests.wake_at(), None, "an outcome makes room, the clock does not");
    office.pass(1);
    office.fail(&calls[0], "down");
    office.fail(&calls[1], "down");
    office.pass(1);
    let rules: Vec<String> = office.turn().into_iter().map(|call| call.rule.rule).collect();
    assert_eq!(rules, ["r08", "r09"], "before those that were asked already");
    // A rule that goes away does not make more room than there is.
    office.rules.clear();
    office.idle();
    office.rules = vec![view(&[json!({"name": "r00", "webhook": plain()})], 2, None)];
    office.idle();
}

#[test]
fn approvers_that_never_answer_keep_no_other_namespace_waiting() {
    let mut office = Office::new(&plain(), &[]);
    let rules: Vec<Value> = (0..320).map(|n| json!({"name": format!("r{n:03}"), "webhook": plain()})).collect();
    let others = RuleView { namespace: "other".into(), ..(*view(&[rule(&plain())], 1, None)).clone() };
    office.rules = vec![view(&rules, 1, None), Arc::new(others)];
    let hanging = (0..320).map(|n| Ask { rule: format!("r{n:03}"), ..ask("a") });
    office.asks = hanging.collect();
    assert_eq!(office.turn().len(), 8);
    office.pass(1);
    office.asks.push(Ask { namespace: "other".into(), ..ask("b") });
    let calls = office.turn();
    assert_eq!(calls.iter().map(|call| call.rule.namespace.as_str()).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn very_many_pods_are_asked_about_in_parts_with_no_name_twice() {
    let mut office = Office::new(&plain(), &[]);
    office.asks = (0..1500).map(|n| ask(&format!("p{n:04}"))).collect();
    let mut twin = ask("p0000");
    (twin.operation, twin.pod.uid) = ("uid-p0000-new.update".into(), "uid-p0000-new".into());
    office.asks.push(twin);
    let first = office.call();
    office.reply(&first, &json!({"success": true}));
    let second = office.call();
    assert_eq!((pods(&first).len(), pods(&second).len()), (1000, 501));
    for call in [&first, &second] {
        let names: std::collections::BTreeSet<&str> = pods(call).into_iter().collect();
        assert_eq!(names.len(), pods(call).len());
    }
}

#[test]
fn a_long_message_is_cut_and_since_does_not_move_while_the_answer_is_the_same() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.reply(&call, &json!({"success": false, "message": "x".repeat(100_000)}));
    let first = office.answer("a").unwrap();
    assert_eq!(first.message.len(), 512);
    office.sleep();
    let call = office.call();
    office.reply(&call, &json!({"success": false, "message": "later"}));
    let second = office.answer("a").unwrap();
    assert_eq!((second.since, second.message.as_str()), (first.since, "later"));
}

#[test]
fn at_the_end_of_a_term_all_is_forgotten() {
    let mut office = Office::new(&plain(), &["a"]);
    let call = office.call();
    office.requests.end_of_term();
    office.reply(&call, &json!({"success": true}));
    assert!(office.requests.approvals().is_empty());
    assert_eq!(office.requests.wake_at(), None);
    assert_eq!(pods(&office.call()), ["a"]);
    office.reply(&call, &json!({"success": true}));
    assert_eq!(office.approvals(&["a"]), [Pending], "not an answer to the question of this term");
}

#[test]
fn rules_of_one_name_in_other_places_have_answers_of_their_own() {
    let mut office = Office::new(&plain(), &["a"]);
    let mut other = (*office.rules[0]).clone();
    other.namespace = "other".into();
    office.rules.push(Arc::new(other));
    let mut elsewhere = ask("a");
    (elsewhere.namespace, elsewhere.pod.namespace) = ("other".into(), "other".into());
    office.asks.push(elsewhere);
    let calls = office.turn();
    assert_eq!(calls.len(), 2);
    let ours = calls.iter().find(|call| call.rule.namespace == "ns").unwrap();
    office.reply(ours, &json!({"success": true}));
    let approved = office.requests.approvals();
    let approved: Vec<_> = approved.iter().filter(|(_, answer)| answer.approval == Approved).collect();
    assert_eq!(approved.len(), 1);
    assert_eq!((approved[0].0.namespace.as_str(), &approved[0].0.operation), ("ns", &operation("a")));
}
