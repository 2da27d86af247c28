//! A changed ConfigMap or Secret restarts the same pods, and they have the new content.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_cluster::Cluster;
use hitless_e2e::app::{Identity, PATIENCE, Shape, Workload, container_ids, readiness_probe, restarts};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Kubectl, Stack, Traffic, namespace};
use serde_json::{Value, json};

/// What a container has.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    /// The mounted file.
    file: String,
    /// The same file by subPath: as it was when the container started.
    at_start: String,
    /// The variable.
    variable: String,
}

impl Content {
    fn new(file: &str, variable: &str) -> Self {
        Self { file: file.to_owned(), at_start: file.to_owned(), variable: variable.to_owned() }
    }
}

/// Pods that mount a ConfigMap and read a Secret as env.
fn shape(workload: Workload, mode: &'static str, replicas: u32) -> Shape {
    let shape = Shape { workload, mode: Some(mode), replicas, ..Shape::default() };
    let container = json!({
        "name": "web", "image": format!("{}/echo:v1", shape.registry), "ports": [{"containerPort": 8080, "name": "http"}],
        "readinessProbe": readiness_probe("http"),
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}],
        "volumeMounts": [{"name": "files", "mountPath": "/etc/app"},
            {"name": "files", "mountPath": "/etc/app.ini", "subPath": "app.ini"}],
    });
    let volumes = json!([{"name": "files", "configMap": {"name": "files"}}]);
    let patch = json!({"metadata": {"annotations": {"hitless.dev/reload": "auto"}},
        "spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}}});
    Shape { patch, ..shape }.parking()
}

fn config_map(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"app.ini": value}})
}

fn secret(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": value}})
}

/// The application, with what it uses.
fn start(cluster: &Arc<Cluster>, namespace: &str, shape: &Shape, allowed: bool) -> anyhow::Result<App> {
    let kubectl = Kubectl::new(Arc::clone(cluster), namespace);
    namespace::apply(&kubectl, &json!({"hitless.dev/gate": "enabled"}))?;
    kubectl.feed(&["apply"], &config_map("one"))?;
    kubectl.feed(&["apply"], &secret("first"))?;
    if allowed {
        let account = "--serviceaccount=hitless-system:hitless-controller";
        kubectl.run(&["create", "rolebinding", "hitless-reload", "--clusterrole=hitless-reload", account])?;
    }
    App::start_by(kubectl, shape)
}

/// What each container has, read from its processes.
fn contents(app: &App) -> anyhow::Result<Vec<Content>> {
    container_ids(&app.pods_now()?).iter().map(|id| content(id)).collect()
}

fn content(container: &str) -> anyhow::Result<Content> {
    let id = container.rsplit('/').next().unwrap_or_default();
    let is_of =
        |process: &PathBuf| std::fs::read_to_string(process.join("cgroup")).is_ok_and(|groups| groups.contains(id));
    let processes = std::fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    let process = processes.into_iter().find(is_of).with_context(|| format!("no process of {container}"))?;
    let environment = std::fs::read(process.join("environ"))?;
    let environment = String::from_utf8_lossy(&environment);
    let variable = environment.split('\0').find_map(|pair| pair.strip_prefix("PASSWORD=")).context("no PASSWORD")?;
    let file = |path: &str| std::fs::read_to_string(process.join("root").join(path)).with_context(|| path.to_owned());
    Ok(Content { file: file("etc/app/app.ini")?, at_start: file("etc/app.ini")?, variable: variable.to_owned() })
}

/// The hash that is recorded on the workload.
fn recorded(app: &App) -> anyhow::Result<String> {
    app.workloads.wait("the content to be recorded", PATIENCE, |all| {
        all.get("web")?["metadata"]["annotations"]["hitless.dev/config"].as_str().map(str::to_owned)
    })
}

