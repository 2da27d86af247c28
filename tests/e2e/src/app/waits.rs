//! Waits for an application: for its pods, its Service, its rollout, and for Events.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context as _;
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
        if !self.workload.is_of_kubernetes() {
            return self.wait_reported();
        }
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        self.kubectl.run(&["rollout", "status", self.workload.web(), &timeout]).with_context(|| {
            let text = |objects| serde_json::to_string(&objects).unwrap_or_default();
            let (workloads, pods) = (text(self.workloads.objects()), text(self.pods.objects()));
            format!("{workloads}\npods: {pods}\nEvents: {:#?}", self.told().unwrap_or_default())
        })
    }

    /// Waits until the status of a kind that `kubectl rollout` does not know says that all pods are updated and Ready, and returns the status.
    fn wait_reported(&self) -> anyhow::Result<String> {
        self.workloads.wait("the rollout to be reported", PATIENCE, |all| {
            let web = all.get("web")?;
            let (status, wanted) = (&web["status"], &web["spec"]["replicas"]);
            let is_seen = status["observedGeneration"] == web["metadata"]["generation"];
            let is_done = status["updatedReadyReplicas"] == *wanted && status["replicas"] == *wanted;
            (is_seen && is_done).then(|| status.to_string())
        })
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

    /// Applies a PodTransitionRule and waits until the controller has seen it, as its status tells. The controller has a watch for each
    /// kind of object, so it may see a change of a workload that was made later before that.
    pub fn apply_rule(&self, rule: &Value) -> anyhow::Result<()> {
        self.kubectl.feed(&["apply"], rule)?;
        let name = rule["metadata"]["name"].as_str().context("a rule without a name")?;
        let rules = Watch::start(&self.kubectl, &["podtransitionrules"])?;
        rules.wait(&format!("the controller to see rule {name}"), PATIENCE, |rules| {
            let rule = rules.get(name)?;
            (rule["status"]["observedGeneration"] == rule["metadata"]["generation"]).then_some(())
        })
    }

    /// Waits until nothing is left on the workload of a version that was judged bad.
    pub fn wait_not_halted(&self) -> anyhow::Result<()> {
        self.workloads.wait("no mark of a bad version", PATIENCE, |all| {
            all.get("web")?["metadata"]["annotations"]["hitless.dev/halted"].is_null().then_some(())
        })
    }

    /// Waits until the workload is held. [`App::roll`] also sees a hold that is over soon.
    pub fn wait_held(&self) -> anyhow::Result<()> {
        self.workloads.wait("the workload to be held", PATIENCE, |all| is_held(all.get("web")?).then_some(()))
    }

    /// Makes a change that holds the workload, and waits until it is held, let go again and done. Held it is seen to be however short
    /// that is.
    pub fn roll(&self, change: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut workloads = self.workloads.follow();
        change()?;
        workloads.wait("the workload to be held", PATIENCE, |all| is_held(all.get("web")?).then_some(()))?;
        self.wait_unheld()?;
        self.rollout_status().map(drop)
    }

    /// Makes a change that brings `count` pods to the image of `version`, waits for that, and returns their names in the order in
    /// which they got it. All that while at most one pod may be away.
    pub fn roll_one_by_one(
        &self,
        version: &str,
        count: usize,
        change: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        let (image, mut pods) = (self.image(version), self.pods.follow());
        change()?;
        let mut order: Vec<String> = Vec::new();
        pods.wait(&format!("{count} pods of {version}, one by one"), PATIENCE, |pods| {
            let away: Vec<String> =
                pods.iter().filter(|(_, pod)| !is_ready(pod)).map(|(name, _)| name.clone()).collect();
            if away.len() > 1 {
                return Some(Err(anyhow::anyhow!("these pods are away at the same time: {away:?}")));
            }
            let updated = pods.iter().filter(|(_, pod)| image_of(pod) == image).map(|(name, _)| name);
            let new: Vec<String> = updated.filter(|name| !order.contains(name)).cloned().collect();
            order.extend(new);
            (order.len() >= count).then(|| Ok(order.clone()))
        })?
    }

    /// Waits until at least `count` pods run `version` and are ready.
    pub fn wait_version(&self, version: &str, count: usize) -> anyhow::Result<()> {
        let image = self.image(version);
        self.pods.wait(&format!("{count} ready pods of {version}"), PATIENCE, |pods| {
            let updated = pods.values().filter(|pod| image_of(pod) == image && is_ready(pod)).count();
            (updated >= count).then_some(())
        })
    }

    /// What was told of the application's pods, in order, for the message of a test that failed: whether the kubelet found them unhealthy, for
    /// instance.
    pub fn told(&self) -> anyhow::Result<Vec<String>> {
        let events = self.kubectl.run(&[
            "get",
            "events",
            "--no-headers",
            "--output=wide",
            "--sort-by=.metadata.creationTimestamp",
        ])?;
        Ok(events.lines().map(str::to_owned).collect())
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
