//! How much memory the watches take beside objects that are made to take much. A process of its own, because its peak is measured.

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use hitless_controller::watches::Caches;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::Metrics;
use hitless_workloads::{Installed, OptIn};
use http_body_util::BodyExt as _;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Frame};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Objects of each kind.
const OBJECTS: usize = 6;
/// The controllers' limit is 512 MiB, and a controller that looks after nothing takes 10.
const MOST_MIB: u64 = 128;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// 1.4 MB of the shortest maps that the API server accepts.
fn template() -> String {
    let variables: Vec<String> = (0..70_000).map(|number| format!("{{\"name\":\"a{number:x}\"}}")).collect();
    format!(
        "{{\"metadata\":{{\"labels\":{{\"app\":\"web\"}}}},\"spec\":{{\"containers\":[{{\"name\":\"web\",\"image\":\"web:1\",\"env\":[{}]}}]}}}}",
        variables.join(",")
    )
}

/// Every second one has opted in.
fn item(kind: &str, number: usize, template: &str) -> String {
    let annotations = if number.is_multiple_of(2) { json!({"hitless.dev/update": "in-place"}) } else { json!({}) };
    let metadata = json!({"namespace": "shop", "name": format!("web-{number}"), "uid": format!("{kind}-{number}"),
        "resourceVersion": "1", "annotations": annotations});
    format!(
        "{{\"apiVersion\":\"apps/v1\",\"kind\":\"{kind}\",\"metadata\":{metadata},\"spec\":{{\"replicas\":0,\"template\":{template}}}}}"
    )
}

fn list(items: impl Iterator<Item = String> + Send + 'static) -> Answer {
    let begin =
        "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[".to_owned();
    let items = items.enumerate().map(|(index, item)| if index == 0 { item } else { format!(",{item}") });
    let pieces = std::iter::once(begin).chain(items).chain(std::iter::once("]}".to_owned()));
    StreamBody::new(stream::iter(pieces.map(|piece| Ok(Frame::data(Bytes::from(piece)))))).boxed_unsync()
}

fn answer(uri: &http::Uri, template: &Arc<String>) -> Answer {
    let never = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    if uri.query().is_some_and(|query| query.contains("watch=true")) {
        return StreamBody::new(never.boxed()).boxed_unsync();
    }
    let template = Arc::clone(template);
    match uri.path().rsplit('/').next() {
        Some("deployments") => list((0..OBJECTS).map(move |number| item("Deployment", number, &template))),
        Some("replicasets") => list((0..OBJECTS).map(move |number| item("ReplicaSet", number, &template))),
        Some("statefulsets") => list((0..OBJECTS).map(move |number| item("StatefulSet", number, &template))),
        _ => list(std::iter::empty()),
    }
}

fn client() -> Client {
    let template = Arc::new(template());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_definition = request.uri().path().contains("customresourcedefinitions");
        let body = if is_definition { list(std::iter::empty()) } else { answer(request.uri(), &template) };
        async move { Ok::<_, Infallible>(http::Response::new(body)) }
    });
    Client::new(service, "default")
}

/// `VmHWM` of this process: the most that it ever had in memory.
fn most_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib / 1024)
}

#[tokio::test]
async fn objects_of_each_kind_that_are_made_to_take_much_memory_take_little_and_are_known() {
    let (wake, readiness, token) = (Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
    let caches = Caches::new(&Installed::default(), &wake, &Metrics::default());
    for (_, watch) in caches.watches(&client(), &readiness, &token) {
        tokio::spawn(watch);
    }
    for _ in 0..600 {
        if caches.synced() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(caches.synced());
    let objects = caches.snapshot(Timestamp::UNIX_EPOCH).objects;
    assert_eq!(objects.len(), 3 * OBJECTS, "nobody is forgotten");
    let workloads: Vec<_> = objects.iter().filter_map(|object| object.template().map(|it| (object, it))).collect();
    assert_eq!(workloads.iter().filter(|(object, _)| object.opt_in() != OptIn::No).count(), OBJECTS);
    assert!(workloads.iter().all(|(_, template)| template.too_large().is_some_and(|large| large.0 > 140_000)));
    let most = most_mib().unwrap();
    assert!(most < MOST_MIB, "{most} MiB");
    token.cancel();
}
