//! What approvers answer to questions and to polls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::PodRef;
use hitless_api::pod_transition_rule::{PodTransitionRuleStatus, RuleState};
use hitless_controller::approval::requests::{Failure, Request, Requests};
use hitless_controller::approval::wire::LONGEST_MESSAGE;
use hitless_controller::approval::{Ask, Interest};
use hitless_gate::{Approval, Approvals};
use hitless_rollout::snapshot::{RuleView, Version};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::Target;
use crate::json::written;
use crate::parts::{BETWEEN, joined, parts};

pub(crate) const TARGET: Target = Target { name: "approvers", run, seeds, words: &WORDS };

const WORDS: [&str; 19] = [
    BETWEEN,
    "\"success\":true",
    "\"success\":false",
    "\"finishedNames\":[",
    "\"a\"",
    "\"b\"",
    "\"c\"",
    "\"message\":",
    "\"poll\":true",
    "\"async\":true",
    "\"taskId\":\"t\"",
    "\"traceId\":\"t\"",
    "\"finished\":true",
    "\"stop\":true",
    "null",
    "\\u001b",
    "[]",
    "{",
    "}",
];

/// Whom they are asked about.
const PODS: [&str; 3] = ["a", "b", "c"];
/// More answers than these say nothing new.
const MOST_ANSWERS: usize = 12;

fn seeds() -> Vec<Vec<u8>> {
    let later = r#"{"success": true, "poll": true, "taskId": "t", "finishedNames": ["a"], "message": "one moment"}"#;
    vec![
        joined(&[r#"{"success": true}"#]),
        joined(&[r#"{"success": false, "message": "not now", "finishedNames": ["b"]}"#, r#"{"success": true}"#]),
        joined(&[later, r#"{"success": true, "finishedNames": ["b"]}"#, r#"{"success": true, "finished": true}"#]),
        joined(&[later, r#"{"success": null, "stop": true, "message": "no"}"#, later, r#"{"finished": true}"#]),
        joined(&[r#"{"async": true, "success": true, "traceId": "x"}"#, "<html>", "[true]", "{}"]),
    ]
}

fn view(status: Option<PodTransitionRuleStatus>) -> Arc<RuleView> {
    let webhook = json!({"clientConfig": {"url": "https://approver/", "poll": {"url": "https://approver/poll"}}});
    Arc::new(RuleView {
        namespace: "shop".into(),
        name: "rules".into(),
        version: Version { uid: "u".into(), resource_version: "1".into() },
        generation: 1,
        spec: serde_json::from_value(json!({"rules": [{"name": "ask", "webhook": webhook}]})).expect("a rule"),
        unreadable: None,
        status,
    })
}

fn asks() -> Vec<Ask> {
    let ask = |pod: &str| Ask {
        namespace: "shop".into(),
        rule_set: "rules".into(),
        rule: "ask".into(),
        pod: PodRef { namespace: "shop".into(), name: pod.into(), uid: format!("uid-{pod}") },
        operation: format!("uid-{pod}.update"),
    };
    PODS.map(ask).into()
}

fn run(data: &[u8]) {
    let (asks, mut now) = (asks(), Timestamp::UNIX_EPOCH);
    let interest = || Interest { asks: &asks, waiting: BTreeSet::new(), running: BTreeSet::new() };
    let (rules, mut requests, mut allowed) = ([view(None)], Requests::default(), BTreeSet::new());
    for answer in parts(data).into_iter().take(MOST_ANSWERS) {
        // A refusal is asked about again after 5 s, and what can't be read after 30 s at the latest.
        now = now.saturating_add(SignedDuration::from_secs(31)).expect("a short while");
        for call in requests.update(&interest(), &rules, now) {
            let asked: Vec<&str> = match &call.request {
                Request::Ask(pods) => pods.iter().map(|pod| pod.name.as_str()).collect(),
                Request::Poll(_) => PODS.into(),
            };
            allowed.extend(named(answer).into_iter().filter(|pod| asked.contains(&pod.as_str())));
            requests.done(call.id, Ok(answer.to_vec()), now);
        }
        check(&requests.approvals(), &allowed);
        resumed(&requests, &interest(), now);
    }
    for call in requests.update(&interest(), &rules, now) {
        requests.done(call.id, Err(Failure::Unreachable("no connection".to_owned())), now);
    }
    check(&requests.approvals(), &allowed);
}

/// The pods that an answer lets go, read once more in the plainest way: those that it names, and all if it says "success".
fn named(answer: &[u8]) -> BTreeSet<String> {
    let all = || PODS.map(ToOwned::to_owned).into();
    // In a field that nobody reads, production does not ask for UTF-8 either.
    let answer = match serde_json::from_str(&String::from_utf8_lossy(answer)) {
        Ok(Value::Object(answer)) => answer,
        // Fields that nobody reads may be deeper, and have larger numbers, than this way of reading takes.
        Err(_) if answer.windows(4).any(|word| word == b"true" || word == b"Name") => return all(),
        Ok(_) | Err(_) => return BTreeSet::new(),
    };
    if answer.get("success") == Some(&Value::Bool(true)) {
        return all();
    }
    let names = answer.get("finishedNames").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(ToOwned::to_owned)).collect()
}

fn approved(approvals: &Approvals) -> BTreeSet<&str> {
    let approved = approvals.iter().filter(|(_, answer)| answer.approval == Approval::Approved);
    approved.map(|(question, _)| question.operation.as_str()).collect()
}

/// Only those go whom an approver has let go; what is said of them is short, and no terminal obeys it.
fn check(approvals: &Approvals, allowed: &BTreeSet<String>) {
    for operation in approved(approvals) {
        let pod = operation.strip_prefix("uid-").and_then(|rest| rest.strip_suffix(".update")).unwrap_or_default();
        assert!(allowed.contains(pod), "{operation} was approved by nobody, only {allowed:?}");
    }
    for (question, answer) in approvals {
        assert!(answer.message.len() <= LONGEST_MESSAGE, "{question:?}: {} bytes", answer.message.len());
        assert!(!answer.message.contains(char::is_control), "{question:?}: {:?}", answer.message);
    }
}

/// Another leader takes over with what stands in the rule's status: nobody is approved by that who was not before.
fn resumed(requests: &Requests, interest: &Interest<'_>, now: Timestamp) {
    let reported: BTreeMap<(String, String), Vec<RuleState>> = requests.rule_states();
    let rule_states = reported.into_values().flatten().collect();
    let status = PodTransitionRuleStatus { observed_generation: Some(1), rule_states, ..Default::default() };
    let status: PodTransitionRuleStatus = serde_json::from_str(&written(&status)).expect("a status");
    let mut next = Requests::default();
    next.update(interest, &[view(Some(status))], now);
    let (before, after) = (requests.approvals(), next.approvals());
    assert!(approved(&after).is_subset(&approved(&before)), "{after:?} after {before:?}");
}
