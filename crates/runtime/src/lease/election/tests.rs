use super::*;
use std::sync::{Arc, Mutex};

use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// An API server with one Lease, compare-and-swap on its resourceVersion.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    fault: Fault,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    /// Nothing works.
    Down,
    /// Writes are carried out, but the answer says that they were not.
    WriteAnswersLost,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let (code, answer) = server.answer(&parts.method, &body);
                let response = http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response?)
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &http::Method, body: &[u8]) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let status = |code: u16| (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": "m"}));
        if state.fault == Fault::Down {
            return status(503);
        }
        if method == http::Method::GET {
            return state.lease.clone().map_or_else(|| status(404), |lease| (200, lease));
        }
        let mut wanted: Value = serde_json::from_slice(body).unwrap();
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        if state.lease.as_ref().map_or(Value::Null, version) != version(&wanted) {
            return status(409);
        }
        state.version += 1;
        wanted["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.lease = Some(wanted.clone());
        if state.fault == Fault::WriteAnswersLost { status(500) } else { (200, wanted) }
    }

    fn fault(&self, fault: Fault) {
        self.0.lock().unwrap().fault = fault;
    }

    fn holder(&self) -> String {
        let state = self.0.lock().unwrap();
        state
            .lease
            .as_ref()
            .map_or_else(String::new, |lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned())
    }

    fn contender(&self, pod: &str) -> Election {
        let api = Api::namespaced(self.client(), "hitless-system");
        Election::new(api, "hitless-controller", pod, LeaseConfig::default(), Writes::default())
    }
}

async fn until_leading(terms: &mut watch::Receiver<Leadership>, wanted: bool) -> Leadership {
    *terms.wait_for(|term| term.leading == wanted).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_look_with_the_next_epoch() {
    let server = Server::default();
    let (first, second, stop) = (server.contender("a"), server.contender("b"), CancellationToken::new());
    let (mut first_terms, mut second_terms) = (first.subscribe(), second.subscribe());
    let first = tokio::spawn(first.run(stop.clone()));
    assert_eq!(until_leading(&mut first_terms, true).await.epoch, 1);
    tokio::spawn(second.run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(first_terms.borrow().leads(Instant::now()) && !second_terms.borrow().leading, "renewed for two minutes");

    let stopped = Instant::now();
    stop.cancel();
    first.await.unwrap().unwrap();
    assert_eq!(server.holder(), "", "given back");
    assert_eq!(until_leading(&mut second_terms, true).await.epoch, 2);
    assert!(stopped.elapsed() <= LeaseConfig::default().retry, "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_can_not_renew_stops_before_another_one_may_lead_and_returns_when_it_can() {
    let server = Server::default();
    let election = server.contender("a");
    let mut terms = election.subscribe();
    tokio::spawn(election.run(CancellationToken::new()));
    until_leading(&mut terms, true).await;
    let down = Instant::now();
    server.fault(Fault::Down);
    until_leading(&mut terms, false).await;
    let (after, config) = (down.elapsed(), LeaseConfig::default());
    assert!(after <= config.renew_deadline && after + Writes::TIMEOUT < config.duration, "{after:?}");
    server.fault(Fault::None);
    assert_eq!(until_leading(&mut terms, true).await.epoch, 1, "nobody else has taken it meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_replaced_after_the_lease_duration() {
    let server = Server::default();
    let (first, second) = (server.contender("a"), server.contender("b"));
    let (mut first_terms, mut second_terms) = (first.subscribe(), second.subscribe());
    let first = tokio::spawn(first.run(CancellationToken::new()));
    until_leading(&mut first_terms, true).await;
    tokio::spawn(second.run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.abort();
    let crashed = Instant::now();
    assert_eq!(until_leading(&mut second_terms, true).await.epoch, 2);
    let (after, config) = (crashed.elapsed(), LeaseConfig::default());
    assert!(after >= config.renew_deadline && after <= config.duration + config.retry, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_cost_the_leadership_but_never_the_lease() {
    let server = Server::default();
    let election = server.contender("a");
    let identity = election.identity().to_owned();
    let mut terms = election.subscribe();
    tokio::spawn(election.run(CancellationToken::new()));
    until_leading(&mut terms, true).await;
    server.fault(Fault::WriteAnswersLost);
    until_leading(&mut terms, false).await;
    server.fault(Fault::None);
    assert_eq!(until_leading(&mut terms, true).await.epoch, 1);
    assert_eq!(server.holder(), identity);
}
