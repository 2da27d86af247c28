//! How much memory the agent's watches take beside pods that are made to take much. A process of its own, because its peak is measured.

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use hitless_agent::caches::Caches;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::Metrics;
use http_body_util::BodyExt as _;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Pods of each sort.
const PODS: usize = 15;
/// The agent's limit is 64 MiB, and an agent that has nothing to do takes 5.
const MOST_MIB: u64 = 50;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Clone, Copy, Debug)]
enum Sort {
    /// As large as annotations and arguments may be.
    Long,
    /// Many variables.
    Variables,
    /// Many volumes, the largest entries that a list of a pod has.
    Volumes,
    /// Just as many volumes as are looked after.
    Most,
}

fn spec(sort: Sort) -> String {
    let container =
        |rest: &str| format!("{{\"nodeName\":\"n\",\"containers\":[{{\"name\":\"web\",\"image\":\"web:1\"{rest}}}]}}");
    let volumes = |count: usize| {
        let all: Vec<String> =
            (0..count).map(|number| format!("{{\"name\":\"v{number:x}\",\"emptyDir\":{{}}}}")).collect();
        format!(
            "{{\"nodeName\":\"n\",\"containers\":[{{\"name\":\"web\",\"image\":\"web:1\"}}],\"volumes\":[{}]}}",
            all.join(",")
        )
    };
    match sort {
        Sort::Long => container(&format!(",\"args\":[\"{}\"]", "a".repeat(700_000))),
        Sort::Variables => {
            let all: Vec<String> = (0..70_000).map(|number| format!("{{\"name\":\"a{number:x}\"}}")).collect();
            container(&format!(",\"env\":[{}]", all.join(",")))
        }
        Sort::Volumes => volumes(40_000),
        Sort::Most => volumes(3_300),
    }
}

fn item(sort: Sort, number: usize, spec: &str) -> String {
    let note = if matches!(sort, Sort::Long) { "a".repeat(250_000) } else { String::new() };
    let metadata = json!({"namespace": "shop", "name": format!("{sort:?}-{number}"), "uid": format!("{sort:?}-{number}"),
        "resourceVersion": "1", "annotations": {"note": note}});
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    format!("{{\"metadata\":{metadata},\"spec\":{spec},\"status\":{status}}}")
}

fn list(items: impl Iterator<Item = String> + Send + 'static) -> Answer {
    let begin =
        "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[".to_owned();
    let items = items.enumerate().map(|(index, item)| if index == 0 { item } else { format!(",{item}") });
    let pieces = std::iter::once(begin).chain(items).chain(std::iter::once("]}".to_owned()));
    StreamBody::new(stream::iter(pieces.map(|piece| Ok(Frame::data(Bytes::from(piece)))))).boxed_unsync()
}

fn client() -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let body = if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>().boxed()).boxed_unsync()
        } else if request.uri().path().ends_with("/pods") {
            assert!(
                request.uri().query().is_some_and(|query| query.contains("resourceVersion=0")),
                "{}",
                request.uri()
            );
            let sorts = [Sort::Long, Sort::Variables, Sort::Volumes, Sort::Most];
            list(sorts.into_iter().flat_map(|sort| {
                let spec = spec(sort);
                (0..PODS).map(move |number| item(sort, number, &spec))
            }))
        } else {
            list(std::iter::empty())
        };
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
async fn pods_of_each_sort_that_are_made_to_take_much_memory_take_little_and_are_known() {
    let (wake, readiness, token) = (Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
    let caches = Caches::new(&wake, &Metrics::default());
    for watch in caches.watches(&client(), "n", &readiness, &token) {
        tokio::spawn(watch);
    }
    for _ in 0..600 {
        if caches.pods.synced() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let pods = caches.pods.values();
    assert_eq!(pods.len(), 4 * PODS, "nobody is forgotten");
    assert!(pods.iter().all(|pod| pod.view.ready() && pod.view.node.as_deref() == Some("n")));
    assert_eq!(pods.iter().filter(|pod| pod.view.too_large().is_some()).count(), 2 * PODS);
    let most = most_mib().unwrap();
    assert!(most < MOST_MIB, "{most} MiB");
    token.cancel();
}
