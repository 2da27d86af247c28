//! A node with an endpoint, as a test wants it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hitless_agent::hooks::task::Tasks;
use hitless_agent::http::identity::Peer;
use hitless_agent::http::inside::Unheard;
use hitless_agent::http::limits::Limits;
use hitless_agent::http::serve::{Acceptor, UnixAcceptor, serve};
use hitless_agent::http::socket::Socket;
use hitless_agent::http::{AppState, Parts, PodSource, router};
use hitless_agent::metrics::Refusals;
use hitless_agent::published::{Published, Step};
use hitless_agent::view::{Count, NodePod, Observation};
use hitless_agent::waiters::Waiters;
use hitless_api::node_transition::AgentInfo;
use hitless_api::{MicroTime, Outcome, Phase, Transition, TransitionResult};
use hitless_runtime::http::{Health, bind, registry};
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::readiness::Readiness;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// For what takes no time but that of a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The kubelet, and everybody else on the node's network.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Pod `shop/web`.
pub(crate) const WEB: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 5);
/// Pod `shop/other`.
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 6);
/// Nobody that the node knows.
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 9);
/// Named in `HITLESS_TRUSTED`.
pub(crate) const TRUSTED: Ipv4Addr = Ipv4Addr::new(127, 3, 0, 9);

/// What the endpoint is shown.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    is_unsynced: bool,
    pods: BTreeMap<String, Arc<NodePod>>,
    observations: BTreeMap<String, Observation>,
}

impl PodSource for Fake {
    fn synced(&self) -> bool {
        !self.0.lock().unwrap().is_unsynced
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<NodePod>> {
        self.0.lock().unwrap().pods.get(&format!("{namespace}/{name}")).cloned()
    }

    fn pods(&self) -> Vec<Arc<NodePod>> {
        self.0.lock().unwrap().pods.values().cloned().collect()
    }

    fn observation(&self, pod_uid: &str) -> Observation {
        self.0.lock().unwrap().observations.get(pod_uid).cloned().unwrap_or_default()
    }
}

/// A node with the pods `shop/web` and `shop/other`, in service and ready.
pub(crate) struct Node {
    pub(crate) state: AppState,
    pub(crate) address: SocketAddr,
    pub(crate) token: CancellationToken,
    pub(crate) readiness: Readiness,
    fake: Fake,
    router: Router,
}

impl Node {
    pub(crate) async fn start() -> Self {
        let (token, readiness) = (CancellationToken::new(), Readiness::default());
        let fake = Fake::default();
        let text = |text: &str| text.to_owned();
        let state = AppState::new(Parts {
            node: text("n1"),
            agent: AgentInfo {
                version: text("0.1.0"),
                boot_id: text("boot"),
                features: vec![text("hold")],
                serving: vec![],
                not_held: Vec::new(),
                in_flight: Vec::new(),
            },
            missing_capabilities: vec![text("NET_RAW is missing")],
            pods: Box::new(fake.clone()),
            published: Published::default(),
            waiters: Waiters::new(Arc::new(Notify::new())),
            tasks: Tasks::new(Arc::new(Notify::new())),
            limits: Limits::default(),
            unheard: Unheard::default(),
            trusted: vec!["10.3.0.0/16".parse().unwrap()],
            refusals: Refusals::default(),
            token: token.clone(),
        });
        let heartbeat = Heartbeat::new(Instant::now());
        let health = Health { readiness: readiness.clone(), heartbeat, registry: Arc::new(registry()) };
        let router = router(state.clone(), health);
        // Every address of the loopback network comes here, so that a client can have any.
        let listener = bind((Ipv4Addr::UNSPECIFIED, 0).into()).await.unwrap();
        let address = SocketAddr::from((NODE, listener.local_addr().unwrap().port()));
        tokio::spawn(serve(Disguised(listener), state.clone(), router.clone()));
        let node = Self { state, address, token, readiness, fake, router };
        node.put("web", "10.1.0.5", &json!({}), "True");
        node.put("other", "10.1.0.6", &json!({}), "True");
        node
    }

    /// Serves on this socket, too; processes are looked up in `proc_root`.
    pub(crate) fn listen(&self, path: &std::path::Path, proc_root: &std::path::Path) -> tokio::task::JoinHandle<()> {
        let socket = Socket::bind(path).unwrap().unwrap();
        let acceptor = UnixAcceptor { socket, proc_root: proc_root.to_owned() };
        let served = serve(acceptor, self.state.clone(), self.router.clone());
        tokio::spawn(async { served.await.unwrap() })
    }

