mod unwell;

use std::sync::Arc;

use hitless_api::{PodTransitionRule, TransitionBudget};
use hitless_store::inputs::Input as _;
use hitless_store::inputs::rows::{DisruptionBudgets, DrainPolicies, Rules};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::*;
use crate::scene::{
    pod, rollout, with_annotation, with_budget, with_drain_policy, with_gap, with_grant, with_known_start, with_object,
    with_reservation, with_rule,
};
use crate::snapshot::Unread;

fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn old(name: &str) -> Value {
    pod(name, "web:v1")
}

fn why(snapshot: &Snapshot, target: &str) -> (String, Answer) {
    let answer = explain(snapshot, &target.parse().unwrap(), now()).unwrap();
    (text::render(&answer), answer)
}

#[test]
fn a_blocked_pod_names_rule_numbers_holder_and_the_smallest_change() {
    let snapshot = with_reservation(with_rule(rollout(&[old("a"), old("b"), pod("c", "web:v2")]), 1), "a");
    let (text, answer) = why(&snapshot, "web");
    insta::assert_snapshot!("blocked", text);
    assert_eq!(answer.blocked(), Blocked::No, "a is under way, and b follows");
    assert_eq!(answer.under_way.as_deref(), Some("a (Reserved for 30s); then b; nothing to do"));
    let (_, answer) = why(&snapshot, "pod/b");
    assert_eq!(answer.blocked(), Blocked::No);
    insta::assert_snapshot!("blocked_json", serde_json::to_string_pretty(&answer).unwrap());
}

#[test]
fn windows_zones_and_budgets_of_the_whole_cluster_are_asked_too() {
    let never = json!({"selector": {}, "maxConcurrent": 1,
        "windows": [{"start": "22:00", "end": "23:00", "timeZone": "Europe/Berlin"}]});
    let snapshot = with_budget(rollout(&[old("a"), old("b")]), "night", "team", &never);
    let cluster = json!({"selector": {}, "scope": "Cluster", "maxUnavailable": "10%"});
    let mut snapshot = with_budget(snapshot, "all", "hitless-system", &cluster);
    let refused = Unread::Refused("poddisruptionbudgets.policy is forbidden".to_owned());
    snapshot.unread.insert(DisruptionBudgets::PART.unwrap(), refused);
    let (text, answer) = why(&snapshot, "deployment/web");
    insta::assert_snapshot!("windows", text);
    assert!(matches!(answer.blocked(), Blocked::ByRule(_)));
}

#[test]
fn texts_of_objects_stay_on_their_line() {
    let frozen = json!({"selector": {}, "blackouts": [{"start": "2025-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z",
        "reason": "audit\u{1b}[2J\nnote: all is well"}]});
    let (text, _) = why(&with_budget(rollout(&[old("a")]), "frozen", "team", &frozen), "web");
    assert!(text.contains(r"audit\u001b[2J\nnote: all is well"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("note: all")), "{text}");
}

#[test]
fn what_is_no_rule_is_named_with_what_to_do() {
    let mut ungated = old("a");
    ungated["spec"]["readinessGates"] = json!([]);
    ungated["metadata"]["annotations"]["hitless.dev/mode"] = json!("Leave");
    let mut drained = old("b");
    drained["metadata"]["annotations"] = json!({"hitless.dev/drain": r#"{"deadline": 3}"#});
    let mut snapshot = rollout(&[ungated, drained, old("c")]);
    snapshot.cluster.unknown.agents = false;
    let failed = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:20.000000Z", "message": "exit 1",
        "result": {"outcome": "RolledBack", "reason": "CrashLoopBackOff"}});
    let snapshot = with_grant(snapshot, "c", &failed);
    let (text, answer) = why(&snapshot, "web");
    insta::assert_snapshot!("obstacles", text);
    assert!(matches!(answer.blocked(), Blocked::Otherwise("a")));
}

