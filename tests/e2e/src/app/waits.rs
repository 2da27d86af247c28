//! Waits for an application: for its pods, its Service, its rollout, and for Events.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hitless_cluster::Place;
use serde_json::Value;

use super::{App, PATIENCE, Workload, all_ready, image_of, is_held, is_ready, patience_for};
use crate::Watch;

impl App {
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