    /// A pod as it is now; its label `app` is its name.
    pub(crate) fn put(&self, name: &str, ip: &str, metadata: &Value, in_service: &str) {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {"containers": [{"name": "web", "ports": [{"containerPort": 80, "name": "http"}]}]},
            "status": {"podIP": ip, "conditions": [condition("Ready", in_service), condition("hitless.dev/InService", in_service)]},
        }))
        .unwrap();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("shop".to_owned());
        pod.metadata.uid = Some(uid(name));
        pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), name.to_owned())]));
        let pod = Arc::new(NodePod::from(&pod));
        self.fake.0.lock().unwrap().pods.insert(format!("shop/{name}"), pod);
        self.state.published.news().tell();
    }

    /// A user deletes the pod `shop/web`.
    pub(crate) fn delete(&self) {
        self.put("web", "10.1.0.5", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "True");
    }

    /// It is gone.
    pub(crate) fn remove(&self) {
        self.fake.0.lock().unwrap().pods.remove("shop/web");
        self.state.published.news().tell();
    }

    /// The pod `shop/web` is out of service.
    pub(crate) fn lower(&self) {
        self.put("web", "10.1.0.5", &json!({}), "False");
    }

    /// The agent has not listed its pods yet.
    pub(crate) fn forget(&self) {
        self.fake.0.lock().unwrap().is_unsynced = true;
    }

    /// What the drain thread sees of `shop/web`.
    pub(crate) fn observe(&self, count: Count) {
        self.observe_of("web", count);
    }

    /// What it sees of another one.
    pub(crate) fn observe_of(&self, name: &str, count: Count) {
        self.fake.0.lock().unwrap().observations.insert(uid(name), Observation::Counted(count));
        self.state.published.news().tell();
    }

    /// The agent's turn: it has those observed that are waited for, and publishes. Says which pods it looks at.
    pub(crate) fn round(&self, operation: Option<(Phase, Option<Outcome>)>) -> Vec<String> {
        let pods = self.fake.pods();
        let is_live = operation.is_some_and(|(_, outcome)| outcome.is_none());
        let targets = self.state.waiters.targets(pods.iter().map(Arc::as_ref), |_| is_live, Timestamp::now());
        self.state.published.set(operation.map(|(phase, outcome)| step(phase, outcome)).into_iter().collect());
        targets.into_keys().collect()
    }

    /// The agent is taking `shop/web` out of service, and has no answer from the API server yet.
    pub(crate) fn leave(&self) {
        let step = Step { leaves_service: true, ..step(Phase::Leaving, None) };
        self.state.published.set(vec![step]);
    }

    /// Until so many wait for `shop/web` or anybody else.
    pub(crate) async fn awaited(&self, waits: usize) {
        until(|| self.state.limits.waits.taken() == waits).await;
    }
}

/// Waits for something that nothing tells of.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let all = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, all).await.unwrap();
}

pub(crate) fn uid(name: &str) -> String {
    // As long as a uid is.
    format!("0000abcd-0000-0000-0000-{:0>12}", if name == "web" { "5" } else { "6" })
}

fn step(phase: Phase, outcome: Option<Outcome>) -> Step {
    let since = MicroTime(Timestamp::now());
    let result = outcome.map(|outcome| TransitionResult {
        outcome,
        reason: "Because".to_owned(),
        report: BTreeMap::from([("connections".to_owned(), 7)]),
    });
    let transition = Transition {
        id: format!("{}.1", uid("web")),
        granted: since.clone(),
        phase,
        since: since.clone(),
        deadline: Some(since),
        connections: None,
        gap_milliseconds: None,
        ready_milliseconds: None,
        hooks_done: Vec::new(),
        hooks: Vec::new(),
        rollback: None,
        message: "words".to_owned(),
        result,
    };
    Step {
        pod_uid: uid("web"),
        transition,
        waiting_for: vec!["3 connections to end".to_owned()],
        leaves_service: false,
    }
}

/// On one machine all addresses are the node's: `127.1.x.y` stands for the pod `10.1.x.y`, and so on.
struct Disguised(TcpListener);

impl Acceptor for Disguised {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, peer) = Acceptor::accept(&self.0).await?;
        let Peer::Tcp { from: IpAddr::V4(from), to } = peer else { panic!("{peer:?}") };
        let [_, kind, high, low] = from.octets();
        let from = if kind == 0 { from } else { Ipv4Addr::new(10, kind, high, low) };
        Ok((stream, Peer::tcp(from.into(), to)))
    }
}
