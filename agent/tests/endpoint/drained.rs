//! `?wait=drained`, for operations and for deletions.

use std::time::{Duration, Instant};

use hitless_agent::view::Count;
use hitless_api::{Outcome, Phase};
use tokio::time::timeout;

use crate::client::{Answer, connect, get, get_with};
use crate::node::{NODE, Node, PATIENCE, WEB, until};

const PATH: &str = "/v1/pods/shop/web/drain?wait=drained&timeout=60s";
pub(crate) const GONE: Count = Count {
    inbound: 0,
    busy: 0,
    idle: 0,
    unused: 0,
    perhaps_probes: 0,
    quiet: true,
    came_until: None,
    most: 3,
    closed: 2,
    destroyed: 0,
    newcomers: 0,
    unlisted: false,
    losses: None,
    listening: None,
};

/// Somebody waits; `change` is made while it does. The answer, and how long it took after the change.
async fn wait_while(node: &Node, path: &str, change: impl AsyncFnOnce()) -> (Answer, Duration) {
    let change = async {
        node.awaited(1).await;
        change().await;
        Instant::now()
    };
    let (answer, changed) = timeout(PATIENCE, async { tokio::join!(get(node, NODE, path), change) }).await.unwrap();
    (answer, changed.elapsed())
}

#[tokio::test]
async fn an_operations_drain_is_told_of_at_once() {
    let node = Node::start().await;
    node.round(Some((Phase::Draining, None)));
    let (answer, took) = wait_while(&node, PATH, async || {
        node.observe(Count { inbound: 1, busy: 1, ..GONE });
        node.round(Some((Phase::Operating, None)));
    })
    .await;
    let status = answer.json();
    assert_eq!((answer.status, &status["drained"], &status["because"]), (200, &true.into(), &"Drained".into()));
    assert_eq!(status["phase"], "Operating");
    assert!(took < Duration::from_secs(1), "{took:?}");
    node.awaited(0).await;
    assert!(node.state.waiters.awaited().is_empty());
}

#[tokio::test]
async fn an_operation_that_is_cancelled_ends_the_wait_and_is_no_drain() {
    let node = Node::start().await;
    node.round(Some((Phase::Draining, None)));
    let end = async || {
        node.round(Some((Phase::Returning, Some(Outcome::Cancelled))));
    };
    let status = wait_while(&node, PATH, end).await.0.json();
    assert_eq!((&status["drained"], &status["because"]), (&false.into(), &"Ended".into()));
    assert_eq!(status["result"]["outcome"], "Cancelled");
}

#[tokio::test]
async fn a_deleted_pod_is_looked_at_while_somebody_waits_and_drained_when_nobody_is_left() {
    let node = Node::start().await;
    assert!(node.round(None).is_empty());
    node.delete();
    assert!(node.round(None).is_empty(), "nobody waits");
    let (answer, _) = wait_while(&node, "/v1/pods/shop/web/drain?wait=drained", async || {
        assert_eq!(node.round(None).len(), 1);
        node.observe(Count { inbound: 2, idle: 2, quiet: false, ..GONE });
        node.observe(Count { inbound: 1, busy: 1, ..GONE });
        let status = get(&node, NODE, "/v1/pods/shop/web/drain").await.json();
        assert_eq!((&status["drained"], &status["terminating"]), (&false.into(), &true.into()));
        assert_eq!(status["connections"]["busy"], 1);
        node.observe(GONE);
    })
    .await;
    let status = answer.json();
    assert_eq!((&status["drained"], &status["because"]), (&true.into(), &"Drained".into()));
    node.awaited(0).await;
    assert!(node.round(None).is_empty(), "nobody waits any more");
}

#[tokio::test]
async fn a_deletion_that_shows_only_after_the_hook_has_asked_is_waited_for() {
    let node = Node::start().await;
    let hook = get_with(&node, NODE, PATH, "User-Agent: kube-lifecycle/1.36\r\n");
    let change = async {
        node.awaited(1).await;
        node.delete();
        assert_eq!(node.round(None).len(), 1);
        node.observe(GONE);
    };
    let (answer, ()) = tokio::join!(hook, change);
    assert_eq!(answer.json()["because"], "Drained");
}

#[tokio::test]
async fn a_hook_of_a_container_that_is_restarted_in_its_place_does_not_wait_for_long() {
    let node = Node::start().await;
    let begin = Instant::now();
    let status = get_with(&node, NODE, PATH, "User-Agent: kube-lifecycle/1.36\r\n").await.json();
    assert_eq!((&status["drained"], &status["because"]), (&false.into(), &"NotLeaving".into()));
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_pod_that_goes_ends_the_wait() {
    let node = Node::start().await;
    node.delete();
    let status = wait_while(&node, PATH, async || node.remove()).await.0.json();
    assert_eq!((&status["drained"], &status["because"]), (&true.into(), &"Gone".into()));
}

#[tokio::test]
async fn after_its_time_a_wait_says_how_it_stands() {
    let node = Node::start().await;
    node.round(Some((Phase::Draining, None)));
    node.observe(Count { inbound: 3, busy: 3, ..GONE });
    let answer = get(&node, WEB, "/v1/self/drain?wait=drained&timeout=50ms").await;
    let status = answer.json();
    assert_eq!((answer.status, &status["drained"], &status["because"]), (200, &false.into(), &"TimedOut".into()));
    assert_eq!(status["connections"]["inbound"], 3);
}

#[tokio::test]
async fn who_hangs_up_does_not_wait_any_more() {
    let node = Node::start().await;
    let mut stream = connect(node.address, NODE).await;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: n1\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    node.awaited(1).await;
    drop(stream);
    node.awaited(0).await;
    until(|| node.state.waiters.awaited().is_empty()).await;
}

#[tokio::test]
async fn an_agent_that_stops_sends_those_who_wait_to_its_successor() {
    let node = Node::start().await;
    let (answer, _) = wait_while(&node, PATH, async || node.token.cancel()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert!(answer.body.contains("successor"), "{answer:?}");
}

#[tokio::test]
async fn a_query_that_makes_no_sense_is_refused_in_words() {
    let node = Node::start().await;
    for (query, words) in [
        ("wait=ready", "wait=drained"),
        ("wait=drained&timeout=soon", "write e.g. 30s"),
        ("wait=drained&timeout=2h", "at most 3600s"),
        ("timeout=3s", "only with wait"),
        ("wiat=drained", "unknown field"),
    ] {
        let answer = get(&node, NODE, &format!("/v1/pods/shop/web/drain?{query}")).await;
        assert!(
            answer.status == 400 && answer.json()["error"].as_str().unwrap().contains(words),
            "{query}: {answer:?}"
        );
    }
}
