use super::*;

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use crate::watch::{Listing, Metrics};

/// An API server that lets nobody read until it is told to; it has one ConfigMap and no events.
fn client(allowed: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, body) = match (allowed.load(Ordering::Relaxed), is_watch) {
            (false, _) => (403, json!({"kind": "Status", "status": "Failure", "code": 403, "message": "no"})),
            (true, false) => {
                let item = json!({"metadata": {"namespace": "shop", "name": "a", "resourceVersion": "1"}});
                (
                    200,
                    json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [item]}),
                )
            }
            (true, true) => (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "later"})),
        };
        let body = Full::new(Bytes::from(body.to_string()));
        async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap()) }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_given_later_is_found_and_until_then_it_is_said_to_be_missing() {
    let (wake, allowed) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let cache = Cache::new("ConfigMap", |map: ConfigMap| map.metadata.name, wake.clone(), Metrics::default());
    let (access, token) = (Access::new(wake.clone()), CancellationToken::new());
    let api = kube::Api::<ConfigMap>::namespaced(client(allowed.clone()), "shop");
    let selection = Selection::all(Listing::Paged(500));
    let run = tokio::spawn(run_if_allowed(api, selection, cache.clone(), access.clone(), token.clone()));
    wake.notified().await;
    assert!(access.is_denied() && !cache.synced());
    allowed.store(true, Ordering::Relaxed);
    while !cache.synced() {
        wake.notified().await;
    }
    assert!(!access.is_denied());
    assert_eq!(cache.get("shop", "a").as_deref().map(String::as_str), Some("a"));
    token.cancel();
    run.await.unwrap();
}
