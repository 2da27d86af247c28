//! A pod that is only deleted, and its preStop hook at the node's endpoint.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hitless_agent::drain::observer::Observer;
use hitless_agent::hooks::task::Tasks;
use hitless_agent::http::limits::Limits;
use hitless_agent::http::serve::serve;
use hitless_agent::http::{AppState, Parts, PodSource, inside, router};
use hitless_agent::metrics::Refusals;
use hitless_agent::published::Published;
use hitless_agent::view::{NodePod, Observation};
use hitless_agent::waiters::Waiters;
use hitless_api::node_transition::AgentInfo;
use hitless_runtime::http::{Health, bind, registry};
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::readiness::Readiness;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::lab::{Lab, SERVICE_V4, eventually};
use super::{PATIENCE, PORT, QUEUE_ONLY, answer, ask, begin_slow_request, connect};

/// Where the pod wants the endpoint inside of it.
const INSIDE: u16 = 9999;

/// The one pod of the node.
#[derive(Clone)]
struct Shop {
    pod: Arc<NodePod>,
    observer: Arc<Observer>,
}

impl PodSource for Shop {
    fn synced(&self) -> bool {
        true
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<NodePod>> {
        self.pods().into_iter().find(|pod| pod.view.id.namespace == namespace && pod.view.id.name == name)
    }

    fn pods(&self) -> Vec<Arc<NodePod>> {
        vec![self.pod.clone()]
    }

    fn observation(&self, pod_uid: &str) -> Observation {
        self.observer.observation(pod_uid).unwrap_or_default()
    }
}

fn deleted(lab: &Lab) -> Arc<NodePod> {
    let drain = json!({"ports": [{"port": QUEUE_ONLY, "treat": "ignore"}]}).to_string();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": lab.pod_uid, "labels": {"app": "web"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"hitless.dev/drain": drain, "hitless.dev/endpoint": INSIDE.to_string()}},
        "spec": {"containers": [{"name": "web", "ports": [{"containerPort": PORT, "name": "http"}]}]},
    }))
    .unwrap();
    Arc::new(NodePod::from(&pod))
}

/// The endpoint, and of the agent what it needs; until `token` is cancelled.
async fn agent(shop: Shop, seen: Arc<Notify>, token: CancellationToken, tell: impl FnOnce(SocketAddr)) {
    let wake = Arc::new(Notify::new());
    let (published, waiters) = (Published::default(), Waiters::new(wake.clone()));
    let state = AppState::new(Parts {
        node: "n1".to_owned(),
        agent: AgentInfo::default(),
        missing_capabilities: vec![],
        pods: Box::new(shop.clone()),
        published: published.clone(),
        waiters: waiters.clone(),
        tasks: Tasks::new(wake.clone()),
        limits: Limits::default(),
        unheard: inside::Unheard::default(),
        trusted: vec![],
        refusals: Refusals::default(),
        token: token.clone(),
    });
    let heartbeat = Heartbeat::new(tokio::time::Instant::now());
    let health = Health { readiness: Readiness::default(), heartbeat, registry: Arc::new(registry()) };
    let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    tell(listener.local_addr().unwrap());
    let turns = async {
        loop {
            wake.notified().await;
            shop.observer.set_targets(waiters.targets([&*shop.pod], |_| false, Timestamp::now()));
            published.set(Vec::new());
        }
    };
    let relay = published.news().clone().relay(seen, wake.clone(), token.clone());
    let router = router(state.clone(), health);
    tokio::select! {
        _ = inside::run(state.clone(), router.clone(), "/proc".into()) => {}
        _ = serve(listener, state, router) => {}
        _ = relay => {}
        () = turns => {}
    }
}

fn hook(address: SocketAddr, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let fields = "Host: n1\r\nUser-Agent: kube-lifecycle/1.36\r\nConnection: close\r\n";
    write!(stream, "GET {path} HTTP/1.1\r\n{fields}\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{text}");
    serde_json::from_str(body).unwrap()
}

/// The first line of the answer to somebody who comes from outside to the endpoint inside of the pod, and the connection.
fn stranger(lab: &Lab) -> (String, TcpStream) {
    let address = SocketAddr::from((SERVICE_V4, INSIDE));
    let mut stream = lab.in_client(|| eventually("it listens in the pod", || TcpStream::connect(address).ok()));
    write!(stream, "GET /v1/pods/shop/web/drain HTTP/1.1\r\nHost: n1\r\n\r\n").unwrap();
    let line = answer(&stream).unwrap();
    (line, stream)
}

pub(super) fn deletion(lab: &Lab) {
    let mut server = lab.start_server();
    let mut idle = connect(lab);
    ask(&idle, "fast");
    assert_eq!(answer(&idle).unwrap(), "done\n");
    let slow = connect(lab);
    begin_slow_request(lab, &slow);

    let seen = Arc::new(Notify::new());
    let observer = Arc::new(Observer::start("/proc".into(), seen.clone()).unwrap());
    let shop = Shop { pod: deleted(lab), observer: observer.clone() };
    let token = CancellationToken::new();
    let (tell, told) = std::sync::mpsc::channel();
    let ending = token.clone();
    let node = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(agent(shop, seen, ending, move |address| tell.send(address).unwrap()));
    });
    let address = told.recv().unwrap();

    // A connection that stays open there keeps nobody waiting.
    let (line, _open) = stranger(lab);
    assert!(line.starts_with("HTTP/1.1 403"), "{line}");
    let inside = lab.in_pod(|| {
        let path = "/v1/self/drain?wait=drained&timeout=15s";
        thread::spawn(move || hook(([127, 0, 0, 1], INSIDE).into(), path))
    });
    let by_name = thread::spawn(move || hook(address, "/v1/pods/shop/web/drain?wait=drained&timeout=15s"));
    let path = "/v1/pods/shop/drain?labelSelector=app%3Dweb&wait=drained&timeout=15s";
    let by_labels = thread::spawn(move || hook(address, path));
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "the idle one is closed kindly");
    thread::sleep(Duration::from_millis(200));
    assert!(!by_name.is_finished() && !by_labels.is_finished() && !inside.is_finished(), "a request is in flight");
    server.command("release");
    assert_eq!(answer(&slow).unwrap(), "done\n", "nothing is cut off");
    let begin = Instant::now();
    drop(slow);
    let (status, selected) = (by_name.join().unwrap(), by_labels.join().unwrap());
    let took = begin.elapsed();
    let own = inside.join().unwrap();
    assert_eq!((&own["pod"], &own["drained"]), (&"shop/web".into(), &true.into()), "{own}");
    assert_eq!((&status["drained"], &status["because"]), (&true.into(), &"Drained".into()), "{status}");
    assert!(status["connections"]["closedIdle"].as_u64().unwrap() >= 1, "{status}");
    assert_eq!((&selected["drained"], &selected["pods"][0]["pod"]), (&true.into(), &"shop/web".into()), "{selected}");
    assert!(took < Duration::from_secs(1), "{took:?} after the last one");
    println!("both hooks were answered {took:?} after the last connection had ended");
    // Nobody waits, so nobody looks.
    eventually("nobody looks", || observer.observations().is_empty().then_some(()));
    token.cancel();
    node.join().unwrap();
    let is_left = || super::netns(lab).listeners().unwrap().iter().any(|listener| listener.addr.port() == INSIDE);
    eventually("nobody listens in the pod any more", || (!is_left()).then_some(()));
}
