//! HAProxy with one backend, clients, and what the tests say.

use std::path::PathBuf;

use hitless_balancer::haproxy::{Endpoint, HaProxy, Keywords};
use hitless_balancer::{
    Evidence, Last, Mark, Observation, PodName, PoolName, Provider, ProviderError, Round, Server, Stand, Wanted,
    Weight, evidence, observe, round,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::pod::Pod;
use crate::process::Process;

/// Enough to reach each of a few servers.
pub(crate) const MANY: usize = 12;

pub(crate) const OUT: Stand = Stand::Out(Last::Keep);
pub(crate) const GONE: Stand = Stand::Gone(Last::Keep);

pub(crate) struct Lab {
    pub(crate) process: Process,
    pub(crate) haproxy: HaProxy,
    pub(crate) pool: PoolName,
}

/// `backend` is the content of the backend `shop`.
pub(crate) fn lab(backend: &str) -> Option<Lab> {
    lab_with(backend, "")
}

pub(crate) fn lab_with(backend: &str, keywords: &str) -> Option<Lab> {
    let configuration = format!(
        "global\n  stats socket unix@DIR/admin.sock level admin\n  stats socket unix@DIR/user.sock level user\n\
         defaults\n  mode http\n  timeout connect 10s\n  timeout client 1m\n  timeout server 1m\n  timeout queue 10s\n\
         frontend web\n  bind unix@DIR/web.sock\n  default_backend shop\n\
         backend shop\n{backend}\n"
    );
    let process = Process::start(&configuration)?;
    let endpoint = Endpoint::Unix(process.path("admin.sock"));
    let haproxy = HaProxy::new(endpoint, Mark::new("hitless").unwrap(), Keywords::new(keywords).unwrap());
    Some(Lab { process, haproxy, pool: PoolName::new("shop").unwrap() })
}

impl Lab {
    pub(crate) async fn read(&self) -> Result<Vec<Server>, ProviderError> {
        self.haproxy.read(&self.pool).await
    }

    pub(crate) async fn observe(&self) -> Observation {
        observe(&self.haproxy, &self.pool).await
    }

    pub(crate) async fn evidence(&self, pod: &Pod) -> Evidence {
        proof(pod, &self.observe().await)
    }

    pub(crate) async fn round(&self, wanted: &[Wanted]) -> Round {
        round(&self.haproxy, &self.pool, wanted).await
    }

    /// Rounds until none has anything to do. All of their steps succeed.
    pub(crate) async fn settle(&self, wanted: &[Wanted]) -> Round {
        loop {
            let round = self.round(wanted).await;
            assert!(round.failed.is_empty(), "{:?}", round.failed);
            if round.plan.steps.is_empty() {
                return round;
            }
        }
    }

    /// Rounds until there is this evidence for a pod. HAProxy tells nobody when a session ends, so it is asked again and again.
    pub(crate) async fn until(&self, wanted: &[Wanted], pod: &Pod, expected: Evidence) {
        patiently(async { while proof(pod, &self.round(wanted).await.observation) != expected {} }).await;
    }

    /// What an administrator types. Returns what HAProxy says.
    pub(crate) async fn type_in(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.process.path("admin.sock")).await.unwrap();
        stream.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Whose server has answered each of many requests, each on a connection of its own.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let mut answers = Vec::new();
        for _ in 0..MANY {
            answers.push(self.request("/").await.end().await);
        }
        answers
    }

    pub(crate) async fn request(&self, path: &str) -> Request {
        let mut stream = UnixStream::connect(self.web()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Request { stream: BufReader::new(stream) }
    }

    fn web(&self) -> PathBuf {
        self.process.path("web.sock")
    }

    pub(crate) fn user_socket(&self) -> HaProxy {
        let endpoint = Endpoint::Unix(self.process.path("user.sock"));
        HaProxy::new(endpoint, Mark::new("hitless").unwrap(), Keywords::default())
    }
}

/// Waits for something that comes by itself; a test that waits for ever would say nothing.
pub(crate) async fn patiently<T>(wait: impl Future<Output = T>) -> T {
    let patience = std::time::Duration::from_mins(1);
    tokio::time::timeout(patience, wait).await.expect("what the test waits for does not come")
}

pub(crate) fn proof(pod: &Pod, observation: &Observation) -> Evidence {
    evidence(pod.address, observation, std::time::Instant::now())
}

pub(crate) fn wanted(pod: &Pod, stand: Stand) -> Wanted {
    let name = PodName { namespace: "shop".into(), name: format!("web-{}", pod.address.port()) };
    Wanted { pod: name, address: pod.address, weight: Weight::ONE, stand }
}

/// A request that is under way.
pub(crate) struct Request {
    stream: BufReader<UnixStream>,
}

impl Request {
    /// Waits for the head of the answer: a server has the request.
    pub(crate) async fn begun(mut self) -> Self {
        let mut status = String::new();
        self.stream.read_line(&mut status).await.unwrap();
        assert!(status.contains(" 200 "), "{status:?}");
        self
    }

    /// The last line of the whole answer: the address of who gave it, or HAProxy's own words.
    pub(crate) async fn end(mut self) -> String {
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).await.unwrap();
        answer.trim_end().lines().next_back().unwrap_or_default().to_owned()
    }
}
