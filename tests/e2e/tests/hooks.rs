//! Hooks of real pods. One test restarts all agents, so they take turns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{Identity, PATIENCE, Shape, condition, image_of, is_ready, readiness_probe};
use hitless_e2e::build::workspace;
use hitless_e2e::operations::Operations;
use hitless_e2e::stack::echo_image;
use hitless_e2e::until::until_answered;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Stack, Watch};
use serde_json::{Value, json};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One pod with these hooks, whose application answers them so, as user 1000.
fn start(stack: &Stack, namespace: &str, hooks: &Value, answers: &str) -> anyhow::Result<App> {
    let annotations = json!({"hitless.dev/hooks": hooks.to_string()});
    let container = json!({
        "name": "web", "image": echo_image("v1"), "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "HOOK", "value": answers}], "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
        "readinessProbe": readiness_probe("http"),
    });
    let template = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container]}});
    let patch = json!({"spec": {"template": template}});
    App::start(&stack.cluster, namespace, &Shape { replicas: 1, patch, ..Shape::default() })
}

/// Its only pod.
fn pod(app: &App) -> anyhow::Result<Identity> {
    app.identities().into_iter().next().context("no pod")
}

/// Whether an agent reports that the pod says "not yet".
fn says_not_yet(transitions: &Objects, pod: &Identity) -> bool {
    let mut reports = transitions.values().filter_map(|node| node["status"]["transitions"].as_array()).flatten();
    reports.any(|report| {
        let is_its = report["id"].as_str().is_some_and(|id| id.starts_with(&pod.uid));
        is_its && report["message"].as_str().is_some_and(|message| message.contains("says not yet"))
    })
}

/// What the agent reports of the pod's operation when it has ended.
fn ended(operations: &Operations, pod: &Identity) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(operations.wait_end(&pod.uid, PATIENCE)?)?)
}

fn assert_in_service_with(app: &App, version: &str) -> anyhow::Result<()> {
    let pods = app.pods_now()?;
    for pod in pods.values() {
        ensure!(condition(pod, "hitless.dev/InService") == Some("True"), "out of service: {pod}");
        ensure!(is_ready(pod) && image_of(pod) == echo_image(version), "{pod}");
    }
    Ok(())
}

#[test]
fn a_pod_that_says_not_yet_twice_stays_in_service_until_it_says_go() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let hooks = json!([{"name": "ask", "when": "BeforeDrain", "http": {"port": 8080, "path": "/hook"}}]);
    let operations = Operations::start(&stack)?;
    let app = start(&stack, "t-hook-ask", &hooks, "notYet,notYet,go")?;
    let (before, pod) = (app.identities(), pod(&app)?);
    let transitions = Watch::start(&stack.system(), &["nodetransitions"])?;
    app.set_version("v2")?;
    // It says so for ten seconds.
    transitions.wait("the report that the pod says not yet", PATIENCE, |transitions| {
        says_not_yet(transitions, &pod).then_some(())
    })?;
    assert_in_service_with(&app, "v1")?;
    println!("{}", stack.wait_says(&app, &["why", "web"], &["hook ask that says not yet"])?);
    let report = ended(&operations, &pod)?;
    app.rollout_status()?;
    ensure!(report["result"]["outcome"] == "Done" && report["hooksDone"] == json!(["ask"]), "{report}");
    let hook = &report["hooks"][0];
    ensure!(hook["attempts"] == 3 && hook["outcome"] == "Done" && hook["output"] == "call 3", "{report}");
    ensure!(app.identities() == before, "the pod was replaced");
    assert_in_service_with(&app, "v2")
}

#[test]
fn a_hook_that_fails_gives_up_and_the_pod_is_in_service_as_it_was() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let hooks = json!([{"name": "flush", "when": "AfterDrain", "http": {"port": 8080, "path": "/hook"}, "retries": 1}]);
    let operations = Operations::start(&stack)?;
    let app = start(&stack, "t-hook-fail", &hooks, "fail")?;
    let (before, pod) = (app.identities(), pod(&app)?);
    app.set_version("v2")?;
    let report = ended(&operations, &pod)?;
    ensure!(report["result"]["outcome"] == "Failed" && report["result"]["reason"] == "HookFailed", "{report}");
    let hook = &report["hooks"][0];
    ensure!(hook["attempts"] == 2 && hook["outcome"] == "Failed", "{report}");
    ensure!(hook["output"].as_str().is_some_and(|output| output.starts_with("HTTP 500: failing")), "{report}");
    // The kubelet follows a little later.
    until_answered(|| assert_in_service_with(&app, "v1"))?;
    ensure!(app.identities() == before, "the pod was replaced");
    Ok(())
}

/// Agents with what `manifests/exec-hooks` adds, until it is dropped.
struct WithCommands<'a>(&'a Stack);

impl Drop for WithCommands<'_> {
    fn drop(&mut self) {
        let policies = workspace().join("manifests/exec-hooks/policies.yaml");
        let removed = self.0.system().run(&["delete", "--ignore-not-found", "-f", &policies.to_string_lossy()]);
        if let Err(error) = removed.and_then(|_| self.0.install()) {
            eprintln!("the agents keep the rights that one test gave them: {error:#}");
        }
    }
}

/// As docs/hooks.md says: an overlay with the component, over what was installed.
fn let_agents_run_commands(stack: &Stack) -> anyhow::Result<WithCommands<'_>> {
    let overlay = stack.write_overlay()?.with_extension("exec-hooks");
    std::fs::create_dir_all(&overlay)?;
    let name = stack.cluster.name();
    let text = format!("resources: [../{name}]\ncomponents: [../../../manifests/exec-hooks]\n");
    std::fs::write(overlay.join("kustomization.yaml"), text)?;
    stack.system().run(&["apply", "--server-side", "-k", &overlay.to_string_lossy()])?;
    let with_commands = WithCommands(stack);
    stack.wait_ready()?;
    Ok(with_commands)
}

#[test]
fn a_command_after_the_drain_runs_as_the_containers_user_without_rights_within_its_limits() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let _patched = let_agents_run_commands(&stack)?;
    let exec = json!({"container": "web", "command": ["/echo-server", "whoami"]});
    let hooks = json!([{"name": "whoami", "when": "AfterDrain", "exec": exec}]);
    let operations = Operations::start(&stack)?;
    let app = start(&stack, "t-hook-exec", &hooks, "go")?;
    let pod = pod(&app)?;
    app.set_version("v2")?;
    let report = ended(&operations, &pod)?;
    println!("{report}");
    ensure!(report["result"]["outcome"] == "Done", "{report}");
    let output = report["hooks"][0]["output"].as_str().unwrap_or_default();
    for words in [
        "Uid: 1000 1000 1000 1000",
        "Gid: 1000 1000 1000 1000",
        "NoNewPrivs: 1",
        "CapEff: 0000000000000000",
        "CapBnd: 0000000000000000",
        "first=echo-server",
        "group=same",
        "/whoami",
    ] {
        ensure!(output.contains(words), "{words} is not in {output}");
    }
    app.rollout_status()?;
    assert_in_service_with(&app, "v2")
}
