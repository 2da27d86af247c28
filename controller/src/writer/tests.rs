use super::*;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hitless_api::{GroupKind, TransitionLedgerSpec};
use hitless_rollout::round::write;
use hitless_runtime::watch;
use hitless_workloads::Installed;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Paths that were asked for, and when they were answered.
type Answered = Arc<Mutex<Vec<(String, Instant)>>>;

/// An API server whose admission takes 3 s for each pod. What is created is answered as it was sent.
fn server(answered: &Answered) -> Client {
    let answered = Arc::clone(answered);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let answered = Arc::clone(&answered);
        async move {
            let path = request.uri().path().to_owned();
            if path.ends_with("/pods") {
                sleep(Duration::from_secs(3)).await;
            }
            answered.lock().unwrap().push((path, Instant::now()));
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            http::Response::builder().status(201).body(Body::from(sent.to_vec()))
        }
    });
    Client::new(service, "default")
}

fn writer(answered: &Answered) -> Writer {
    let caches = Caches::new(&Installed::default(), &Arc::new(Notify::new()), &watch::Metrics::default());
    let leads = Leadership::term(1, Instant::now() + Duration::from_hours(1));
    let (_, leadership) = tokio::sync::watch::channel(leads);
    Writer::new(server(answered), Writes::default(), caches, leadership)
}

fn pod(namespace: &str, name: &str) -> Step {
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}});
    Step::alone(Write::create("create-pod", &GroupKind::POD, manifest))
}

fn ledger(namespace: &str) -> Step {
    Step::alone(write::ledger(namespace, None, TransitionLedgerSpec::default()))
}

#[tokio::test(start_paused = true)]
async fn four_hundred_pods_before_a_slow_webhook_kill_nobody_and_keep_nobody_waiting() {
    let answered = Answered::default();
    let mut writer = writer(&answered);
    let start = Instant::now();
    let heartbeat = Heartbeat::new(start);
    let mut wanted: Vec<Step> = (0..400).map(|number| pod("big", &format!("web-{number}"))).collect();
    wanted.extend([ledger("shop"), pod("tiny", "db-0")]);
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    while !wanted.is_empty() {
        let begun = Instant::now();
        let outcomes = writer.apply(&wanted, &heartbeat).await;
        assert!(heartbeat.age(Instant::now()) < Duration::from_secs(5), "its loop is seen alive");
        longest = longest.max(begun.elapsed());
        rounds += 1;
        let left = |outcome: &Outcome| match outcome {
            Outcome::Left => true,
            Outcome::Done => false,
            other => panic!("{other:?}"),
        };
        wanted = wanted.into_iter().zip(&outcomes).filter(|(_, outcome)| left(outcome)).map(|(step, _)| step).collect();
    }
    assert!(longest <= Duration::from_secs(4), "a round of writes took {longest:?}");
    assert!(rounds > 40, "{rounds} rounds in which others were looked after");
    let answered = answered.lock().unwrap();
    let after = |part: &str| answered.iter().find(|(path, _)| path.contains(part)).unwrap().1 - start;
    assert_eq!(after("/shop/"), Duration::ZERO, "what is no pod waits for none");
    assert!(after("/tiny/") <= Duration::from_secs(3), "nor does another namespace's pod wait for all of this one's");
}