/// As the controller sees it, whose watch keeps only an outline of such objects.
#[test]
fn what_is_too_large_to_look_after_is_named_with_what_to_do() {
    let env: Vec<Value> = (0..6_000).map(|number| json!({"name": format!("a{number}")})).collect();
    let mut large = old("a");
    large["spec"]["containers"][0]["env"] = json!(env);
    let read = hitless_api::large::outlined(serde_json::from_value(large).unwrap());
    let mut snapshot = rollout(&[old("b")]);
    let read = Arc::new(hitless_api::pod::PodView::from(&read));
    snapshot.cluster = snapshot.cluster.clone().with_pods(vec![read]);
    let (text, answer) = why(&snapshot, "pod/a");
    assert!(text.contains("! TooLarge: it has 12"), "{text}");
    assert!(matches!(answer.blocked(), Blocked::ByChange("a")), "{:?}", answer.blocked());

    let snapshot = with_object(rollout(&[old("a")]), 0, |web| {
        web["spec"]["template"]["spec"]["containers"][0]["env"] = json!(env);
    });
    let (text, _) = why(&snapshot, "deployment/web");
    let round = snapshot.observed(now());
    let mut cache = hitless_rollout::gate_cache::GateCache::new(snapshot.settings.clone());
    let events = hitless_rollout::round::round(&round, &mut cache, now()).events;
    let said = events.iter().find(|event| event.reason == "TooLarge").unwrap();
    assert!(said.text.contains("until then its changes roll natively") && text.contains(&said.text), "{text}");
}

#[test]
fn hooks_that_make_no_sense_are_in_the_way_and_one_that_is_waited_for_is_named() {
    let mut pod = old("a");
    pod["metadata"]["annotations"] = json!({"hitless.dev/hooks": r#"[{"name": "ask", "when": "BeforeDrain"}]"#});
    let (text, answer) = why(&rollout(&[pod]), "pod/a");
    let words =
        "! InvalidDrain: annotation hitless.dev/hooks is not usable: ask: it has to have exactly one of http and exec";
    assert!(text.contains(words), "{text}");
    assert!(matches!(answer.blocked(), Blocked::ByChange("a")));
    let waiting = json!({"id": "g", "phase": "Leaving", "since": "2026-01-01T00:00:20.000000Z",
        "message": "hook ask that says not yet; it is called again at 2026-01-01T00:00:50Z: exporting"});
    let (text, _) = why(&with_grant(rollout(&[old("a")]), "a", &waiting), "pod/a");
    assert!(text.contains("is being operated, Leaving: ") && text.contains("hook ask that says not yet"), "{text}");
}

#[test]
fn an_agent_that_knows_no_hooks_is_in_the_way_of_a_pod_that_has_some() {
    let mut pod = old("a");
    let hooks = r#"[{"name": "ask", "when": "BeforeDrain", "exec": {"container": "web", "command": ["true"]}}]"#;
    pod["metadata"]["annotations"] = json!({"hitless.dev/hooks": hooks});
    let snapshot = rollout(&[pod, old("b")]);
    let done = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:20.000000Z",
        "result": {"outcome": "Done", "reason": "Done"}});
    let mut snapshot = with_grant(snapshot, "b", &done);
    for (features, words) in [(json!(["Leave"]), "feature hooks"), (json!(["hooks"]), "feature exec-hooks")] {
        let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
        let agent = json!({"version": "1", "bootID": "b", "features": features});
        node.agent = serde_json::from_value(agent).unwrap();
        let (text, _) = why(&snapshot, "pod/a");
        assert!(text.contains("! HooksUnsupported: ") && text.contains(words), "{text}");
    }
}

#[test]
fn a_pod_that_wishes_nothing_says_so_and_what_would_be_said() {
    let (text, answer) = why(&with_rule(rollout(&[pod("a", "web:v2")]), 0), "a");
    insta::assert_snapshot!("hypothetical", text);
    assert_eq!(answer.blocked(), Blocked::No, "who wishes nothing waits for nothing");
    assert_eq!(answer.pods[0].desired, None);
    let reserved = with_reservation(rollout(&[old("a"), pod("b", "web:v2")]), "a");
    assert_eq!(why(&reserved, "web").1.blocked(), Blocked::No);
    let (_, never) = why(&with_rule(rollout(&[old("a")]), 0), "web");
    assert_eq!((never.blocked(), &never.under_way), (Blocked::ByRule("a"), &None), "waiting alone does not help");
    let (_, answer) = why(&rollout(&[pod("a", "web:v2")]), "pod/a");
    assert_eq!(answer.blocked(), Blocked::No);
}

