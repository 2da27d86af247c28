//! Requests of one webhook rule, and the clock in our hands.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::PodRef;
use hitless_api::pod_transition_rule::{PodTransitionRuleStatus, WebhookStatus};
use hitless_controller::approval::requests::{Call, Failure, Request, Requests};
use hitless_controller::approval::{Ask, Interest};
use hitless_gate::approval::{Answer, Approval, Question};
use hitless_rollout::snapshot::{RuleView, Version};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) struct Office {
    pub(crate) requests: Requests,
    pub(crate) rules: Vec<Arc<RuleView>>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) waiting: BTreeSet<String>,
    pub(crate) running: BTreeSet<String>,
    pub(crate) now: Timestamp,
}

pub(crate) fn rule(webhook: &Value) -> Value {
    json!({"name": "ask", "webhook": webhook})
}

/// Without and with polling.
pub(crate) fn plain() -> Value {
    json!({"clientConfig": {"url": "https://approver/"}})
}

pub(crate) fn polled() -> Value {
    json!({"clientConfig": {"url": "https://approver/", "poll": {"url": "https://approver/poll"}}})
}

pub(crate) fn view(rules: &[Value], generation: i64, status: Option<PodTransitionRuleStatus>) -> Arc<RuleView> {
    Arc::new(RuleView {
        namespace: "ns".into(),
        name: "rules".into(),
        version: Version { uid: "u".into(), resource_version: "1".into() },
        generation,
        spec: serde_json::from_value(json!({"rules": rules})).unwrap(),
        unreadable: None,
        status,
    })
}

pub(crate) fn uid(pod: &str) -> String {
    format!("uid-{pod}")
}

pub(crate) fn operation(pod: &str) -> String {
    format!("uid-{pod}.update")
}

pub(crate) fn ask(pod: &str) -> Ask {
    Ask {
        namespace: "ns".into(),
        rule_set: "rules".into(),
        rule: "ask".into(),
        pod: PodRef { namespace: "ns".into(), name: pod.into(), uid: uid(pod) },
        operation: operation(pod),
    }
}

/// Names of the pods that a POST asks about.
pub(crate) fn pods(call: &Call) -> Vec<&str> {
    match &call.request {
        Request::Ask(pods) => pods.iter().map(|pod| pod.name.as_str()).collect(),
        Request::Poll(_) => Vec::new(),
    }
}

/// Id of the task that a GET asks about.
pub(crate) fn task(call: &Call) -> Option<&str> {
    match &call.request {
        Request::Ask(_) => None,
        Request::Poll(id) => Some(id),
    }
}

impl Office {
    pub(crate) fn new(webhook: &Value, pods: &[&str]) -> Self {
        Self {
            requests: Requests::default(),
            rules: vec![view(&[rule(webhook)], 1, None)],
            asks: pods.iter().map(|pod| ask(pod)).collect(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    pub(crate) fn turn(&mut self) -> Vec<Call> {
        let interest = Interest {
            asks: &self.asks,
            waiting: self.waiting.iter().map(String::as_str).collect(),
            running: self.running.iter().map(String::as_str).collect(),
        };
        self.requests.update(&interest, &self.rules, self.now)
    }

    /// The one call that is due now.
    pub(crate) fn call(&mut self) -> Call {
        let mut calls = self.turn();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls.remove(0)
    }

    pub(crate) fn idle(&mut self) {
        let calls = self.turn();
        assert!(calls.is_empty(), "{calls:?}");
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Nothing is due now; goes to the time that it wants to be woken at, and returns the seconds until then.
    pub(crate) fn sleep(&mut self) -> i64 {
        self.idle();
        let at = self.requests.wake_at().expect("something is due later");
        let seconds = at.duration_since(self.now).as_secs();
        self.now = at;
        seconds
    }

    pub(crate) fn reply(&mut self, call: &Call, body: &Value) {
        self.requests.done(call.id, Ok(body.to_string().into_bytes()), self.now);
    }

    pub(crate) fn fail(&mut self, call: &Call, text: &str) {
        self.requests.done(call.id, Err(Failure::Unreachable(text.into())), self.now);
    }

    pub(crate) fn answer(&self, pod: &str) -> Option<Answer> {
        let question = Question { namespace: "ns".into(), rule: "rules/ask".into(), operation: operation(pod) };
        self.requests.approvals().remove(&question)
    }

    pub(crate) fn said(&self, pod: &str) -> (Approval, String) {
        self.answer(pod).map(|answer| (answer.approval, answer.message)).expect("it was asked about")
    }

    pub(crate) fn approvals(&self, pods: &[&str]) -> Vec<Approval> {
        pods.iter().map(|pod| self.said(pod).0).collect()
    }

    pub(crate) fn status(&self) -> WebhookStatus {
        let mut states = self.requests.rule_states().remove(&("ns".into(), "rules".into())).expect("the rule is known");
        assert!(states.len() <= 1 && states.iter().all(|state| state.name == "ask"));
        states.pop().and_then(|state| state.webhook_status).unwrap_or_default()
    }
}
