//! What clients see of a single replica that is operated.

use std::collections::BTreeMap;

use anyhow::ensure;
use hitless_e2e::app::{PATIENCE, Shape, is_closed, is_opened};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Traffic, Watch};

/// One replica of a server that exits at once on SIGTERM.
fn single(stack: &Stack, namespace: &str) -> anyhow::Result<App> {
    App::start(&stack.cluster, namespace, &Shape { replicas: 1, mode: None, ..Shape::default() })
}

/// `kubectl hitless plan` says beforehand which way pods go, and why.
fn ensure_planned(stack: &Stack, app: &App, version: &str, words: &str) -> anyhow::Result<()> {
    let image = format!("web={}", app.image(version));
    let plan = stack.hitless(app, &["plan", "deployment/web", "--image", &image])?;
    ensure!(plan.contains(words), "the plan does not say {words:?}:\n{plan}");
    Ok(())
}

/// New connections from each of the two nodes.
const FRESH: Rate = Rate { fresh: 100, keepalive: 0, connections: 0, delay_ms: 0 };

#[test]
fn a_single_replica_changes_its_image_and_no_connection_fails() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = single(&stack, "t-hold")?;
    let services = Watch::start(&app.kubectl, &["services"])?;
    let before = app.identities();
    let traffic = Traffic::start_from_each_node(&stack, &app, FRESH)?;
    traffic.iter().try_for_each(|traffic| traffic.wait_for_requests(200, PATIENCE))?;
    ensure_planned(&stack, &app, "v2", "Hold — OnlyPod: ")?;
    app.set_version("v2")?;
    services.wait("the Service to be opened", PATIENCE, |services| {
        services.get("web").filter(|web| is_opened(web)).map(drop)
    })?;
    app.rollout_status()?;
    services.wait("the Service to be closed again", PATIENCE, |services| {
        services.get("web").filter(|web| is_closed(web)).map(drop)
    })?;
    for traffic in traffic {
        traffic.wait_for_more(100, PATIENCE)?;
        let report = traffic.stop()?;
        println!("{}", serde_json::to_string(&report)?);
        ensure!(report.fresh.failed == 0, "requests failed: {report:?}");
        ensure!(report.versions.contains_key("v1") && report.versions.contains_key("v2"), "{:?}", report.versions);
    }
    ensure!(app.identities() == before, "the pod was replaced: {before:?} became {:?}", app.identities());
    app.deployments.wait("the gap to be learned", PATIENCE, |deployments| {
        deployments.get("web")?["metadata"]["annotations"]["hitless.dev/gap"].as_str().map(drop)
    })
}

/// When each pod was last put into service or taken out of it.
fn in_service_since(app: &App) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = app.kubectl.get(&["pods"])?;
    let since = pods["items"].as_array().into_iter().flatten().filter_map(|pod| {
        let conditions = pod["status"]["conditions"].as_array()?;
        let condition = conditions.iter().find(|condition| condition["type"] == "hitless.dev/InService")?;
        Some((pod["metadata"]["name"].as_str()?.to_owned(), condition["lastTransitionTime"].as_str()?.to_owned()))
    });
    Ok(since.collect())
}

#[test]
fn three_replicas_leave_once_and_are_held_when_the_gap_is_known_and_no_request_fails() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-hold-three", &Shape { mode: None, ..Shape::default() })?;
    let rate = Rate { fresh: 100, keepalive: 50, ..Rate::default() };
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(200, PATIENCE)?;
    ensure_planned(&stack, &app, "v2", "Leave — UnknownGap: ")?;
    app.set_version("v2")?;
    app.rollout_status()?;
    app.deployments.wait("the gap to be learned", PATIENCE, |deployments| {
        deployments.get("web")?["metadata"]["annotations"]["hitless.dev/gap"].as_str().map(drop)
    })?;
    let before = in_service_since(&app)?;
    ensure!(before.len() == 3, "{before:?}");
    ensure_planned(&stack, &app, "v3", "Hold — ShortGap: ")?;
    app.set_version("v3")?;
    app.rollout_status()?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    println!("{}", serde_json::to_string(&report)?);
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(report.versions.contains_key("v3"), "{:?}", report.versions);
    ensure!(in_service_since(&app)? == before, "held pods stay in service");
    Ok(())
}
