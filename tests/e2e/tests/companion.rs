//! A companion pod: a workload with a single pod loses nothing for a version that does not run, nor for one that starts slowly.

use anyhow::ensure;
use hitless_e2e::app::{COMPANIONS, Shape};
use hitless_e2e::{App, Scene, Stack};
use serde_json::json;

/// Of one pod, in namespace `t-companion-<name>`.
fn start(name: &str, shape: Shape) -> anyhow::Result<Scene> {
    Scene::start("companion", name, Shape { replicas: 1, ..shape })
}

#[test]
fn a_version_that_crashes_is_found_in_the_companion_and_a_good_one_heals_it() -> anyhow::Result<()> {
    let scene = start("crash", Shape::default())?;
    let bad = scene.push("crash", &[("FAIL", "exit")], None)?;
    scene.app.set_version(&bad)?;
    scene.ensure_blocked("Error with exit code 1")?;
    let good = scene.push("good", &[], None)?;
    scene.app.set_version(&good)?;
    scene.finish(&good)
}

#[test]
fn a_companion_serves_while_the_only_pod_starts_slowly_and_a_killed_leader_changes_nothing() -> anyhow::Result<()> {
    let scene = start("slow", Shape::default())?;
    let slow = scene.push("slow", &[("START_DELAY", "6000")], None)?;
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

/// A companion shows how quickly a version starts, and not how long its predecessor takes to stop: it closes its listener at once, and
/// stays as long as a request is in flight.
#[test]
fn a_companion_serves_although_the_version_starts_at_once() -> anyhow::Result<()> {
    let scene = start("short", Shape { mode: None, ..Shape::default() })?;
    let good = scene.push("good", &[], None)?;
    scene.app.set_version(&good)?;
    scene.app.wait_version(&good, 1)?;
    ensure!(scene.departures.left().len() == 1, "the pod was to leave: {:?}", scene.departures.left());
    scene.finish(&good)
}

#[test]
fn where_a_disruption_budget_lets_no_pod_go_a_companion_serves_until_all_have_the_version() -> anyhow::Result<()> {
    let scene = Scene::start("companion", "budget", Shape { replicas: 2, ..Shape::default() })?;
    scene.app.kubectl.run(&["create", "poddisruptionbudget", "web", "--selector=app=web", "--max-unavailable=0"])?;
    let good = scene.push("good", &[], None)?;
    scene.app.set_version(&good)?;
    scene.app.wait_version(&good, 2)?;
    let made = scene.app.kubectl.run(&["get", "events", "--field-selector", "reason=Scheduled", "-o", "name"])?;
    ensure!(made.contains("companion"), "{made}");
    scene.finish(&good)
}

/// Without a companion a new pod that serves first costs a single pod's clients less than a Hold of nobody knows how long.
#[test]
fn where_no_companion_may_serve_a_single_pod_goes_natively_and_in_place_only_waits_for_a_wish() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let patch = json!({"metadata": {"annotations": {"hitless.dev/companion": "Never"}}});
    let shape = Shape { replicas: 1, mode: None, update: Some("in-place-only"), patch, ..Shape::default() };
    let app = App::start(&stack.cluster, "t-companion-never", &shape)?;
    let before = app.identities();
    app.set_version("v2")?;
    let waited = stack.hitless_output(&app, &["wait", "deployment/web", "--timeout", "60s"])?;
    let words = String::from_utf8_lossy(&[waited.stdout, waited.stderr].concat()).into_owned();
    ensure!(waited.status.code() == Some(3) && words.contains("LossExpected"), "{words}");
    ensure!(app.identities() == before, "the pod was replaced");
    app.kubectl.run(&["annotate", "deployment/web", "hitless.dev/update=in-place", "--overwrite"])?;
    app.wait_replaced(&before)?;
    app.wait_unheld()?;
    app.rollout_status()?;
    app.wait_version("v2", 1)
}

#[test]
fn where_the_owner_lets_no_pod_run_beside_its_own_there_is_no_companion() -> anyhow::Result<()> {
    let patch = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let scene = start("recreate", Shape { patch, ..Shape::default() })?;
    let good = scene.push("good", &[], None)?;
    scene.app.set_version(&good)?;
    scene.app.wait_version(&good, 1)?;
    let made = scene.app.kubectl.run(&["get", "events", "--field-selector", "reason=Scheduled", "-o", "name"])?;
    ensure!(!made.contains("companion"), "{made}");
    scene.finish(&good)
}
