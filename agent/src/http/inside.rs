//! The endpoint inside of pods that ask for it, by the annotation `hitless.dev/endpoint: "<port>"`.
//!
//! A preStop hook there names no host, which Pod Security forbids: the kubelet calls the pod's own address. The agent listens in the pod's
//! network namespace, so it knows which pod is meant: whoever comes from the pod or from its node is answered as that pod, and anybody
//! else as a stranger.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hitless_api::PodRef;
use hitless_kernel::{KernelError, PodNetns};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::identity::{Peer, Side};
use super::serve::{Acceptor, serve};
use super::state::AppState;
use crate::drain::ensure_listened;
use crate::view::NodePod;

/// After a failure, and twice as long after each further one: a pod that has just come has no process yet, and nothing tells when it
/// has.
const RETRY: Duration = Duration::from_secs(1);
/// Not longer than that.
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// Why nobody listens in pods that ask for it, in words, by uid. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Unheard(Arc<Mutex<BTreeMap<String, String>>>);

impl Unheard {
    pub(super) fn words(&self) -> Vec<String> {
        self.known().values().cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is news.
    fn tell(&self, pod: &NodePod, port: u16, error: &ListenError) -> bool {
        let PodRef { namespace, name, uid } = &pod.view.id;
        let words = format!(
            "pod {namespace}/{name} asks for the endpoint at port {port} (hitless.dev/endpoint) and does not get it: {error}; take a port \
             that the pod does not use, in the annotation and in its preStop hook"
        );
        self.known().insert(uid.clone(), words.clone()) != Some(words)
    }
}

/// Nobody listens in a pod that asks for it.
struct Failed {
    again: Instant,
    pause: Duration,
}

impl Failed {
    fn new(now: Instant) -> Self {
        Self { again: now, pause: RETRY }
    }

    fn put_off(&mut self, now: Instant) {
        self.again = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_RETRY);
    }
}

/// Somebody listens in a pod's namespace.
struct Open {
    port: u16,
    /// A pod whose sandbox was made anew has another namespace, and another address.
    addresses: Vec<IpAddr>,
    /// Ends it, with all of its connections.
    end: DropGuard,
}

/// Listens in every pod that asks for it, until the state's token is cancelled.
pub async fn run(state: AppState, router: Router, proc_root: PathBuf) -> Result<(), Infallible> {
    let (mut open, mut serving) = (BTreeMap::<String, Open>::new(), JoinSet::new());
    let mut failed = BTreeMap::<String, Failed>::new();
    let mut news = state.published.news().hear();
    while !state.token.is_cancelled() {
        news.mark_unchanged();
        let wanted = wanted(&state.pods.pods());
        open.retain(|uid, open| {
            wanted.get(uid).is_some_and(|(pod, port)| *port == open.port && pod.ips == open.addresses)
        });
        failed.retain(|uid, _| wanted.contains_key(uid));
        state.unheard.known().retain(|uid, _| wanted.contains_key(uid));
        let now = Instant::now();
        for (uid, (pod, port)) in wanted {
            if open.contains_key(&uid) || failed.get(&uid).is_some_and(|failed| failed.again > now) {
                continue;
            }
            match listen(&proc_root, &pod, port).await {
                Ok(acceptor) => {
                    let token = CancellationToken::new();
                    serving.spawn(token.clone().run_until_cancelled_owned(serve(
                        acceptor,
                        state.clone(),
                        router.clone(),
                    )));
                    failed.remove(&uid);
                    state.unheard.known().remove(&uid);
                    open.insert(uid, Open { port, addresses: pod.ips.clone(), end: token.drop_guard() });
                }
                Err(error) => {
                    failed.entry(uid).or_insert_with(|| Failed::new(now)).put_off(Instant::now());
                    if error.is_lasting() && state.unheard.tell(&pod, port, &error) {
                        let pod = format!("{}/{}", pod.view.id.namespace, pod.view.id.name);
                        tracing::warn!(pod, port, %error, "can't listen in the pod; is the port its own? Take another one");
                    }
                }
            }
        }
        let again = failed.values().map(|failed| failed.again).min();
        tokio::select! {
            _ = news.changed() => {}
            () = sleep_until(again.unwrap_or(now)), if again.is_some() => {}
            Some(_) = serving.join_next(), if !serving.is_empty() => {}
            () = state.token.cancelled() => {}
        }
    }
    // They end by the same token, and what is begun is finished.
    for open in open.into_values() {
        open.end.disarm();
    }
    while serving.join_next().await.is_some() {}
    Ok(())
}