#[test]
fn a_halted_workload_is_no_success_and_a_paused_one_says_how_to_go_on() {
    let mark = r#"{"revision": "REVISION", "backTo": "x", "pod": "a", "reason": "CrashLoopBackOff"}"#;
    let snapshot = rollout(&[old("a")]);
    let revision = snapshot.cluster.objects[0].template().unwrap().revision().to_owned();
    let halted = with_annotation(snapshot.clone(), "hitless.dev/halted", &mark.replace("REVISION", &revision));
    let (text, answer) = why(&halted, "web");
    assert_eq!(answer.blocked(), Blocked::Stopped(&Stopped::Halted("deployment/web".to_owned())));
    assert!(text.contains("kubectl hitless undo -n team deployment/web"), "{text}");
    let code = |answer: &Answer| verdict(answer.blocked()).map_err(|failure| failure.code());
    assert_eq!(code(&answer), Err(1));
    let owners = with_object(snapshot.clone(), 0, |deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    });
    let (text, answer) = why(&owners, "web");
    assert_eq!((answer.blocked(), code(&answer)), (Blocked::ByPause("a"), Err(3)));
    assert!(text.contains("let it go on with: kubectl rollout resume"), "{text}");
    let (text, answer) = why(&with_annotation(snapshot, "hitless.dev/paused", "true"), "web");
    assert_eq!((answer.blocked(), code(&answer)), (Blocked::ByPause("a"), Err(3)));
    assert!(
        text.contains("! Paused: ") && text.contains("to unblock: let it go on with: kubectl hitless resume"),
        "{text}"
    );
}

#[test]
fn what_could_not_be_read_is_never_said_to_be_free() {
    let mut snapshot = rollout(&[old("a")]);
    assert!(why(&snapshot, "web").0.contains("; nothing is in the way"));
    snapshot.unread.insert(Rules::PART.unwrap(), Unread::Refused("podtransitionrules is forbidden".to_owned()));
    let (text, answer) = why(&snapshot, "web");
    assert!(text.contains("; nothing that could be read is in the way") && answer.partial, "{text}");
}

#[test]
fn pods_of_which_the_same_is_said_are_said_once() {
    let pods: Vec<Value> = (0..9).map(|number| old(&format!("web-{number}"))).collect();
    let (text, _) = why(&with_rule(rollout(&pods), 0), "web");
    assert!(text.contains("pod/web-0") && text.contains("web-5 and 3 more: wishes an update and waits"), "{text}");
}

/// That one is being deleted, and may take long.
fn leaving(name: &str) -> Value {
    let mut pod = old(name);
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    pod
}

#[test]
fn a_pod_that_is_being_deleted_is_waited_for_until_it_is_replaced_and_no_longer() {
    let of_three =
        |pods: &[Value]| with_object(rollout(pods), 0, |deployment| deployment["spec"]["replicas"] = json!(3));
    let (text, answer) = why(&of_three(&[old("a"), old("b"), leaving("c")]), "web");
    assert!(
        text.contains("held by: c (being deleted)") && text.contains("wait until 1 more pod is available"),
        "{text}"
    );
    assert_eq!(answer.blocked(), Blocked::No, "its replacement comes by itself");
    assert!(!text.contains("is unavailable anyway"), "{text}");
    let (text, answer) = why(&of_three(&[old("a"), old("b"), old("d"), leaving("c")]), "pod/a");
    assert!(!text.contains("held by") && text.contains("wishes an update; nothing is in the way"), "{text}");
    assert_eq!(answer.blocked(), Blocked::No);
    let mut unready = old("d");
    unready["status"]["conditions"] = json!([]);
    let (text, _) = why(&of_three(&[old("a"), old("b"), unready, leaving("c")]), "pod/a");
    assert!(text.contains("held by: d (unavailable)") && text.contains("and 1 is\n"), "c counts no more: {text}");
    // One that is being operated keeps its place.
    let reserved = with_reservation(of_three(&[old("a"), old("b"), old("d"), leaving("c")]), "c");
    let (text, _) = why(&reserved, "pod/a");
    assert!(text.contains("held by: c ("), "{text}");
}

