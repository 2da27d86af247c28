//! Whether new containers answer as their readiness probes ask, as soon as they listen.
//!
//! The kubelet asks once in a period, a second at least, so a process that answers right after its first question is Ready a period later.
//! How long the process itself needs decides whether the pods after it are held (docs/contract.md#learned-gap); nothing else rests on it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hitless_api::{Grant, Phase};
use hitless_runtime::http_client;
use http::Request;
use http::header::{CONNECTION, HOST, USER_AGENT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::decision::Decision;
use crate::hooks::http::trusting;
use crate::lock::lock;
use crate::memory::Memory;
use crate::view::NodePod;

/// Between two questions to a container that has not answered yet.
const AGAIN: Duration = Duration::from_millis(100);
/// So long an answer may take, as by the kubelet's default.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a readiness probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// `tcpSocket`: whether somebody listens.
    Connect(u16),
    /// `httpGet`: whether the answer's code is from 200 to 399.
    Get {
        /// Port.
        port: u16,
        /// With TLS.
        is_https: bool,
        /// Path with its query.
        path: String,
        /// `httpHeaders`.
        headers: Vec<(String, String)>,
    },
    /// A command in the container, gRPC, another host: the kubelet alone asks so.
    OfKubelet,
}

/// The readiness probes of a pod, by name of the container.
#[must_use]
pub fn questions(pod: &Pod) -> BTreeMap<String, Question> {
    let Some(spec) = &pod.spec else { return BTreeMap::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let question = |container: &Container| {
        let question = question(container, container.readiness_probe.as_ref()?).unwrap_or(Question::OfKubelet);
        Some((container.name.clone(), question))
    };
    containers.filter_map(question).collect()
}

fn question(container: &Container, probe: &Probe) -> Option<Question> {
    let port = |port: &IntOrString| match port {
        IntOrString::Int(port) => u16::try_from(*port).ok(),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name))?;
            u16::try_from(named.container_port).ok()
        }
    };
    if let Some(connect) = probe.tcp_socket.as_ref().filter(|connect| connect.host.is_none()) {
        return Some(Question::Connect(port(&connect.port)?));
    }
    let get = probe.http_get.as_ref().filter(|get| get.host.is_none())?;
    let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    Some(Question::Get {
        port: port(&get.port)?,
        is_https: get.scheme.as_deref() == Some("HTTPS"),
        path: get.path.clone().filter(|path| path.starts_with('/')).unwrap_or_else(|| "/".to_owned()),
        headers: headers.collect(),
    })
}

/// Asks the containers of pods that are operated. Dropping it gives up what is under way.
#[derive(Debug, Default)]
pub struct Asking {
    running: Mutex<Running>,
    answered: Arc<Mutex<Vec<(Operation, Timestamp)>>>,
}

#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<()>,
    asked: BTreeMap<Operation, AbortHandle>,
}

/// Id and `granted` of a grant.
type Operation = (String, Timestamp);

/// Who is asked what.
type Asked = BTreeMap<Operation, (IpAddr, Vec<Question>)>;

/// The new containers that listen, and of which the kubelet has not said yet that they are ready.
#[must_use]
pub fn asked(
    steps: &[(&Grant, Decision)],
    pods: &BTreeMap<String, Arc<NodePod>>,
    memories: &BTreeMap<String, Memory>,
) -> Asked {
    let asked = |(grant, decision): &(&Grant, Decision)| {
        let memory = memories.get(&grant.id).filter(|_| decision.phase == Phase::Verifying)?;
        let is_open = memory.listening.is_some() && memory.undone.is_none() && memory.answered.is_none();
        let pod = pods.get(&grant.pod.uid).filter(|_| is_open && memory.ready.is_none())?;
        let questions: Vec<Question> =
            grant.containers.keys().filter_map(|name| pod.readiness.get(name)).cloned().collect();
        let can_be_asked = !questions.is_empty() && !questions.contains(&Question::OfKubelet);
        let address = pod.ips.first().filter(|_| can_be_asked)?;
        Some(((grant.id.clone(), grant.granted.0), (*address, questions)))
    };
    steps.iter().filter_map(asked).collect()
}

