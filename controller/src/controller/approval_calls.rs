//! The approvers that are being asked: what the rounds want to know, which requests are due, and those that are under way.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::approval::Interest;
use crate::approval::client::Approvers;
use crate::approval::requests::{CallId, Failure, Requests};
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::Snapshot;

pub(super) struct ApprovalCalls {
    approvers: Approvers,
    requests: Requests,
    calls: JoinSet<(CallId, Result<Vec<u8>, Failure>)>,
    /// Notified when an outcome is there.
    wake: Arc<Notify>,
}

impl ApprovalCalls {
    pub(super) fn new(approvers: Approvers, wake: Arc<Notify>) -> Self {
        Self { approvers, requests: Requests::default(), calls: JoinSet::new(), wake }
    }

    /// Takes in what has been answered since, and tells the round.
    pub(super) fn fill(&mut self, snapshot: &mut Snapshot, now: Timestamp) {
        while let Some(outcome) = self.calls.try_join_next() {
            match outcome {
                Ok((id, outcome)) => {
                    if let Err(Failure::Unreachable(text) | Failure::Misconfigured(text)) = &outcome {
                        tracing::warn!("an approver gave no answer: {text}");
                    }
                    self.requests.done(id, outcome, now);
                }
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // Called off at the end of a term.
                Err(_) => {}
            }
        }
        snapshot.approvals = self.requests.approvals();
        snapshot.rule_states = self.requests.rule_states();
    }

    /// Sends what is due after a round; says when to come again even if nothing changes.
    pub(super) fn follow(&mut self, round: &Round, snapshot: &Snapshot, now: Timestamp) -> Option<Timestamp> {
        let interest = interest(round);
        for call in self.requests.update(&interest, &snapshot.rules, now) {
            let (approvers, wake) = (self.approvers.clone(), Arc::clone(&self.wake));
            self.calls.spawn(async move {
                let outcome = approvers.send(&call).await;
                wake.notify_one();
                (call.id, outcome)
            });
        }
        self.requests.wake_at()
    }

    /// Another one asks from now on.
    pub(super) fn end_of_term(&mut self) {
        self.calls.abort_all();
        self.requests.end_of_term();
    }
}

fn interest(round: &Round) -> Interest<'_> {
    let uids = |running: bool| -> BTreeSet<&str> {
        let verdicts = round.verdicts.iter();
        let those = verdicts.filter(|verdict| (verdict.waiting == Some(WaitReason::InProgress)) == running);
        those.map(|verdict| verdict.pod.uid.as_str()).collect()
    };
    Interest { asks: &round.asks, waiting: uids(false), running: uids(true) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::Ask;
    use crate::approval::client::Reach;
    use hitless_api::PodRef;
    use hitless_gate::approval::Approval;
    use hitless_rollout::round::PodVerdict;
    use hitless_rollout::snapshot::{RuleView, Version};
    use kube::client::{Body, ClientBuilder};
    use serde_json::json;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    fn approvers() -> Approvers {
        let service =
            tower::service_fn(|_: http::Request<Body>| async { http::Response::builder().body(Body::empty()) });
        Approvers::new(ClientBuilder::new(service, "default").build(), Reach::OwnAddresses)
    }

    fn round(waiting: WaitReason) -> Round {
        let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
        let ask = Ask {
            namespace: "ns".into(),
            rule_set: "set".into(),
            rule: "ask".into(),
            pod: pod.clone(),
            operation: "u.update".into(),
        };
        let verdict = PodVerdict {
            pod,
            owner: None,
            waiting: Some(waiting),
            gate: None,
            expected: None,
            beside_companion: false,
        };
        Round { asks: vec![ask], verdicts: vec![verdict], ..Round::default() }
    }

    fn snapshot(url: &str) -> Snapshot {
        let rules = json!({"rules": [{"name": "ask", "webhook": {"clientConfig": {"url": url}}}]});
        let rule = RuleView {
            namespace: "ns".into(),
            name: "set".into(),
            version: Version { uid: "r".into(), resource_version: "1".into() },
            generation: 1,
            spec: serde_json::from_value(rules).unwrap(),
            unreadable: None,
            status: None,
        };
        Snapshot { rules: vec![Arc::new(rule)], ..Snapshot::default() }
    }

    /// Answers one request.
    async fn approve(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        let body = r#"{"success":true}"#;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_wakes_the_loop_and_is_in_the_next_snapshot_until_the_operation_begins() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut snapshot = snapshot(&format!("http://{}/", listener.local_addr().unwrap()));
        let wake = Arc::new(Notify::new());
        let mut approval_calls = ApprovalCalls::new(approvers(), Arc::clone(&wake));
        let round = round(WaitReason::Rules);
        approval_calls.follow(&round, &snapshot, Timestamp::UNIX_EPOCH);
        timeout(Duration::from_secs(20), approve(&listener)).await.unwrap();
        timeout(Duration::from_secs(20), wake.notified()).await.unwrap();
        approval_calls.fill(&mut snapshot, Timestamp::UNIX_EPOCH);
        let said: Vec<_> = snapshot.approvals.values().map(|answer| answer.approval.clone()).collect();
        assert_eq!(said, [Approval::Approved]);
        assert_eq!(snapshot.rule_states[&("ns".to_owned(), "set".to_owned())], []);

        // The gate does not ask while there is no room; then the operation begins.
        let later = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1);
        let waits = Round { asks: Vec::new(), ..round };
        approval_calls.follow(&waits, &snapshot, later);
        approval_calls.fill(&mut snapshot, later);
        assert_eq!(snapshot.approvals.len(), 1);
        let runs = Round { asks: Vec::new(), ..self::round(WaitReason::InProgress) };
        approval_calls.follow(&runs, &snapshot, later);
        approval_calls.fill(&mut snapshot, later);
        assert!(snapshot.approvals.is_empty());
    }

    #[tokio::test]
    async fn at_the_end_of_a_term_requests_are_called_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut snapshot = snapshot(&format!("http://{}/", listener.local_addr().unwrap()));
        let mut approval_calls = ApprovalCalls::new(approvers(), Arc::new(Notify::new()));
        approval_calls.follow(&round(WaitReason::Rules), &snapshot, Timestamp::UNIX_EPOCH);
        let (mut stream, _) = listener.accept().await.unwrap();
        approval_calls.end_of_term();
        let closed = async { while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {} };
        timeout(Duration::from_secs(20), closed).await.expect("the connection is closed at once");
        approval_calls.fill(&mut snapshot, Timestamp::UNIX_EPOCH);
        assert!(snapshot.approvals.is_empty() && snapshot.rule_states.is_empty());
    }
}