/// What the controller wrote into the status of a webhook rule.
fn webhook(status: &Value) -> Snapshot {
    let mut snapshot = rollout(&[old("a")]);
    let rule: PodTransitionRule = serde_json::from_value(json!({
        "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule", "metadata": {"name": "ask", "namespace": "team"},
        "spec": {"selector": {}, "rules": [{"name": "office", "webhook": {"clientConfig": {"url": "https://approver.example"}}}]},
        "status": status
    }))
    .unwrap();
    snapshot.cluster.rules.push(Arc::new(rule.into()));
    snapshot
}

#[test]
fn an_approver_is_not_asked_but_quoted_as_the_controller_reported() {
    let detail = |passed: &[&str], reason: &str| {
        json!({"updateTime": "2026-01-01T00:00:10Z", "details": [{"name": "a", "passed": false, "passedRules": passed,
            "rejectInfo": if reason.is_empty() { json!([]) } else { json!([{"ruleName": "office", "reason": reason}]) }}]})
    };
    let task = |list: &str| {
        json!({"ruleStates": [{"name": "office", "webhookStatus": {"taskStates": [
            {"taskId": "1", list: ["a"], "beginTime": "2026-01-01T00:00:05Z", "message": "looking"}]}}]})
    };
    for (status, expected) in [
        (json!({}), "has not answered yet"),
        (detail(&[], "the approver refuses: not on Fridays"), "refuses: not on Fridays"),
        (detail(&[], "the approver can't be asked: connection refused"), "can't be asked: connection refused"),
        (detail(&["office"], ""), "the approver agrees"),
        (task("processing"), "has not answered yet: looking"),
        (task("approved"), "the approver agrees"),
    ] {
        let (text, answer) = why(&webhook(&status), "pod/a");
        assert!(text.contains(expected), "{text}");
        assert_eq!(answer.pods[0].allowed, expected.contains("agrees"));
        assert!(text.contains("last reported"), "{text}");
    }
}

#[test]
fn an_operated_pod_says_which_post_check_keeps_it_from_returning() {
    let mut snapshot = rollout(&[old("a")]);
    let rule: PodTransitionRule = serde_json::from_value(json!({
        "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule", "metadata": {"name": "smoke", "namespace": "team"},
        "spec": {"selector": {}, "rules": [{"name": "checked", "stage": "PostCheck",
            "labelCheck": {"requires": {"matchLabels": {"checked": "yes"}}}}, {"name": "before", "labelCheck": {"requires": {}}}]}
    }))
    .unwrap();
    snapshot.cluster.rules.push(Arc::new(rule.into()));
    let checking = json!({"id": "g", "phase": "Checking", "since": "2026-01-01T00:00:20.000000Z"});
    let (text, answer) = why(&with_grant(snapshot, "a", &checking), "pod/a");
    assert_eq!(answer.blocked(), Blocked::Otherwise("a"), "somebody may label it");
    insta::assert_snapshot!("post_check", text);
}

#[test]
fn what_does_not_exist_is_said_with_what_was_meant() {
    let text = |target: &str| explain(&rollout(&[old("a")]), &target.parse().unwrap(), now()).unwrap_err().to_string();
    assert!(text("nope").starts_with("neither deployment/nope nor pod/nope exists"));
    assert!(text("pod/web").contains("pod/web does not exist"));
}

#[test]
fn budgets_parse_as_the_api_server_returns_them() {
    let budget: TransitionBudget = serde_json::from_value(json!({"apiVersion": "hitless.dev/v1alpha1",
        "kind": "TransitionBudget", "metadata": {"name": "b", "namespace": "team"}, "spec": {"paused": true}}))
    .unwrap();
    let seen = hitless_gate::Budget::from(budget);
    assert!(seen.spec.paused && !seen.is_cluster_wide());
}

#[test]
fn a_pod_says_which_way_it_would_go_and_an_operated_one_which_way_it_goes() {
    let snapshot = with_known_start(rollout(&[old("a"), old("b")]), 300);
    let (text, answer) = why(&snapshot, "pod/a");
    insta::assert_snapshot!("mode", text);
    let json = serde_json::to_value(&answer.pods[0]).unwrap();
    assert_eq!(json["mode"], "Hold");
    assert!(json["modeReason"].as_str().unwrap().starts_with("ShortGap: "), "{json}");
    assert!(json["clientsSee"].as_str().unwrap().starts_with("new connections wait about 300 ms"), "{json}");
    let (text, _) = why(&with_grant(snapshot, "a", &Value::Null), "pod/a");
    assert!(text.contains("is being operated") && text.contains("\n  Leave\n      clients: "), "{text}");
}

