//! Pods are read from the API server's store before anything is done on the word of a list that may be older.

use std::convert::Infallible;

use hitless_runtime::watch;
use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;

fn pod(uid: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": "web", "uid": uid, "resourceVersion": version}, "spec": {"containers": []}})
}

fn grant() -> Grant {
    serde_json::from_value(json!({
        "id": "g", "epoch": 1, "pod": {"namespace": "shop", "name": "web", "uid": "u"}, "op": "Update", "mode": "Leave",
        "containers": {}, "before": {}, "drain": {}, "verify": {}, "rules": [], "granted": "2026-01-01T00:00:00.000000Z", "ttlSeconds": 60
    }))
    .unwrap()
}

/// What is cached is version 5 of `u`, if anything; the API server answers so. Whether it was confirmed, and what is cached then.
async fn confirm(is_cached: bool, code: u16, body: Value) -> (bool, Option<String>) {
    let answer = move |_: Request<Body>| {
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap();
        async move { Ok::<_, Infallible>(response) }
    };
    let mut registry = hitless_runtime::http::registry();
    let wake = Arc::new(Notify::new());
    let caches = Caches::new(&wake, &watch::Metrics::register(&mut registry));
    if is_cached {
        caches.pods.put(serde_json::from_value(pod("u", "5")).unwrap());
    }
    let client = Client::new(service_fn(answer), "default");
    let pods = Pods::new(client, caches.clone(), Writes::default(), wake, PathBuf::from("/nonexistent"));
    let is_confirmed = pods.confirm(&[grant(), grant()]).await;
    (is_confirmed, caches.pods.get("shop", "web").map(|pod| pod.view.resource_version.clone()))
}

#[tokio::test]
async fn what_the_store_has_of_the_very_pod_is_what_is_known_then() {
    assert_eq!(confirm(true, 200, pod("u", "7")).await, (true, Some("7".to_owned())));
    assert_eq!(confirm(true, 200, pod("u", "5")).await, (true, Some("5".to_owned())));
}

#[tokio::test]
async fn of_a_pod_that_the_list_has_not_nothing_is_done_so_it_needs_no_look() {
    assert_eq!(confirm(false, 500, json!({})).await, (true, None));
}

/// The watch tells soon; until then nothing is done on the word of the list.
#[tokio::test]
async fn a_pod_that_is_another_one_or_gone_or_can_not_be_read_is_not_confirmed() {
    let status = |code: u16| json!({"kind": "Status", "status": "Failure", "code": code, "message": "m"});
    let cached = Some("5".to_owned());
    assert_eq!(confirm(true, 200, pod("another", "7")).await, (false, cached.clone()));
    assert_eq!(confirm(true, 404, status(404)).await, (false, cached.clone()));
    assert_eq!(confirm(true, 403, status(403)).await, (false, cached));
}
