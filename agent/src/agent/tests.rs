//! The loop against API servers that hang.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Mutex;

use hitless_runtime::readiness::Readiness;
use hitless_runtime::{http as runtime_http, watch};
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

const NODE: &str = "n1";
/// Whose requests hang.
const SLOW: &str = "slow";
const OTHER: &str = "shop";

/// What becomes of a request.
enum Answer {
    /// As a healthy API server does.
    Good,
    /// Another resourceVersion, it says.
    Conflict,
    /// Nothing.
    None,
}

type Behaviour = fn(&Method, &str) -> Answer;

/// What the API server was asked and has answered well: `PATCH /api/v1/namespaces/shop/pods/a/status`.
type Done = Arc<Mutex<BTreeSet<String>>>;

fn pod(namespace: &str, name: &str, is_true: bool) -> Value {
    let condition = json!({"type": "hitless.dev/InService", "status": if is_true { "True" } else { "False" }});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"), "resourceVersion": if is_true { "2" } else { "1" }},
        "spec": {"nodeName": NODE, "containers": [{"name": "web"}], "readinessGates": [{"conditionType": "hitless.dev/InService"}]},
        "status": {"conditions": if is_true { json!([condition]) } else { json!([]) }},
    })
}

/// The object at a path, after whatever was asked for.
fn object(path: &str) -> Value {
    match path.trim_matches('/').split('/').collect::<Vec<_>>()[..] {
        [_, _, "namespaces", namespace, "pods", name, ..] => pod(namespace, name, true),
        _ => json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": "node-uid"}}),
    }
}

async fn answer(request: Request<Body>, behaviour: Behaviour, done: Done) -> Result<Response<Body>, Infallible> {
    let (method, path) = (request.method(), request.uri().path());
    let (code, body) = match behaviour(method, path) {
        Answer::None => return std::future::pending().await,
        Answer::Conflict => {
            (409, json!({"kind": "Status", "code": 409, "message": "has changed", "status": "Failure"}))
        }
        Answer::Good => {
            done.lock().unwrap().insert(format!("{method} {path}"));
            (200, object(path))
        }
    };
    Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
}

/// An agent whose API server behaves so, with a hundred pods to raise in one namespace and one in another. Looks at its heartbeat
/// for five minutes; says what was done after so many seconds.
async fn run(behaviour: Behaviour, look_at: u64) -> BTreeSet<String> {
    let done = Done::default();
    let told = done.clone();
    let client = Client::new(service_fn(move |request| answer(request, behaviour, told.clone())), "default");
    let mut registry = runtime_http::registry();
    let (wake, seen) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let caches = Caches::new(&seen, &watch::Metrics::register(&mut registry));
    let threads = Arc::new(Threads::start("/nonexistent".into(), &seen).unwrap());
    let put = |pod: Value| caches.pods.put(serde_json::from_value::<Pod>(pod).unwrap());
    for number in 0..100 {
        put(pod(SLOW, &format!("a-{number:03}"), false));
    }
    let files = exec::Node::new("/nonexistent".into(), "/nonexistent".into());
    let metrics = Metrics::register(&mut registry);
    let agent = Agent::new(client, NODE.to_owned(), files, caches.clone(), threads, wake, metrics);
    let (heartbeat, token) = (Heartbeat::new(Instant::now()), CancellationToken::new());
    let readiness = Readiness::default();
    let loop_ = tokio::spawn(agent.run(heartbeat.clone(), readiness.guard("node known"), token.clone()));
    let mut then = BTreeSet::new();
    for second in 0..300 {
        if second == 5 {
            put(pod(OTHER, "web", false));
        }
        if second == look_at {
            then.clone_from(&done.lock().unwrap());
        }
        sleep(Duration::from_secs(1)).await;
        let age = heartbeat.age(Instant::now());
        assert!(age <= Duration::from_secs(10), "the loop has not turned for {age:?}, {second} s after the start");
    }
    token.cancel();
    loop_.abort();
    then
}

fn raised(namespace: &str, name: &str) -> String {
    format!("PATCH /api/v1/namespaces/{namespace}/pods/{name}/status")
}

#[tokio::test(start_paused = true)]
async fn writes_that_hang_neither_stop_the_loop_nor_keep_other_pods_out_of_service() {
    let done = run(|_, path| if path.contains(SLOW) { Answer::None } else { Answer::Good }, 45).await;
    assert!(done.contains(&raised(OTHER, "web")), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_read_anew_within_a_limit_too() {
    let behaviour: Behaviour = |method, path| match (path.contains(SLOW), method) {
        (true, &Method::PATCH) => Answer::Conflict,
        (true, _) => Answer::None,
        (false, _) => Answer::Good,
    };
    assert!(run(behaviour, 45).await.contains(&raised(OTHER, "web")));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_read_does_not_stop_the_loop() {
    assert_eq!(run(|_, _| Answer::None, 299).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn a_healthy_api_server_is_asked_for_all_of_them_at_once() {
    let done = run(|_, _| Answer::Good, 1).await;
    assert_eq!(done.iter().filter(|asked| asked.starts_with("PATCH")).count(), 100, "{done:?}");
}