/// Pods in which to listen, by uid, and where. Not before a container is ready: what the pod listens to itself tells whether its sockets
/// can be seen, and ours must not.
fn wanted(pods: &[Arc<NodePod>]) -> BTreeMap<String, (Arc<NodePod>, u16)> {
    let ask = |pod: &&Arc<NodePod>| {
        let view = &pod.view;
        let is_ready = view.containers.iter().any(|container| container.status.as_ref().is_some_and(|of| of.ready));
        let port = view.endpoint_port().filter(|_| !view.host_network && !view.finished)?;
        // One that is being deleted may be ready no more, and its hook is what this is for.
        (is_ready || view.terminating).then(|| (view.id.uid.clone(), (Arc::clone(pod), port)))
    };
    pods.iter().filter_map(|pod| ask(&pod)).collect()
}

async fn listen(proc_root: &Path, pod: &Arc<NodePod>, port: u16) -> Result<InsideAcceptor, ListenError> {
    let (proc_root, view) = (proc_root.to_owned(), pod.clone());
    let listener = spawn_blocking(move || -> Result<_, KernelError> {
        let netns = PodNetns::open(&proc_root, &view.view.id.uid)?;
        ensure_listened(&netns, &view.view.id.uid, crate::drain::must_listen(&view.view))?;
        netns.listen(port)
    });
    let listener = listener.await.map_err(io::Error::other)??;
    listener.set_nonblocking(true)?;
    Ok(InsideAcceptor { listener: TcpListener::from_std(listener)?, pod: pod.view.id.clone() })
}

#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ListenError {
    /// Whether it is more than a pod that has just come, or goes.
    const fn is_lasting(&self) -> bool {
        !matches!(self, Self::Kernel(KernelError::NotFound { .. } | KernelError::NobodyListens { .. }))
    }
}

/// Connections to a listener in a pod's network namespace.
struct InsideAcceptor {
    listener: TcpListener,
    pod: PodRef,
}

impl Acceptor for InsideAcceptor {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, peer) = Acceptor::accept(&self.listener).await?;
        let Peer::Tcp { from, to } = peer else { return Ok((stream, peer)) };
        let side = if from.is_loopback() || from == to {
            Side::Pod
        } else if is_of_node(from) {
            Side::Node
        } else {
            Side::Other
        };
        Ok((stream, Peer::Inside { pod: self.pod.clone(), from, side }))
    }
}

/// Whether the address is one of the node's own, in whose network the agent is: who sends to his own address sends from it. Whether it
/// can be bound says less: `net.ipv4.ip_nonlocal_bind` lets any be.
fn is_of_node(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Nothing is sent.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(name: &str, endpoint: Option<&str>, rest: &Value) -> Arc<NodePod> {
        let annotations = endpoint.map_or_else(|| json!({}), |port| json!({"hitless.dev/endpoint": port}));
        let mut object = json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "annotations": annotations},
            "spec": {"containers": [{"name": "web"}]}, "status": {"containerStatuses": [{"name": "web", "ready": true,
                "image": "", "imageID": "", "restartCount": 0}]}});
        json_patch::merge(&mut object, rest);
        Arc::new(NodePod::from(&serde_json::from_value::<Pod>(object).unwrap()))
    }

    #[test]
    fn only_pods_that_ask_for_it_and_are_there_have_a_listener() {
        let starting = json!({"status": {"containerStatuses": null}});
        let pods = [
            pod("asks", Some("9754"), &json!({})),
            pod("does-not", None, &json!({})),
            pod("nonsense", Some("http"), &json!({})),
            pod("zero", Some("0"), &json!({})),
            pod("starting", Some("9754"), &starting),
            pod("node", Some("9754"), &json!({"spec": {"hostNetwork": true}})),
            pod("done", Some("9754"), &json!({"status": {"phase": "Succeeded"}})),
        ];
        let wanted = wanted(&pods);
        assert_eq!(wanted.keys().collect::<Vec<_>>(), ["asks"]);
        assert_eq!(wanted["asks"].1, 9754);
    }

    #[test]
    fn a_port_that_is_taken_is_said_once_with_the_pod_and_what_to_do() {
        let (unheard, pod) = (Unheard::default(), pod("web-0", Some("8080"), &json!({})));
        let taken = || ListenError::Io(io::Error::from(io::ErrorKind::AddrInUse));
        assert!(unheard.tell(&pod, 8080, &taken()));
        assert!(!unheard.clone().tell(&pod, 8080, &taken()), "it is known");
        let words = unheard.words();
        assert!(words[0].starts_with("pod shop/web-0 asks for the endpoint at port 8080"), "{words:?}");
        assert!(words[0].contains("take a port that the pod does not use"), "{words:?}");
    }
}
