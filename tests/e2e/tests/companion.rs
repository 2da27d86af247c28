//! A companion pod: a workload with a single pod loses nothing for a version that does not run, nor for one that starts slowly.

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{COMPANIONS, Identity, PATIENCE, Shape};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Departures, Stack, Traffic};
use serde_json::json;

/// An application of one pod under load, modes as they come.
struct Scene {
    stack: Stack,
    app: App,
    before: Vec<Identity>,
    repository: String,
    departures: Departures,
    traffic: Traffic,
}

impl Scene {
    /// Namespace `t-companion-<name>`.
    fn start(name: &str, shape: Shape) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let repository = format!("companion/{name}");
        stack.push_echo(&repository, "v1", &[], None)?;
        let shape = Shape { mode: None, replicas: 1, repository: repository.clone(), ..shape };
        let app = App::start(&stack.cluster, &format!("t-companion-{name}"), &shape)?;
        let departures = Departures::start(&app, 1)?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(Self { before: app.identities(), stack, app, repository, departures, traffic })
    }

    fn companions(&self) -> anyhow::Result<Vec<String>> {
        let names =
            self.app.kubectl.run(&["get", "pods", "-l", COMPANIONS, "-o", "jsonpath={.items[*].metadata.name}"])?;
        Ok(names.split_whitespace().map(ToOwned::to_owned).collect())
    }

    /// The same pod runs that version, no request has failed, and no companion is left.
    fn finish(self, version: &str) -> anyhow::Result<()> {
        self.app.wait_version(version, 1)?;
        self.app.wait_unheld()?;
        self.app.rollout_status()?;
        self.app.kubectl.run(&["wait", "pods", "-l", COMPANIONS, "--for=delete", "--timeout=120s"])?;
        ensure!(self.companions()?.is_empty(), "companions are left: {:?}", self.companions());
        self.traffic.wait_for_more(200, PATIENCE)?;
        let report = self.traffic.stop()?;
        println!("{}", serde_json::to_string(&report)?);
        ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
        ensure!(self.app.identities() == self.before, "the pod was replaced: {:?}", self.before);
        Ok(())
    }
}

/// A version of the application's own repository that no node has, with this environment.
fn push(scene: &Scene, name: &str, environment: &[(&str, &str)]) -> anyhow::Result<String> {
    let version = format!("{name}-{}", jiff::Timestamp::now().as_millisecond());
    scene.stack.push_echo(&scene.repository, &version, environment, None)?;
    Ok(version)
}

#[test]
fn a_version_that_crashes_is_found_in_the_companion_and_a_good_one_heals_it() -> anyhow::Result<()> {
    let scene = Scene::start("crash", Shape::default())?;
    let bad = push(&scene, "crash", &[("FAIL", "exit")])?;
    scene.app.set_version(&bad)?;
    let words = "Error with exit code 1";
    println!("{}", scene.app.wait_event_saying("RolloutBlocked", words)?);
    let pod = scene.before.first().context("no pod")?;
    let why = scene.stack.hitless_output(&scene.app, &["why", &format!("pod/{}", pod.name)])?;
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    ensure!(why.contains(words), "`why` does not say {words:?}:\n{why}");
    scene.departures.ensure_none()?;
    let good = push(&scene, "good", &[])?;
    scene.app.set_version(&good)?;
    scene.finish(&good)
}

#[test]
fn a_companion_serves_while_the_only_pod_starts_slowly_and_a_killed_leader_changes_nothing() -> anyhow::Result<()> {
    let scene = Scene::start("slow", Shape::default())?;
    let slow = push(&scene, "slow", &[("START_DELAY", "6000")])?;
    let sets = scene.app.kubectl.run(&["get", "rs", "-o", "jsonpath={.items[*].status.replicas}"])?;
    scene.app.set_version(&slow)?;
    let serves = format!("--for=condition={}=True", "hitless.dev/InService");
    scene.app.kubectl.run(&["wait", "pods", "-l", COMPANIONS, "--for=create", "--timeout=120s"])?;
    scene.app.kubectl.run(&["wait", "pods", "-l", COMPANIONS, &serves, "--timeout=120s"])?;
    let now = scene.app.kubectl.run(&["get", "rs", "-o", "jsonpath={.items[*].status.replicas}"])?;
    ensure!(now.contains('1') && !now.contains('2'), "a ReplicaSet has adopted it: {sets} {now}");
    scene.stack.kill_leader()?;
    scene.app.wait_version(&slow, 1)?;
    ensure!(scene.departures.left().len() == 1, "the pod was to leave: {:?}", scene.departures.left());
    scene.finish(&slow)
}

#[test]
fn a_version_that_starts_at_once_is_tried_and_the_pod_is_held() -> anyhow::Result<()> {
    let scene = Scene::start("short", Shape::default())?;
    let good = push(&scene, "good", &[])?;
    scene.app.set_version(&good)?;
    scene.app.wait_version(&good, 1)?;
    scene.departures.ensure_none()?;
    let tried = scene.app.kubectl.run(&[
        "get",
        "deployment/web",
        "-o",
        r"jsonpath={.metadata.annotations.hitless\.dev/tried}",
    ])?;
    ensure!(tried.contains(r#""outcome":"Good""#), "{tried}");
    scene.finish(&good)
}

#[test]
fn where_the_owner_lets_no_pod_run_beside_its_own_there_is_no_companion() -> anyhow::Result<()> {
    let patch = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let scene = Scene::start("recreate", Shape { patch, ..Shape::default() })?;
    let good = push(&scene, "good", &[])?;
    scene.app.set_version(&good)?;
    scene.app.wait_version(&good, 1)?;
    let made = scene.app.kubectl.run(&["get", "events", "--field-selector", "reason=Scheduled", "-o", "name"])?;
    ensure!(!made.contains("companion"), "{made}");
    scene.finish(&good)
}
