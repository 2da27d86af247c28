//! Objects that a tenant makes as large as the API server takes them.

use anyhow::ensure;
use hitless_e2e::app::{PATIENCE, Shape};
use hitless_e2e::{App, Hostile, Stack, Watch};
use serde_json::Value;

/// Restarts of all of hitless's own containers.
fn restarts(stack: &Stack) -> anyhow::Result<Vec<u64>> {
    let pods = stack.system().list(&["pods"])?;
    Ok(pods.iter().filter_map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64()).collect())
}

/// Ten Deployments that are opted in, and ten pods on a node: controllers and that node's agent start beside them, and others' rollouts go
/// on. Their owner is told.
#[test]
fn a_tenant_with_large_objects_stops_nobody_and_is_told() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-beside-large", &Shape { replicas: 2, ..Shape::default() })?;
    let before = app.identities();
    let hostile = Hostile::new(&stack, "t-large")?;
    hostile.deployments(10, true)?;
    hostile.pods(10, "n1")?;
    stack.scale_controller(0)?;
    stack.scale_controller(2)?;
    stack.renew_agent("n1")?;
    let earlier = restarts(&stack)?;

    app.roll(|| app.set_version("v2"))?;
    app.wait_version("v2", 2)?;
    ensure!(app.identities() == before, "pods were replaced: {before:?} {:?}", app.identities());
    let events = Watch::start(&hostile.kubectl, &["events.events.k8s.io"])?;
    let is_told = |event: &Value| {
        event["reason"] == "TooLarge" && event["note"].as_str().is_some_and(|note| note.contains("no more than 10000"))
    };
    events.wait("an Event TooLarge", PATIENCE, |events| events.values().any(is_told).then_some(()))?;
    ensure!(restarts(&stack)? == earlier, "somebody was restarted: {earlier:?} {:?}", restarts(&stack)?);
    Ok(())
}