impl Asking {
    /// These are asked from now on, and no others.
    pub fn set(&self, wanted: Asked) {
        let mut running = lock(&self.running);
        let Running { tasks, asked } = &mut *running;
        while tasks.try_join_next().is_some() {}
        asked.retain(|operation, task| {
            let is_wanted = wanted.contains_key(operation);
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        for (operation, (address, questions)) in wanted {
            let answered = self.answered.clone();
            asked.entry(operation.clone()).or_insert_with(|| {
                tasks.spawn(async move {
                    for question in &questions {
                        while !timeout(PATIENCE, is_answered(address, question)).await.unwrap_or(false) {
                            sleep(AGAIN).await;
                        }
                    }
                    lock(&answered).push((operation, Timestamp::now()));
                })
            });
        }
    }

    /// Notes who has answered in the memories of the grants, by id.
    pub fn tell(&self, memories: &mut BTreeMap<String, Memory>) {
        for ((grant, granted), at) in std::mem::take(&mut *lock(&self.answered)) {
            if let Some(memory) = memories.get_mut(&grant).filter(|memory| memory.granted == Some(granted)) {
                memory.answered = Some(at);
            }
        }
    }
}

/// Whether the container answers as its probe wants (`pkg/probe/http` of the kubelet: any code from 200 to 399).
async fn is_answered(address: IpAddr, question: &Question) -> bool {
    match question {
        Question::OfKubelet => false,
        Question::Connect(port) => tokio::net::TcpStream::connect((address, *port)).await.is_ok(),
        Question::Get { port, is_https, path, headers } => {
            let address = SocketAddr::new(address, *port);
            let mut request = Request::get(path).header(USER_AGENT, "kube-probe/hitless").header(CONNECTION, "close");
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
                request = request.header(HOST, address.to_string());
            }
            let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            let Ok(request) = request.body(http_client::Body::default()) else { return false };
            let Ok(tls) = is_https.then(|| trusting(address.ip())).transpose() else { return false };
            let answer = http_client::send(&[address], tls, request).await;
            answer.is_ok_and(|answer| (200..400).contains(&answer.status().as_u16()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn of(probe: &Value) -> Option<Question> {
        let container =
            json!({"name": "web", "ports": [{"name": "http", "containerPort": 8080}], "readinessProbe": probe});
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [container]}})).unwrap();
        questions(&pod).remove("web")
    }

    #[test]
    fn it_asks_what_the_kubelet_asks_or_nothing() {
        let get =
            |is_https, path: &str| Question::Get { port: 8080, is_https, path: path.to_owned(), headers: Vec::new() };
        assert_eq!(of(&json!({"httpGet": {"port": "http"}})), Some(get(false, "/")));
        assert_eq!(
            of(&json!({"httpGet": {"port": 8080, "scheme": "HTTPS", "path": "/ready?a"}})),
            Some(get(true, "/ready?a"))
        );
        assert_eq!(of(&json!({"tcpSocket": {"port": "http"}})), Some(Question::Connect(8080)));
        for other in [
            json!({"exec": {"command": ["true"]}}),
            json!({"grpc": {"port": 8080}}),
            json!({"httpGet": {"port": "other"}}),
            json!({"httpGet": {"port": 8080, "host": "example.org"}}),
        ] {
            assert_eq!(of(&other), Some(Question::OfKubelet), "{other}");
        }
        assert_eq!(of(&Value::Null), None, "it has no probe");
    }

    /// A server on loopback that answers with these codes, one after the other, and then with 200.
    async fn server(codes: &'static [u16]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            for code in codes.iter().chain(std::iter::repeat(&200)) {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1024];
                let length = stream.read(&mut head).await.unwrap();
                let is_asked = std::str::from_utf8(&head[..length]).unwrap().starts_with("GET /ready HTTP/1.1\r\n");
                let code = if is_asked { *code } else { 400 };
                stream.write_all(format!("HTTP/1.1 {code} x\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.unwrap();
            }
        });
        port
    }

    fn get(port: u16) -> Question {
        Question::Get {
            port,
            is_https: false,
            path: "/ready".to_owned(),
            headers: vec![("X-A".to_owned(), "b".to_owned())],
        }
    }

    #[tokio::test]
    async fn a_process_that_listens_and_is_not_ready_yet_is_asked_again() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let port = server(&[503, 404, 302]).await;
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(is_answered(loopback, &get(port)).await);
        }
        assert_eq!(answers, [false, false, true]);
        assert!(is_answered(loopback, &Question::Connect(port)).await);

        let (granted, asking) = (Timestamp::UNIX_EPOCH, Asking::default());
        let operation = ("id".to_owned(), granted);
        let wanted: Asked = [(operation, (loopback, vec![get(server(&[503]).await), Question::Connect(port)]))].into();
        let mut memories: BTreeMap<String, Memory> = [("id".to_owned(), Memory::default())].into();
        memories.get_mut("id").unwrap().granted = Some(granted);
        while memories["id"].answered.is_none() {
            asking.set(wanted.clone());
            tokio::task::yield_now().await;
            asking.tell(&mut memories);
        }
    }
}
