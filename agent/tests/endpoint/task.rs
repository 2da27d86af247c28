//! What a pod says of itself.

use std::net::Ipv4Addr;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::client::{Answer, ask, connect, get};
use crate::node::{NODE, Node, OTHER, STRANGER, WEB};

const PATH: &str = "/v1/self/task";

async fn send(node: &Node, from: Ipv4Addr, method: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("{method} {PATH} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    ask(connect(node.address, from).await, &format!("{head}{body}")).await
}

/// Pod `shop/web` with this value of the annotation.
fn allow(node: &Node, value: &str) {
    node.put("web", "10.1.0.5", &json!({"annotations": {"hitless.dev/task": value}}), "True");
}

#[tokio::test]
async fn a_pod_speaks_for_itself_only() {
    let node = Node::start().await;
    allow(&node, "allowed");
    let said = send(&node, WEB, "PUT", r#"{"task": "notYet", "forSeconds": 120, "message": "exporting"}"#).await;
    assert_eq!(
        (said.status, &said.json()["task"], &said.json()["message"]),
        (200, &json!("notYet"), &json!("exporting"))
    );
    assert_eq!(get(&node, WEB, PATH).await.json(), said.json());
    assert_eq!(get(&node, OTHER, PATH).await.json(), json!({"task": "go"}));
    for (from, method) in [(NODE, "GET"), (NODE, "PUT"), (STRANGER, "PUT"), (STRANGER, "DELETE")] {
        assert_eq!(send(&node, from, method, "").await.status, 403, "{from} {method}");
    }
    assert_eq!(get(&node, WEB, PATH).await.json(), said.json());
    assert_eq!(send(&node, WEB, "DELETE", "").await.json(), json!({"task": "go"}));
    assert_eq!(get(&node, WEB, PATH).await.json(), json!({"task": "go"}));
}

#[tokio::test]
async fn what_a_pod_says_counts_only_where_its_owner_allows_it() {
    let node = Node::start().await;
    let never = r#"{"task": "never"}"#;
    for value in [None, Some("yes")] {
        if let Some(value) = value {
            allow(&node, value);
        }
        for body in [never, r#"{"task": "notYet"}"#] {
            let refused = send(&node, WEB, "PUT", body).await;
            let words = refused.json()["error"].as_str().unwrap_or_default().to_owned();
            assert_eq!(refused.status, 403, "{words}");
            assert!(words.contains("hitless.dev/task: allowed into its pod template"), "{words}");
        }
    }
    allow(&node, "allowed");
    assert_eq!(get(&node, WEB, PATH).await.json(), json!({"task": "go"}), "nothing was remembered");
    assert_eq!(send(&node, WEB, "PUT", never).await.status, 200);
    // The owner takes it back.
    node.put("web", "10.1.0.5", &json!({}), "True");
    assert_eq!(get(&node, WEB, PATH).await.json(), json!({"task": "go"}));
    for (method, body) in [("PUT", r#"{"task": "go"}"#), ("DELETE", "")] {
        assert_eq!(send(&node, WEB, method, body).await.status, 200, "that needs no permission");
    }
}

#[tokio::test]
async fn a_word_that_makes_no_sense_changes_nothing() {
    let node = Node::start().await;
    allow(&node, "allowed");
    send(&node, WEB, "PUT", r#"{"task": "never"}"#).await;
    let long = format!(r#"{{"task": "go", "message": "{}"}}"#, "x".repeat(5000));
    for (body, status) in [("{", 400), (r#"{"task": "soon"}"#, 400), (long.as_str(), 413)] {
        let answer = send(&node, WEB, "PUT", body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.json()["error"].is_string(), "{answer:?}");
    }
    assert_eq!(get(&node, WEB, PATH).await.json()["task"], "never");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let node = Node::start().await;
    let mut stream = connect(node.address, WEB).await;
    stream
        .write_all(format!("PUT {PATH} HTTP/1.1\r\nHost: n1\r\nContent-Length: 40\r\n\r\n{{").as_bytes())
        .await
        .unwrap();
    let answer = ask(stream, "").await;
    assert_eq!(answer.status, 413, "{answer:?}");
}
