//! A cluster whose API server has no mutating admission policies (Kubernetes before 1.36): nothing can hold a workload when its template
//! changes, so changes that nobody holds are refused, and the plugin holds in the same write.

use std::thread;

use anyhow::{bail, ensure};
use hitless_e2e::app::{PATIENCE, Shape, Workload};
use hitless_e2e::operations::Operations;
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Stack, Traffic, Watch};
use serde_json::{Value, json};

#[test]
fn a_change_that_nobody_holds_is_refused_and_the_plugin_makes_it_without_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    stack.remove_guards()?;
    let outcome = stack.install_refusing().and_then(|()| {
        let kinds = [Workload::Deployment, Workload::StatefulSet];
        thread::scope(|scope| {
            let stack = &stack;
            let single = scope.spawn(move || holds(stack));
            let both = kinds.map(|kind| scope.spawn(move || start(stack, kind).and_then(|app| changes(stack, &app))));
            let all = both.into_iter().chain([single]);
            all.into_iter().try_for_each(|each| each.join().unwrap_or_else(|_| bail!("a thread panicked")))
        })
    });
    stack.remove_guards()?;
    let said = outcome.and_then(|()| it_says_that_nothing_holds(&stack));
    stack.install()?;
    said
}

/// Nothing gives pods the gate there, so the template names it.
fn with_gate() -> Value {
    json!({"spec": {"template": {"spec": {"readinessGates": [{"conditionType": "hitless.dev/InService"}]}}}})
}

/// The kubelets of these versions look for containers that have ended once a second only, so clients wait longer.
fn holds(stack: &Stack) -> anyhow::Result<()> {
    let shape = Shape { replicas: 1, gate: false, patch: with_gate(), ..Shape::default() }.holding().parking();
    let app = App::start(&stack.cluster, "t-refusing-single", &shape)?;
    let before = app.identities();
    let rate = Rate { fresh: 100, keepalive: 0, connections: 0, delay_ms: 0 };
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let operations = Operations::start(stack)?;
    stack.hitless(&app, &["set", "image", "deployment/web", &format!("web={}", app.image("v2"))])?;
    for pod in &before {
        println!("held: {}", serde_json::to_string(&operations.wait_end(&pod.uid, PATIENCE)?.result)?);
    }
    app.wait_version("v2", 1)?;
    app.wait_unheld()?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0, "requests failed: {report:?}; Events: {:#?}", app.told()?);
    ensure!(app.identities() == before, "the pod was replaced: {before:?}");
    Ok(())
}

fn start(stack: &Stack, workload: Workload) -> anyhow::Result<App> {
    let namespace = format!("t-refusing-{}", workload.web().split('/').next().unwrap_or_default());
    App::start(&stack.cluster, &namespace, &Shape { workload, gate: false, patch: with_gate(), ..Shape::default() })
}

fn changes(stack: &Stack, app: &App) -> anyhow::Result<()> {
    let (web, image) = (app.workload.web(), format!("web={}", app.image("v2")));
    wait_refused(app, &["set", "image", web, &image])?;
    for change in [vec!["set", "image", web, &image], vec!["rollout", "restart", web]] {
        let why = app.kubectl.refused(&change)?;
        ensure!(why.contains("kubectl hitless set image"), "{change:?} was refused without a way: {why}");
    }
    let before = app.identities();
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    stack.hitless(app, &["set", "image", web, &image])?;
    let held = app.kubectl.get(&[web])?;
    ensure!(held["metadata"]["annotations"]["hitless.dev/rollout"] == "held", "{web} is not held: {held}");
    let why = app.kubectl.refused(&["annotate", web, "hitless.dev/rollout-"])?;
    ensure!(why.contains("until that has ended"), "the hold was taken away, or refused without a reason: {why}");
    app.wait_version("v2", 3)?;
    app.wait_unheld()?;
    let why = app.kubectl.refused(&["rollout", "undo", web])?;
    ensure!(why.contains("kubectl hitless undo"), "the undo was refused without a way: {why}");
    stack.hitless(app, &["undo", web])?;
    app.wait_version("v1", 3)?;
    app.wait_unheld()?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(app.identities() == before, "pods were replaced: {before:?}");
    app.kubectl.run(&["scale", web, "--replicas=2"]).map(drop)
}

/// Policies come into force, and go out of it, some time after they were written.
fn wait_refused(app: &App, change: &[&str]) -> anyhow::Result<()> {
    until_answered(|| app.kubectl.refused(&[change, &["--dry-run=server"]].concat())).map(drop)
}

fn it_says_that_nothing_holds(stack: &Stack) -> anyhow::Result<()> {
    let app = App::start(&stack.cluster, "t-no-guard", &Shape::default())?;
    let events = Watch::start(&app.kubectl, &["events.events.k8s.io"])?;
    events.wait("the Event NoGuard", PATIENCE, |events| {
        let ours = |event: &&serde_json::Value| event["reason"] == "NoGuard" && event["regarding"]["name"] == "web";
        events.values().any(|event| ours(&event)).then_some(())
    })?;
    stack.wait_says(&app, &["status", "deployment/web"], &["neither admission policy hitless-guard"]).map(drop)
}