#[test]
fn what_the_agent_can_do_and_who_is_away_count() {
    let done = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:20.000000Z",
        "result": {"outcome": "Done", "reason": "Done"}});
    let mut snapshot = with_grant(with_gap(rollout(&[old("a"), pod("b", "web:v2")]), 300), "b", &done);
    let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
    let agent = json!({"version": "1", "bootID": "b", "features": ["Leave"]});
    node.agent = serde_json::from_value(agent).unwrap();
    let (text, _) = why(&snapshot, "pod/a");
    assert!(text.contains("Leave — AgentCannotHold: "), "{text}");
    let (text, _) = why(&with_grant(rollout(&[old("a"), old("b")]), "b", &Value::Null), "pod/a");
    assert!(text.contains("Hold — OnlyPod: "), "{text}");
}

#[test]
fn a_policy_that_makes_no_sense_is_in_the_way_and_one_that_was_not_read_leaves_the_mode_open() {
    let faulty = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}});
    let (text, answer) = why(&with_drain_policy(rollout(&[old("a")]), "faulty", "team", &faulty), "pod/a");
    assert!(text.contains("! InvalidDrain: DrainPolicy team/faulty is not usable"), "{text}");
    assert!(text.contains("to unblock: correct the DrainPolicy"), "{text}");
    assert_eq!(answer.pods[0].expected, None);
    let mut snapshot = rollout(&[old("a")]);
    snapshot.unread.insert(DrainPolicies::PART.unwrap(), Unread::Refused("drainpolicies is forbidden".to_owned()));
    let (text, answer) = why(&snapshot, "pod/a");
    let note = "note: DrainPolicies not read: drainpolicies is forbidden; which mode pods would get is not known";
    assert!(text.contains(note) && answer.pods[0].expected.is_none(), "{text}");
    assert!(text.contains("nothing is in the way"), "{text}");
}

/// With a PodDisruptionBudget that wants all pods to stay.
fn all_stay(mut snapshot: Snapshot) -> Snapshot {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "team"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "100%"}
    }))
    .unwrap();
    snapshot.cluster.disruption_budgets.push(Arc::new(budget.into()));
    snapshot
}

#[test]
fn a_budget_that_lets_none_of_all_go_is_no_end_where_a_companion_pod_may_run() {
    let code = |answer: &Answer| verdict(answer.blocked()).map_err(|failure| failure.code());
    let pods = ["a", "b", "c"].map(old);
    let closed = all_stay(rollout(&pods));
    let beside = with_annotation(closed.clone(), "hitless.dev/companion", "Auto");
    let (text, answer) = why(&beside, "web");
    assert!(text.contains("! Companion: companion pod web-companion-"), "{text}");
    assert!(
        text.contains("so one goes at a time, while a companion pod serves for it") && !text.contains("lower the"),
        "{text}"
    );
    assert_eq!(code(&answer), Ok(()));
    // One is being operated, and the others follow.
    let (text, answer) = why(&with_reservation(beside, "a"), "pod/b");
    assert!(text.contains("- pdb:web: ") && !text.contains("ever be updated"), "{text}");
    assert_eq!(code(&answer), Ok(()));
    let (text, answer) = why(&closed, "web");
    assert!(
        text.contains("so no available pod can ever be updated") && text.contains("lower the minimum below 3"),
        "{text}"
    );
    assert_eq!((answer.blocked(), code(&answer)), (Blocked::ByRule("a"), Err(3)), "nobody stands in");
}

#[test]
fn a_pod_that_is_down_is_no_reason_that_only_a_change_ends() {
    let mut down = pod("b", "web:v2");
    down["status"]["conditions"] = json!([]);
    let (text, answer) = why(&with_rule(rollout(&[old("a"), down]), 1), "pod/a");
    assert!(text.contains("held by: b (unavailable)") && text.contains("wait until 1 more pod is available"), "{text}");
    assert_eq!(answer.blocked(), Blocked::Otherwise("a"), "it may come back, and somebody may have to do something");
}
