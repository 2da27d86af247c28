//! Pods of a workload at once, as a preStop hook in a template asks.

use std::time::{Duration, Instant};

use hitless_agent::view::Count;
use hitless_api::Phase;
use serde_json::{Value, json};

use crate::client::get;
use crate::drained::GONE;
use crate::node::{NODE, Node, until};

const HOOK: &str = "/v1/pods/shop/drain?labelSelector=app%3Dweb&wait=drained&timeout=60s";

fn delete(node: &Node, name: &str, ip: &str) {
    node.put(name, ip, &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "True");
}

async fn hook(node: &Node) -> Value {
    let answer = get(node, NODE, HOOK).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn a_hook_waits_for_the_deleted_pods_of_its_workload_and_for_no_others() {
    let node = Node::start().await;
    delete(&node, "other", "10.1.0.6");
    let change = async {
        node.awaited(1).await;
        // The agent's watch may tell of the deletion after the kubelet has asked.
        delete(&node, "web", "10.1.0.5");
        until(|| node.state.waiters.awaited().len() == 1).await;
        assert_eq!(node.round(None).len(), 1);
        node.observe(Count { inbound: 1, busy: 1, ..GONE });
        node.observe_of("other", Count { inbound: 1, busy: 1, ..GONE });
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(node.state.limits.waits.taken(), 1, "somebody is connected");
        node.observe(GONE);
        Instant::now()
    };
    let (status, changed) = tokio::join!(hook(&node), change);
    assert!(changed.elapsed() < Duration::from_secs(1), "{:?}", changed.elapsed());
    assert_eq!((&status["drained"], &status["because"]), (&true.into(), &"Drained".into()));
    assert_eq!((status["pods"].as_array().unwrap().len(), &status["pods"][0]["pod"]), (1, &"shop/web".into()));
    until(|| node.state.waiters.awaited().is_empty()).await;
}

#[tokio::test]
async fn a_container_that_is_replaced_in_its_place_waits_for_no_deletion() {
    let node = Node::start().await;
    let begin = Instant::now();
    let status = hook(&node).await;
    assert_eq!((&status["drained"], &status["because"]), (&false.into(), &"NotLeaving".into()));
    assert!(begin.elapsed() >= Duration::from_secs(1), "a deletion has time to show");
    node.round(Some((Phase::Operating, None)));
    let begin = Instant::now();
    assert_eq!(hook(&node).await["because"], "NotLeaving");
    assert!(begin.elapsed() < Duration::from_secs(1), "clients may be held");
}

#[tokio::test]
async fn without_a_wait_the_selected_pods_are_listed() {
    let node = Node::start().await;
    let all = get(&node, NODE, "/v1/pods/shop/drain").await.json();
    assert_eq!((all["pods"].as_array().unwrap().len(), &all["drained"]), (2, &false.into()));
    let web = get(&node, NODE, "/v1/pods/shop/drain?labelSelector=app=web").await.json();
    assert_eq!((web["pods"].as_array().unwrap().len(), &web["pods"][0]["pod"]), (1, &"shop/web".into()));
    let elsewhere = get(&node, NODE, "/v1/pods/elsewhere/drain").await.json();
    assert_eq!((elsewhere["pods"].as_array().unwrap().len(), &elsewhere["drained"]), (0, &false.into()));
    let refused = get(&node, NODE, "/v1/pods/shop/drain?labelSelector=app!%3Dweb").await;
    assert!(refused.status == 400 && refused.body.contains("write e.g."), "{refused:?}");
}
