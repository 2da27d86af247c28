//! Server-sent events.

use hitless_agent::view::Count;
use hitless_api::{Outcome, Phase};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{connect, get, read_until};
use crate::node::{NODE, Node, WEB, until};

async fn follow(node: &Node, from: std::net::Ipv4Addr) -> TcpStream {
    let mut stream = connect(node.address, from).await;
    let request = "GET /v1/pods/shop/web/drain/events HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn each_change_is_an_event_and_the_end_is_the_last() {
    let node = Node::start().await;
    let mut stream = follow(&node, NODE).await;
    let first = read_until(&mut stream, "\"drained\":false").await;
    assert!(first.contains("content-type: text/event-stream") && first.contains("event: state"), "{first}");
    node.round(Some((Phase::Draining, None)));
    read_until(&mut stream, "\"phase\":\"Draining\"").await;
    node.observe(Count { inbound: 2, busy: 2, ..Count::default() });
    read_until(&mut stream, "\"inbound\":2").await;
    node.round(Some((Phase::Operating, None)));
    read_until(&mut stream, "\"drained\":true").await;
    node.round(Some((Phase::Returning, Some(Outcome::Done))));
    let mut last = String::new();
    stream.read_to_string(&mut last).await.unwrap();
    assert!(last.contains("event: end") && last.contains("\"outcome\":\"Done\""), "{last}");
    until(|| node.state.limits.streams.taken() == 0 && node.state.waiters.awaited().is_empty()).await;
}

#[tokio::test]
async fn what_has_not_changed_is_no_event_and_a_pod_that_goes_is_the_end() {
    let node = Node::start().await;
    let mut stream = follow(&node, WEB).await;
    read_until(&mut stream, "event: state").await;
    for _ in 0..50 {
        node.round(None);
        tokio::task::yield_now().await;
    }
    node.remove();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!((rest.matches("event: state").count(), rest.matches("event: end").count()), (0, 1), "{rest}");
}

#[tokio::test]
async fn streams_are_bounded_for_each_pod() {
    let node = Node::start().await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = follow(&node, WEB).await;
        read_until(&mut stream, "event: state").await;
        streams.push(stream);
    }
    let mut refused = follow(&node, WEB).await;
    let answer = read_until(&mut refused, "too many event streams").await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 5"), "{answer}");
    assert_eq!(get(&node, NODE, "/v1/node").await.json()["counts"]["streams"], 2);
    let mut of_the_node = follow(&node, NODE).await;
    read_until(&mut of_the_node, "event: state").await;
}