/// Changes something and waits until the restart because of that is over.
fn after(app: &App, replicas: usize, change: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let before = recorded(app)?;
    change()?;
    app.workloads.wait("another hash on the template", PATIENCE, |all| {
        let web = all.get("web")?;
        let hash = web["spec"]["template"]["metadata"]["annotations"]["hitless.dev/config"].as_str()?;
        (hash != before && hash == web["metadata"]["annotations"]["hitless.dev/config"]).then_some(())
    })?;
    app.rollout_status()?;
    app.wait_unheld()?;
    app.wait_ready(replicas)
}

/// The application under load, as it was when it began.
struct Scene {
    app: App,
    before: Vec<Identity>,
    traffic: Traffic,
}

impl Scene {
    fn start(namespace: &str, workload: Workload, mode: &'static str) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let app = start(&stack.cluster, namespace, &shape(workload, mode, 2), true)?;
        recorded(&app)?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(Self { before: app.identities(), app, traffic })
    }

    /// After the change every container has been started anew, and has this.
    fn change(&self, object: &Value, expected: &Content) -> anyhow::Result<()> {
        after(&self.app, 2, || self.app.kubectl.feed(&["apply"], object).map(drop))?;
        for content in contents(&self.app)? {
            ensure!(content == *expected, "after {object}: {content:?}");
        }
        Ok(())
    }

    /// No request failed, the pods are the same, and each was restarted so often.
    fn finish(self, restarted: u64) -> anyhow::Result<()> {
        let Self { app, before, traffic } = self;
        let report = traffic.stop()?;
        ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
        ensure!(app.identities() == before, "pods were replaced: {before:?} {:?}", app.identities());
        let restarts = restarts(&app.pods_now()?);
        ensure!(restarts == [restarted; 2], "restarted other than once for each change: {restarts:?}");
        Ok(())
    }
}

#[test]
fn a_changed_config_map_and_a_changed_secret_are_one_restart_each_without_a_failed_request() -> anyhow::Result<()> {
    let scene = Scene::start("t-reload", Workload::Deployment, "Leave")?;
    let app = &scene.app;
    scene.change(&config_map("two"), &Content::new("two", "first"))?;
    // The same content again: one object is written, the other made anew.
    app.kubectl.run(&["annotate", "configmap", "files", "touched=yes"])?;
    app.kubectl.run(&["delete", "secret", "login"])?;
    app.kubectl.feed(&["apply"], &secret("first"))?;
    let same = recorded(app)?;
    // Nothing tells that nothing happens. A restart would begin two seconds after the last change.
    std::thread::sleep(Duration::from_secs(4));
    let restarts = restarts(&app.pods_now()?);
    ensure!(recorded(app)? == same && restarts == [1, 1], "the same content restarted: {restarts:?}");
    scene.change(&secret("second"), &Content::new("two", "second"))?;
    scene.finish(2)
}

#[test]
fn pods_of_a_stateful_set_are_held_only_once_their_volumes_have_the_new_content() -> anyhow::Result<()> {
    let scene = Scene::start("t-reload-sts", Workload::StatefulSet, "Hold")?;
    scene.change(&config_map("two"), &Content::new("two", "first"))?;
    scene.finish(1)
}

#[test]
fn without_the_right_an_event_names_the_command_that_gives_it_and_nothing_restarts() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack.cluster, "t-reload-denied", &shape(Workload::Deployment, "Leave", 1), false)?;
    let note = app.wait_event("ReloadDenied")?;
    let (_, command) = note.split_once("allow it with: kubectl ").context("no command in the Event")?;
    app.kubectl.feed(&["apply"], &config_map("two"))?;
    let words: Vec<&str> = command.split_whitespace().collect();
    app.kubectl.run(&words)?;
    // What is found then is recorded, and nothing else.
    recorded(&app)?;
    let web = app.kubectl.get(&[app.workload.web()])?;
    ensure!(web["spec"]["template"]["metadata"]["annotations"]["hitless.dev/config"].is_null(), "{web}");
    let restarts = restarts(&app.pods_now()?);
    ensure!(restarts == [0], "{restarts:?}");
    Ok(())
}
