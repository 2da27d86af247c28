//! An application on the cluster: a namespace, a workload of the reference server and a Service.

mod images;
mod looks;
mod manifest;
mod shape;
mod waits;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hitless_cluster::Cluster;
use serde_json::{Value, json};

pub use looks::{all_ready, condition, container_ids, image_of, is_closed, is_held, is_opened, is_ready, restarts};
use manifest::{HEADLESS, service};
pub use manifest::{manifest, readiness_probe};
pub use shape::{LONGEST_HOLD, Shape, Workload};

use crate::stack::TIMES;
use crate::watch::Objects;
use crate::{Kubectl, Watch, namespace};

/// Longest wait for something that normally takes seconds; machines are busy.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The same for something that so many pods do one after the other.
#[must_use]
pub fn patience_for(pods: usize) -> Duration {
    PATIENCE + Duration::from_secs(10) * u32::try_from(pods).unwrap_or(u32::MAX)
}

/// Label selector of pods that hitless has made to bring images to nodes. They serve nobody.
pub const PREFETCH: &str = hitless_api::names::PREFETCH_PODS;
/// Label selector of companion pods.
pub const COMPANIONS: &str = "hitless.dev/companion";
/// Label selector of all other pods: those of the application.
pub const OWN: &str = "!hitless.dev/prefetch,!hitless.dev/companion";

/// A running application; its namespace is deleted when dropped, unless it is kept.
pub struct App {
    /// kubectl in the application's namespace.
    pub kubectl: Kubectl,
    /// Its pods, live. Those that bring images are left out.
    pub pods: Watch,
    /// The workload, live.
    pub workloads: Watch,
    /// Its kind.
    pub workload: Workload,
    /// Address of the Service.
    pub address: SocketAddr,
    repository: String,
    kept: bool,
    started: Instant,
}

/// Who a pod is: what must stay the same when it is upgraded in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.podIP`.
    pub ip: String,
}

impl App {
    /// Makes namespace `namespace` with workload `web` and Service `web` and waits until all pods are ready.
    pub fn start(cluster: &Arc<Cluster>, namespace: &str, shape: &Shape) -> anyhow::Result<Self> {
        Self::start_by(Kubectl::new(Arc::clone(cluster), namespace), shape)
    }

    /// The same in the namespace of that kubectl.
    pub fn start_by(kubectl: Kubectl, shape: &Shape) -> anyhow::Result<Self> {
        let app = Self::create_by(kubectl, shape)?;
        if app.kubectl.cluster().is_none() {
            app.wait_pulled(shape.replicas as usize)?;
        }
        app.wait_serving(shape.replicas as usize)?;
        Ok(app)
    }

    /// The same without waiting.
    pub fn create(cluster: &Arc<Cluster>, namespace: &str, shape: &Shape) -> anyhow::Result<Self> {
        Self::create_by(Kubectl::new(Arc::clone(cluster), namespace), shape)
    }

    fn create_by(kubectl: Kubectl, shape: &Shape) -> anyhow::Result<Self> {
        let mut labels = if shape.gate { json!({"hitless.dev/gate": "enabled"}) } else { json!({}) };
        if let Some(update) = shape.update.filter(|_| shape.by_namespace) {
            labels = json!({"hitless.dev/update": update});
        }
        namespace::apply(&kubectl, &labels)?;
        kubectl.feed(&["apply"], &service("web", &json!({})))?;
        if shape.workload == Workload::StatefulSet {
            kubectl.feed(&["apply"], &service(HEADLESS, &json!({"clusterIP": "None"})))?;
        }
        kubectl.feed(&["apply"], &manifest(shape))?;
        let service = kubectl.get(&["service", "web"])?;
        let ip = service["spec"]["clusterIP"].as_str().context("the Service has no clusterIP")?;
        let ip: IpAddr = ip.parse().context("clusterIP")?;
        Ok(Self {
            pods: Watch::start(&kubectl, &["pods", "-l", OWN])?,
            workloads: Watch::start(&kubectl, &[shape.workload.web().trim_end_matches("/web")])?,
            workload: shape.workload,
            address: SocketAddr::new(ip, 80),
            kubectl,
            repository: format!("{}/{}", shape.registry, shape.repository),
            kept: false,
            started: Instant::now(),
        })
    }

    /// The image of that version of its server.
    #[must_use]
    pub fn image(&self, version: &str) -> String {
        format!("{}:{version}", self.repository)
    }

    /// Leaves the namespace there when this is dropped.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// `kubectl set image <workload> web=<its server of that version>`.
    pub fn set_version(&self, version: &str) -> anyhow::Result<()> {
        if !self.workload.is_of_kubernetes() {
            let path = "/spec/template/spec/containers/0/image";
            let change = json!([{"op": "replace", "path": path, "value": self.image(version)}]);
            return self
                .kubectl
                .run(&["patch", self.workload.web(), "--type=json", "-p", &change.to_string()])
                .map(drop);
        }
        self.kubectl.run(&["set", "image", self.workload.web(), &format!("web={}", self.image(version))]).map(drop)
    }

    /// The pods as the API server has them now. What somebody else has told of has happened there already, and our own watch may
    /// be behind.
    pub fn pods_now(&self) -> anyhow::Result<Objects> {
        let pods = self.kubectl.list(&["pods", "-l", OWN])?;
        Ok(pods.into_iter().filter_map(|pod| Some((pod["metadata"]["name"].as_str()?.to_owned(), pod))).collect())
    }

    /// The pods that are there and not being deleted, sorted by name.
    #[must_use]
    pub fn identities(&self) -> Vec<Identity> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pods = self.pods.objects();
        let alive = pods.values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        alive
            .map(|pod| Identity {
                name: text(&pod["metadata"]["name"]),
                uid: text(&pod["metadata"]["uid"]),
                ip: text(&pod["status"]["podIP"]),
            })
            .collect()
    }

    /// Waits until none of these pods is left, but for such that are being deleted. `kubectl rollout status` may say that it
    /// is so before our own watch does.
    pub fn wait_replaced(&self, before: &[Identity]) -> anyhow::Result<()> {
        let is_left = |pod: &Value| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && before.iter().any(|before| pod["metadata"]["uid"].as_str() == Some(&before.uid))
        };
        self.pods.wait("no old pod", PATIENCE, |pods| (!pods.values().any(is_left)).then_some(()))
    }

    /// ReplicaSets that have, or want to have, pods.
    pub fn live_replica_sets(&self) -> anyhow::Result<Vec<Value>> {
        let all = self.kubectl.list(&["replicasets"])?;
        Ok(all
            .into_iter()
            .filter(|rs| rs["spec"]["replicas"] != 0 || rs["status"]["replicas"].as_i64().unwrap_or(0) > 0)
            .collect())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // A test that failed has said so already; the namespace of one that is left over goes with the cluster.
        if !self.kept {
            let _ = self.kubectl.run(&["delete", "namespace", self.kubectl.namespace(), "--wait=false"]);
        }
        // The test runner does not tell how long a test took, and people want to know.
        let (Some(path), Some(test)) = (std::env::var_os(TIMES), std::thread::current().name().map(str::to_owned))
        else {
            return;
        };
        let line = format!("{:6.1} s  {test}\n", self.started.elapsed().as_secs_f64());
        // A time that can't be written is no reason to fail a test.
        let _ = OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
