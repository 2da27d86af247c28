//! What a user sees when an opted-in DaemonSet changes.

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{self, PATIENCE, Shape, Workload};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Traffic};
use serde_json::{Value, json};

/// A pod on each of the two nodes.
fn daemon() -> Shape {
    Shape { workload: Workload::DaemonSet, replicas: 2, ..Shape::default() }
}

/// Finished: the owner's strategy is back, all pods are ready with `version`, `rollout status` says so.
fn assert_finished(app: &App, version: &str) -> anyhow::Result<()> {
    app.wait_version(version, 2)?;
    app.wait_ready(2)?;
    app.rollout_status()?;
    let web = app.wait_unheld()?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    ensure!(web["spec"]["updateStrategy"] == rolling, "the strategy that is left is {}", web["spec"]["updateStrategy"]);
    // What the DaemonSet controller counts by, and what a new pod would get.
    let revisions = app.kubectl.list(&["controllerrevisions"])?;
    let newest =
        revisions.iter().max_by_key(|one| one["revision"].as_i64()).context("there is no ControllerRevision")?;
    let hash = &newest["metadata"]["labels"]["controller-revision-hash"];
    let generation = &web["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
    for (name, pod) in app.pods.objects() {
        let labels = &pod["metadata"]["labels"];
        ensure!(
            labels["controller-revision-hash"] == *hash && labels["pod-template-generation"] == *generation,
            "revision {hash}, generation {generation}, but {name} has {labels}"
        );
    }
    Ok(())
}

#[test]
fn an_image_and_its_undo_reach_the_pods_of_all_nodes_one_by_one_without_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-ds", &daemon())?;
    let before = app.identities();
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    app.roll_one_by_one("v2", 2, || app.set_version("v2"))?;
    assert_finished(&app, "v2")?;
    app.roll_one_by_one("v1", 2, || app.kubectl.run(&["rollout", "undo", "daemonset/web"]).map(drop))?;
    assert_finished(&app, "v1")?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    let nodes: Vec<Value> = app.pods.objects().values().map(|pod| pod["spec"]["nodeName"].clone()).collect();
    ensure!(nodes.len() == 2 && nodes[0] != nodes[1], "the pods are on {nodes:?}");
    Ok(())
}

#[test]
fn a_daemon_set_on_the_hosts_network_rolls_natively() -> anyhow::Result<()> {
    let patch = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    let app = App::start(&Stack::attach()?.cluster, "t-ds-host", &Shape { patch, ..daemon() })?;
    let before = app.identities();
    app.set_version("v2")?;
    let web = app.kubectl.get(&["daemonset", "web"])?;
    ensure!(!app::is_held(&web), "pods that are never operated hold their DaemonSet: {web}");
    app.rollout_status()?;
    app.wait_version("v2", 2)?;
    app.wait_replaced(&before)?;
    Ok(())
}

/// Natively the next version's pod serves on each node before the one there goes.
#[test]
fn a_daemon_set_that_surges_goes_natively_where_clients_of_a_node_have_nobody_else() -> anyhow::Result<()> {
    let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
    let app = App::start(&Stack::attach()?.cluster, "t-ds-surge", &Shape { patch, mode: None, ..daemon() })?;
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}}).to_string();
    app.kubectl.run(&["patch", "service", "web", "-p", &local])?;
    let before = app.identities();
    app.set_version("v2")?;
    let note = app.wait_event("NativeRollout")?;
    ensure!(note.contains("no other pod serves all clients of its node"), "{note}");
    app.rollout_status()?;
    app.wait_version("v2", 2)?;
    app.wait_replaced(&before)?;
    app.wait_unheld().map(drop)
}
