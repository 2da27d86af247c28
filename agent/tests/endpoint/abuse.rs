//! Callers that are many, slow or loud.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use hitless_agent::http::limits::{CONNECTIONS, WAITS, WAITS_FOR_A_POD};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Answer, ask, connect, get, get_with, read_until};
use crate::node::{NODE, Node, OTHER, PATIENCE, STRANGER, TRUSTED, WEB, until};

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    // An end of file or a reset.
    timeout(PATIENCE, stream.read(&mut byte)).await.unwrap().unwrap_or_default() == 0
}

async fn probed(node: &Node) {
    for path in ["/healthz", "/readyz"] {
        let answer = get(node, NODE, path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"), "{path}");
    }
}

#[tokio::test]
async fn too_many_requests_are_refused_with_the_time_to_ask_again_and_nobody_else_is() {
    let node = Node::start().await;
    let mut stream = connect(node.address, WEB).await;
    let request = "GET /v1/self/drain HTTP/1.1\r\nHost: n1\r\n\r\n";
    let mut refused = String::new();
    for _ in 0..60 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_until(&mut stream, "}").await;
        if answer.starts_with("HTTP/1.1 429") {
            refused = answer;
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(refused.contains("retry-after: 1") && refused.contains("too many requests"), "{refused}");
    assert_eq!(get(&node, OTHER, "/v1/self/drain").await.status, 200);
    probed(&node).await;
}

#[tokio::test]
async fn a_pod_has_few_connections_and_the_kubelet_always_one() {
    let node = Node::start().await;
    let mut of_web = Vec::new();
    for _ in 0..CONNECTIONS.pods.each {
        of_web.push(connect(node.address, WEB).await);
    }
    until(|| node.state.limits.connections.taken() == CONNECTIONS.pods.each).await;
    assert!(is_closed(&mut connect(node.address, WEB).await).await, "one too many");
    assert_eq!(get(&node, OTHER, "/v1/self/drain").await.status, 200);
    of_web.clear();
    until(|| node.state.limits.connections.taken() == 0).await;
    assert_eq!(get(&node, WEB, "/v1/self/drain").await.status, 200);

    // Pods on the host's network have the kubelet's address. All that the node may have is taken by them.
    let (mut of_node, before) = (Vec::new(), resident());
    for _ in 0..CONNECTIONS.node {
        let mut stream = connect(node.address, NODE).await;
        stream.write_all(b"GET /v1/node HTTP/1.1\r\n").await.unwrap();
        of_node.push(stream);
    }
    until(|| node.state.limits.connections.taken() == CONNECTIONS.node).await;
    let grown = resident().saturating_sub(before);
    println!("{} connections with half a request took {grown} KiB", CONNECTIONS.node);
    assert!(grown < 16 * 1024, "{} connections took {grown} KiB", CONNECTIONS.node);
    probed(&node).await;
    let answer = get(&node, NODE, "/v1/node").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    assert_eq!(get(&node, STRANGER, "/lb/shop/web").await.status, 200);
}

#[tokio::test]
async fn who_sends_its_request_slowly_or_none_at_all_is_hung_up_on() {
    let node = Node::start().await;
    let begin = Instant::now();
    let (mut silent, mut slow) = (connect(node.address, WEB).await, connect(node.address, WEB).await);
    let drip = async {
        for byte in "GET /v1/self/drain HTTP/1.1\r\nHost: ".bytes().chain(std::iter::repeat(b'x')) {
            if slow.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let (closed, dripped) = tokio::join!(is_closed(&mut silent), timeout(PATIENCE, drip));
    assert!(closed && dripped.is_ok());
    assert!(begin.elapsed() > Duration::from_secs(5), "{:?}", begin.elapsed());
    until(|| node.state.limits.connections.taken() == 0).await;
}

#[tokio::test]
async fn waits_are_bounded_for_each_pod() {
    let node = Node::start().await;
    let mut waiting = Vec::new();
    for _ in 0..WAITS.pods.each {
        let mut stream = connect(node.address, WEB).await;
        stream.write_all(b"GET /v1/self/drain?wait=drained HTTP/1.1\r\nHost: n1\r\n\r\n").await.unwrap();
        waiting.push(stream);
    }
    node.awaited(WAITS.pods.each).await;
    let answer = get(&node, WEB, "/v1/self/drain?wait=drained").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    assert_eq!(get(&node, WEB, "/v1/self/drain").await.status, 200, "without a wait it is answered");
    let summary = get(&node, NODE, "/v1/node").await.json();
    assert_eq!(summary["counts"]["waits"], WAITS.pods.each);
    assert_eq!(summary["pods"][0]["pod"], "shop/web", "{summary}");
    waiting.clear();
    node.awaited(0).await;
}

async fn raw(node: &Node, request: &str) -> Answer {
    ask(connect(node.address, NODE).await, request).await
}

#[tokio::test]
async fn what_is_too_large_or_no_request_is_refused() {
    let node = Node::start().await;
    let body = raw(&node, "GET /v1/node HTTP/1.1\r\nHost: n1\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!((body.status, body.header("connection")), (413, Some("close")));
    let head = format!("GET /v1/node HTTP/1.1\r\nHost: n1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(raw(&node, &head).await.status, 431);
    assert_eq!(raw(&node, "nonsense\r\n\r\n").await.status, 400);
    let post = raw(&node, "POST /v1/node HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n").await;
    assert_eq!(post.status, 405);
    assert!(post.body.contains(r#"{"error":"this is not answered to that method"#), "{}", post.body);
    probed(&node).await;
}

#[tokio::test]
async fn idle_strangers_shut_out_neither_a_trusted_load_balancer_nor_one_another() {
    let node = Node::start().await;
    let mut strangers = Vec::new();
    for last in 1..=200 {
        strangers.push(connect(node.address, Ipv4Addr::new(127, 2, 1, last)).await);
    }
    until(|| node.state.limits.connections.taken() == CONNECTIONS.others.all).await;
    assert_eq!(get(&node, TRUSTED, "/lb/shop/web").await.status, 200);
    assert_eq!(get(&node, STRANGER, "/lb/shop/web").await.status, 200, "who is new has a request");
    assert!(is_closed(&mut strangers[0]).await, "the longest idle one has made room");
    // The last ones are still there.
    let last = strangers.pop().unwrap();
    assert_eq!(ask(last, "GET /lb/shop/web HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n").await.status, 200);

    // One address alone makes room for itself only.
    let mut own = Vec::new();
    for _ in 0..=CONNECTIONS.others.each {
        own.push(connect(node.address, STRANGER).await);
    }
    assert!(is_closed(&mut own[0]).await);
}

/// Requests of the node that wait for this pod, each on a connection of its own.
async fn wait_for(node: &Node, pod: &str, agent: &str, number: usize) -> Vec<TcpStream> {
    let path = format!("/v1/pods/shop/{pod}/drain?wait=drained&timeout=1m");
    let mut waiting = Vec::new();
    for _ in 0..number {
        let mut stream = connect(node.address, NODE).await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: n1\r\nUser-Agent: {agent}\r\n\r\n");
        // One that is hung up on already.
        let _ = stream.write_all(request.as_bytes()).await;
        waiting.push(stream);
    }
    waiting
}

#[tokio::test]
async fn probes_that_wait_keep_no_hook_of_another_pod_from_waiting() {
    let node = Node::start().await;
    let hook = async || {
        let path = "/v1/pods/shop/web/drain?wait=drained&timeout=1ms";
        get_with(&node, NODE, path, "User-Agent: kube-lifecycle/1.36\r\n").await.status
    };
    let _probes = wait_for(&node, "other", "kube-probe/1.36", 600).await;
    node.awaited(WAITS.probes.min(WAITS_FOR_A_POD)).await;
    assert_eq!(hook().await, 200);
    // They say that they are hooks, because a probe may have any header fields.
    let _hooks = wait_for(&node, "other", "kube-lifecycle/1.36", 600).await;
    assert_eq!(hook().await, 200);
    assert_eq!(node.state.limits.waits.taken(), WAITS_FOR_A_POD);
    probed(&node).await;
}
