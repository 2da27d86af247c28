//! When a version is bad: not because of what its old containers need to stop.

use anyhow::ensure;
use hitless_e2e::app::{Shape, readiness_probe};
use hitless_e2e::stack::echo_image;
use hitless_e2e::{App, Stack};
use serde_json::json;

/// Two containers stop one after another, which takes longer than a start may.
#[test]
fn what_old_containers_need_to_stop_is_not_held_against_the_new_ones() -> anyhow::Result<()> {
    let lifecycle = json!({"preStop": {"sleep": {"seconds": 6}}});
    let web = json!({"name": "web", "image": echo_image("v1"), "lifecycle": lifecycle, "readinessProbe": readiness_probe("http"),
        "ports": [{"containerPort": 8080, "name": "http"}]});
    let side = json!({"name": "side", "image": echo_image("v1"), "lifecycle": lifecycle, "env": [{"name": "PORT", "value": "8081"}]});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 10, "containers": [web, side]}});
    let patch = json!({"spec": {"progressDeadlineSeconds": 10, "template": template}});
    let app = App::start(&Stack::attach()?.cluster, "t-clocks", &Shape { replicas: 2, patch, ..Shape::default() })?;
    let before = app.identities();
    app.kubectl.run(&["rollout", "restart", "deployment/web"])?;
    app.wait_held()?;
    let note = app.wait_event("RolloutFinished")?;
    app.wait_ready(2)?;
    ensure!(app.identities() == before, "pods were replaced: {note}");
    let told = app.told()?;
    let is_undone = |event: &String| event.contains("RolloutHalted") || event.contains("PodRolledBack");
    ensure!(!told.iter().any(is_undone), "a restart was judged bad: {told:?}");
    Ok(())
}
