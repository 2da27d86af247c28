//! Who sees what.

use crate::client::get;
use crate::node::{NODE, Node, OTHER, STRANGER, TRUSTED, WEB};

#[tokio::test]
async fn a_pod_sees_only_itself_the_node_all_and_a_stranger_nobody() {
    let node = Node::start().await;
    let (web, other, unknown) = ("/v1/pods/shop/web/drain", "/v1/pods/shop/other/drain", "/v1/pods/shop/nobody/drain");
    for (from, path, status) in [
        (WEB, web, 200),
        (WEB, other, 403),
        (WEB, unknown, 403),
        (OTHER, other, 200),
        (OTHER, web, 403),
        (NODE, web, 200),
        (NODE, other, 200),
        (NODE, unknown, 404),
        (TRUSTED, other, 200),
        (STRANGER, web, 403),
        (STRANGER, unknown, 403),
        (WEB, "/v1/pods/shop/other/drain/events", 403),
        (WEB, "/v1/pods/shop/drain", 403),
        (STRANGER, "/v1/pods/shop/drain?wait=drained", 403),
        (NODE, "/v1/pods/shop/drain", 200),
        (WEB, "/v1/node", 403),
        (STRANGER, "/v1/node", 403),
        (NODE, "/v1/node", 200),
        (TRUSTED, "/v1/node", 200),
        (WEB, "/v1/self/drain", 200),
        (NODE, "/v1/self/drain", 404),
        (STRANGER, "/v1/self/drain", 403),
        (STRANGER, "/v1/self/drain/events", 403),
        (WEB, "/v1/self/task", 200),
        (NODE, "/v1/self/task", 403),
        (STRANGER, "/v1/openapi.json", 200),
        (STRANGER, "/metrics", 200),
        (STRANGER, "/healthz", 200),
        (NODE, "/v2", 404),
    ] {
        let answer = get(&node, from, path).await;
        assert_eq!(answer.status, status, "{from} asked for {path}: {answer:?}");
        let is_told = status == 200 || answer.json()["error"].as_str().is_some_and(|words| words.len() > 20);
        assert!(is_told, "{answer:?}");
    }
    let own = get(&node, WEB, "/v1/self/drain").await.json();
    assert_eq!((&own["pod"], &own["inService"], &own["drained"]), (&"shop/web".into(), &true.into(), &false.into()));
}

#[tokio::test]
async fn a_load_balancer_is_told_whether_to_send_more_wherever_it_is() {
    let node = Node::start().await;
    for from in [NODE, WEB, STRANGER] {
        let answer = get(&node, from, "/lb/shop/web").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "in service\n"), "{from}");
    }
    node.lower();
    let answer = get(&node, STRANGER, "/lb/shop/web").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, "out of service\n"));
    assert_eq!(get(&node, STRANGER, "/lb/shop/nobody").await.status, 404);
    node.delete();
    assert_eq!(get(&node, STRANGER, "/lb/shop/web").await.status, 503);
}

#[tokio::test]
async fn a_load_balancer_is_told_that_a_pod_leaves_before_anybody_can_see_it() {
    let node = Node::start().await;
    node.leave();
    let answer = get(&node, STRANGER, "/lb/shop/web").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, "out of service\n"));
    assert_eq!(get(&node, STRANGER, "/lb/shop/other").await.status, 200);
    // The write was refused: the pod is in service as it was.
    node.round(None);
    assert_eq!(get(&node, STRANGER, "/lb/shop/web").await.status, 200);
}

#[tokio::test]
async fn before_the_pods_are_listed_nothing_is_said_of_any() {
    let node = Node::start().await;
    node.forget();
    node.remove();
    for path in ["/v1/pods/shop/web/drain", "/lb/shop/web"] {
        assert_eq!(get(&node, NODE, path).await.status, 503, "{path}");
    }
}
