//! An application on the cluster: a namespace, a workload of the reference server and a Service.

mod images;
mod manifest;
mod objects;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hitless_cluster::{Cluster, Place};
use serde_json::{Value, json};

pub use manifest::manifest;
use manifest::{HEADLESS, service};
pub use objects::{all_ready, condition, image_of, is_closed, is_held, is_opened, is_ready};

use crate::stack::{REGISTRY, TIMES};
use crate::{Kubectl, Watch};

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

/// Kind of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Deployment.
    Deployment,
    /// StatefulSet, with a headless Service of its own.
    StatefulSet,
    /// DaemonSet.
    DaemonSet,
    /// CollaSet, which `kubectl set image` and `rollout` do not know.
    CollaSet,
}

impl Workload {
    /// `apiVersion` of such an object.
    fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::CollaSet => "apps.kusionstack.io/v1alpha1",
        }
    }

    /// How `kubectl` is told which one is meant.
    #[must_use]
    pub fn web(self) -> &'static str {
        match self {
            Self::Deployment => "deployment/web",
            Self::StatefulSet => "statefulset/web",
            Self::DaemonSet => "daemonset/web",
            Self::CollaSet => "collaset/web",
        }
    }
}

/// What the workload looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its kind.
    pub workload: Workload,
    /// Replicas; of a DaemonSet the number of nodes, which is what is waited for.
    pub replicas: u32,
    /// The registry of its image, and whatever else is before its name.
    pub registry: String,
    /// Which server: the name of its image, without registry and tag. The reference server's is `echo`.
    pub repository: String,
    /// Its version.
    pub version: &'static str,
    /// Annotation `hitless.dev/update`, if any.
    pub update: Option<&'static str>,
    /// Annotation `hitless.dev/mode` of the pods, if any. Most tests look at pods that are out of service.
    pub mode: Option<&'static str>,
    /// Whether the pods get the readiness gate (label on the namespace).
    pub gate: bool,
    /// Merged into the workload's JSON.
    pub patch: Value,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            workload: Workload::Deployment,
            replicas: 3,
            registry: REGISTRY.to_owned(),
            repository: "echo".to_owned(),
            version: "v1",
            update: Some("in-place"),
            mode: Some("Leave"),
            gate: true,
            patch: Value::Null,
        }
    }
}

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
        let labels = if shape.gate { json!({"hitless.dev/gate": "enabled"}) } else { json!({}) };
        kubectl.feed(
            &["apply"],
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kubectl.namespace(), "labels": labels}}),
        )?;
        kubectl.feed(&["apply"], &service("web", &json!({})))?;
        if shape.workload == Workload::StatefulSet {
            kubectl.feed(&["apply"], &service(HEADLESS, &json!({"clusterIP": "None"})))?;
        }
        kubectl.feed(&["apply"], &manifest(shape))?;
        let service = kubectl.get(&["service", "web"])?;
        let ip = service["spec"]["clusterIP"].as_str().context("the Service has no clusterIP")?;
        Ok(Self {
            pods: Watch::start(&kubectl, &["pods", "-l", OWN])?,
            workloads: Watch::start(&kubectl, &[shape.workload.web().trim_end_matches("/web")])?,
            workload: shape.workload,
            address: format!("{ip}:80").parse().context("clusterIP")?,
            kubectl,
            repository: format!("{}/{}", shape.registry, shape.repository),
            kept: false,
            started: Instant::now(),
        })
    }

    /// Waits until exactly `count` pods are there and ready, and the Service answers.
    pub fn wait_serving(&self, count: usize) -> anyhow::Result<()> {
        self.wait_ready(count)?;
        self.wait_answering()
    }

    /// Waits until exactly `count` pods are there and ready.
    pub fn wait_ready(&self, count: usize) -> anyhow::Result<()> {
        self.pods.wait(&format!("{count} ready pods"), patience_for(count), |pods| all_ready(pods, count).then_some(()))
    }

    /// Waits until the Service answers on every node, for load may come from any: each node's kube-proxy follows the pods
    /// a little later and on its own, and nothing but trying tells when.
    fn wait_answering(&self) -> anyhow::Result<()> {
        self.wait_answering_at(self.address)
    }

    /// The same for another Service of these pods. On a cluster that is not of this repository nobody here can try: there the load
    /// client does, before it counts.
    pub fn wait_answering_at(&self, address: SocketAddr) -> anyhow::Result<()> {
        let Some(cluster) = self.kubectl.cluster() else { return Ok(()) };
        let connects = move || TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        let begin = Instant::now();
        for (node, name) in (1..).zip(cluster.node_names()) {
            while !cluster.in_network(Place::Node(node), connects)? {
                let waited = begin.elapsed();
                anyhow::ensure!(
                    waited < PATIENCE,
                    "on node {name} the Service did not answer at {address} in {waited:?}"
                );
                self.pods.next_change(Duration::from_millis(50));
            }
        }
        Ok(())
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
        if self.workload == Workload::CollaSet {
            let path = "/spec/template/spec/containers/0/image";
            let change = json!([{"op": "replace", "path": path, "value": self.image(version)}]);
            return self.kubectl.run(&["patch", "collaset", "web", "--type=json", "-p", &change.to_string()]).map(drop);
        }
        self.kubectl.run(&["set", "image", self.workload.web(), &format!("web={}", self.image(version))]).map(drop)
    }

    /// `kubectl rollout status <workload>`: blocks until it says done. It refuses a strategy `OnDelete`, so the hold of a
    /// StatefulSet or DaemonSet must have ended; that is waited for.
    pub fn rollout_status(&self) -> anyhow::Result<String> {
        if self.workload != Workload::Deployment {
            self.wait_unheld()?;
        }
        self.kubectl.run(&["rollout", "status", self.workload.web(), &format!("--timeout={}s", PATIENCE.as_secs())])
    }

    /// Waits until the workload is neither held nor paused and its newest spec was seen.
    pub fn wait_unheld(&self) -> anyhow::Result<Value> {
        self.workloads.wait("the workload to be lifted", PATIENCE, |workloads| {
            let web = workloads.get("web")?;
            let idle = !is_held(web)
                && web["spec"]["paused"] != true
                && web["status"]["observedGeneration"] == web["metadata"]["generation"];
            idle.then(|| web.clone())
        })
    }

    /// Waits until the workload is held.
    pub fn wait_held(&self) -> anyhow::Result<()> {
        self.workloads.wait("the workload to be held", PATIENCE, |all| is_held(all.get("web")?).then_some(()))
    }

    /// Waits until `count` pods have the image of `version`, and returns their names in the order in which they got it. All that
    /// while at most one pod may be away.
    pub fn wait_one_by_one(&self, version: &str, count: usize) -> anyhow::Result<Vec<String>> {
        let (image, begin) = (self.image(version), Instant::now());
        let mut order: Vec<String> = Vec::new();
        while order.len() < count {
            anyhow::ensure!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} for {count} pods, got {order:?}");
            self.pods.next_change(Duration::from_millis(250));
            let pods = self.pods.objects();
            let away: Vec<&String> = pods.iter().filter(|(_, pod)| !is_ready(pod)).map(|(name, _)| name).collect();
            anyhow::ensure!(away.len() <= 1, "these pods are away at the same time: {away:?}");
            let updated = pods.iter().filter(|(_, pod)| image_of(pod) == image).map(|(name, _)| name);
            let new: Vec<String> = updated.filter(|name| !order.contains(name)).cloned().collect();
            order.extend(new);
        }
        Ok(order)
    }

    /// Waits until at least `count` pods run `version` and are ready.
    pub fn wait_version(&self, version: &str, count: usize) -> anyhow::Result<()> {
        let image = self.image(version);
        self.pods.wait(&format!("{count} ready pods of {version}"), PATIENCE, |pods| {
            let updated = pods.values().filter(|pod| image_of(pod) == image && is_ready(pod)).count();
            (updated >= count).then_some(())
        })
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

    /// ReplicaSets that have, or wish to have, pods.
    pub fn live_replica_sets(&self) -> anyhow::Result<Vec<Value>> {
        let all = self.kubectl.list(&["replicasets"])?;
        Ok(all
            .into_iter()
            .filter(|rs| rs["spec"]["replicas"] != 0 || rs["status"]["replicas"].as_i64().unwrap_or(0) > 0)
            .collect())
    }

    /// Waits for an Event on anything in the namespace whose reason is `reason`, and returns its note.
    pub fn wait_event(&self, reason: &str) -> anyhow::Result<String> {
        self.wait_event_saying(reason, "")
    }

    /// The same for an Event whose note contains `words`. Those that say something else are passed over.
    pub fn wait_event_saying(&self, reason: &str, words: &str) -> anyhow::Result<String> {
        let events = Watch::start(&self.kubectl, &["events.events.k8s.io"])?;
        events.wait(&format!("an Event {reason} that says {words:?}"), PATIENCE, |events| {
            let mut notes =
                events.values().filter(|event| event["reason"] == reason).filter_map(|event| event["note"].as_str());
            notes.find(|note| note.contains(words)).map(str::to_owned)
        })
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
