//! An application under load in a repository of its own, whose versions are on no node before they are rolled out.

use anyhow::{Context as _, ensure};
use hitless_cluster::image::Ballast;

use crate::app::{App, COMPANIONS, Identity, PATIENCE, Shape};
use crate::departures::Departures;
use crate::stack::Stack;
use crate::traffic::{Rate, Traffic};

/// The application, its load, and how its pods were when it began.
pub struct Scene {
    /// Where it runs.
    pub stack: Stack,
    /// The application.
    pub app: App,
    /// Its pods at the start.
    pub before: Vec<Identity>,
    /// Where its images are.
    pub repository: String,
    /// Pods that have left service since.
    pub departures: Departures,
    /// Load since the start.
    pub traffic: Traffic,
}

impl Scene {
    /// Namespace `t-<suite>-<name>`, modes as they come.
    pub fn start(suite: &str, name: &str, shape: Shape) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let repository = format!("{suite}/{name}");
        stack.push_echo(&repository, "v1", &[], None)?;
        let shape = Shape { mode: None, repository: repository.clone(), ..shape }.parking();
        let app = App::start(&stack.cluster, &format!("t-{suite}-{name}"), &shape)?;
        let departures = Departures::start(&app, shape.replicas as usize)?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(Self { before: app.identities(), stack, app, repository, departures, traffic })
    }

    /// Pushes a version that no node has, also if the cluster is kept from test to test. Its name, which begins with `name`.
    pub fn push(&self, name: &str, environment: &[(&str, &str)], ballast: Option<usize>) -> anyhow::Result<String> {
        let now = jiff::Timestamp::now().as_millisecond();
        let seed = u64::try_from(now)?;
        let version = format!("{name}-{now}");
        let ballast = ballast.map(|bytes| Ballast { bytes, seed });
        self.stack.push_echo(&self.repository, &version, environment, ballast)?;
        Ok(version)
    }

    /// Names of the companion pods that are there.
    pub fn companions(&self) -> anyhow::Result<Vec<String>> {
        let names =
            self.app.kubectl.run(&["get", "pods", "-l", COMPANIONS, "-o", "jsonpath={.items[*].metadata.name}"])?;
        Ok(names.split_whitespace().map(ToOwned::to_owned).collect())
    }

    /// The rollout waits with these words on the workload and in `why`, and nothing has left service for it.
    pub fn ensure_blocked(&self, words: &str) -> anyhow::Result<()> {
        let note = self.app.wait_event_saying("RolloutBlocked", words)?;
        println!("RolloutBlocked: {note}");
        let pod = self.before.first().context("no pod")?;
        // What does not run is tried again, and what can't be fetched, too: in between there are no words of it.
        self.stack.wait_says(&self.app, &["why", &format!("pod/{}", pod.name)], &[words])?;
        self.ensure_untouched()
    }

    /// The same pods serve the same version, and none has left service meanwhile.
    pub fn ensure_untouched(&self) -> anyhow::Result<()> {
        self.departures.ensure_none()?;
        ensure!(self.app.identities() == self.before, "other pods: {:?} {:?}", self.before, self.app.identities());
        let failed = self.traffic.report().failed();
        ensure!(failed == 0, "{failed} requests failed");
        Ok(())
    }

    /// The rollout ends on that version: the same pods, no request failed, and no pod is left that brought the image or tried it.
    pub fn finish(self, version: &str) -> anyhow::Result<()> {
        self.app.wait_version(version, self.before.len())?;
        self.app.wait_unheld()?;
        self.app.rollout_status()?;
        self.app.kubectl.run(&["wait", "pods", "-l", COMPANIONS, "--for=delete", "--timeout=120s"])?;
        ensure!(self.companions()?.is_empty(), "companions are left: {:?}", self.companions());
        self.traffic.wait_for_more(200, PATIENCE)?;
        let report = self.traffic.stop()?;
        println!("{}", serde_json::to_string(&report)?);
        ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
        ensure!(report.versions.contains_key(version), "answers came from {:?}", report.versions);
        ensure!(self.app.identities() == self.before, "pods were replaced: {:?}", self.before);
        self.app.wait_no_prefetch()
    }
}
