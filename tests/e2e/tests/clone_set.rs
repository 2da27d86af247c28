//! What a user of OpenKruise sees who applies a CloneSet.

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, Identity, PATIENCE, Shape, all_ready, condition, image_of};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic};
use serde_json::{Value, json};

/// A CloneSet under load.
struct Scene {
    app: App,
    before: Vec<Identity>,
    traffic: Traffic,
}

impl Scene {
    fn start(name: &str, replicas: u32, spec: &Value) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let shape = Shape { patch: json!({"spec": spec}), ..Shape::clone_set(replicas) };
        let app = App::start(&stack.cluster, &format!("t-clone-{name}"), &shape.parking())?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(Self { before: app.identities(), app, traffic })
    }

    fn patch(&self, spec: &Value) -> anyhow::Result<()> {
        let patch = json!({"spec": spec}).to_string();
        self.app.kubectl.run(&["patch", "cloneset", "web", "--type=merge", "-p", &patch]).map(drop)
    }

    /// Waits for what the status says of the spec as it is.
    fn wait_status(&self, what: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        self.app.workloads.wait(what, PATIENCE, |all| {
            let web = all.get("web")?;
            let is_seen = web["status"]["observedGeneration"] == web["metadata"]["generation"];
            (is_seen && is(&web["status"])).then(|| web.clone())
        })
    }

    fn count(&self, version: &str) -> usize {
        let image = self.app.image(version);
        self.app.pods.objects().values().filter(|pod| image_of(pod) == image).count()
    }

    /// No request has failed.
    fn finish(self) -> anyhow::Result<App> {
        self.traffic.wait_for_more(200, PATIENCE)?;
        let report = self.traffic.stop()?;
        ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
        Ok(self.app)
    }
}

fn in_place() -> Value {
    json!({"updateStrategy": {"type": "InPlaceIfPossible"}})
}

#[test]
fn an_image_reaches_the_same_pods_and_a_field_of_the_pods_new_ones_without_a_failed_request() -> anyhow::Result<()> {
    let scene = Scene::start("update", 3, &in_place())?;
    scene.app.set_version("v2")?;
    scene.app.wait_version("v2", 3)?;
    scene.wait_status("the update to be reported", |status| {
        status["updatedReadyReplicas"] == 3 && status["currentRevision"] == status["updateRevision"]
    })?;
    ensure!(scene.app.identities() == scene.before, "pods were replaced: {:?}", scene.app.identities());
    // What no pod can be given in place: all of them are made anew, each after it has left service.
    scene.patch(&json!({"template": {"spec": {"terminationGracePeriodSeconds": 7}}}))?;
    scene.wait_status("new pods", |status| {
        status["updatedReadyReplicas"] == 3
            && status["replicas"] == 3
            && status["currentRevision"] == status["updateRevision"]
    })?;
    scene.app.wait_replaced(&scene.before)?;
    scene.app.wait_ready(3)?;
    scene.finish().map(drop)
}

#[test]
fn a_partition_keeps_pods_at_their_version_and_scaling_takes_the_old_ones() -> anyhow::Result<()> {
    let partition = |kept: u32| json!({"updateStrategy": {"type": "InPlaceIfPossible", "partition": kept}});
    let scene = Scene::start("partition", 3, &partition(2))?;
    scene.app.set_version("v2")?;
    scene.app.wait_version("v2", 1)?;
    scene
        .wait_status("one updated pod", |status| status["updatedReadyReplicas"] == 1 && status["readyReplicas"] == 3)?;
    ensure!((scene.count("v1"), scene.count("v2")) == (2, 1), "{} pods are old", scene.count("v1"));
    scene.patch(&partition(0))?;
    scene.app.wait_version("v2", 3)?;
    ensure!(scene.app.identities() == scene.before, "pods were replaced: {:?}", scene.app.identities());
    scene.app.kubectl.run(&["scale", "cloneset/web", "--replicas=5"])?;
    scene.wait_status("five pods", |status| status["availableReplicas"] == 5)?;
    scene.app.wait_answering_at(scene.app.address)?;
    scene.app.kubectl.run(&["scale", "cloneset/web", "--replicas=2"])?;
    scene.wait_status("two pods", |status| status["replicas"] == 2 && status["availableReplicas"] == 2)?;
    scene.finish().map(drop)
}

#[test]
fn a_pod_that_somebody_deletes_is_made_anew_and_a_named_one_is_removed() -> anyhow::Result<()> {
    let scene = Scene::start("deleted", 3, &in_place())?;
    let gone = scene.before.first().context("no pod")?.clone();
    scene.app.kubectl.run(&["label", "pod", &gone.name, "apps.kruise.io/specified-delete=true"])?;
    scene.app.pods.wait("another pod in its place", PATIENCE, |pods| {
        let is_gone = pods.values().all(|pod| pod["metadata"]["uid"] != gone.uid.as_str());
        (is_gone && all_ready(pods, 3)).then_some(())
    })?;
    scene.finish().map(drop)
}

/// A label by which another operator keeps a pod as it is.
const HOOK: &str = "example.com/hook";

impl Scene {
    /// Waits until the CloneSet says of a pod that it is in this state, and returns the pod.
    fn wait_state(&self, state: &str) -> anyhow::Result<Value> {
        self.app.pods.wait(&format!("a pod in state {state}"), PATIENCE, |pods| {
            let is = |pod: &&Value| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == state;
            pods.values().find(is).cloned()
        })
    }

    /// Does what the operator does: takes its label off (`-`), or puts it back (`=true`).
    fn label(&self, pod: &Value, how: &str) -> anyhow::Result<()> {
        let name = pod["metadata"]["name"].as_str().context("a pod without a name")?;
        self.app.kubectl.run(&["label", "pod", name, &format!("{HOOK}{how}")]).map(drop)
    }
}

#[test]
fn an_operators_hook_is_waited_for_before_a_pod_is_updated_or_removed() -> anyhow::Result<()> {
    let hook = json!({"labelsHandler": {HOOK: "true"}});
    let mut spec = in_place();
    spec["lifecycle"] = json!({"inPlaceUpdate": hook, "preDelete": hook});
    spec["template"] = json!({"metadata": {"labels": {HOOK: "true"}}});
    let scene = Scene::start("hooks", 2, &spec)?;
    scene.app.set_version("v2")?;
    for updated in 1..=2 {
        let asked = scene.wait_state("PreparingUpdate")?;
        ensure!(image_of(&asked) == scene.app.image("v1"), "it was updated before its hook was over: {asked}");
        // The kubelet takes Ready back a moment later.
        let in_service = condition(&asked, "hitless.dev/InService");
        ensure!(in_service == Some("False"), "a pod that is to be updated serves: {asked}");
        scene.label(&asked, "-")?;
        let done = scene.wait_state("Updated")?;
        ensure!(scene.count("v2") == updated, "{} pods are updated, {updated} were asked", scene.count("v2"));
        scene.label(&done, "=true")?;
        scene.wait_status("its pod to be available again", |status| status["availableReplicas"] == 2)?;
    }
    scene.app.wait_version("v2", 2)?;
    ensure!(scene.app.identities() == scene.before, "pods were replaced: {:?}", scene.app.identities());
    scene.app.kubectl.run(&["scale", "cloneset/web", "--replicas=1"])?;
    let asked = scene.wait_state("PreparingDelete")?;
    ensure!(asked["metadata"]["deletionTimestamp"].is_null(), "it was deleted before its hook was over: {asked}");
    scene.label(&asked, "-")?;
    scene.wait_status("one pod", |status| status["replicas"] == 1 && status["availableReplicas"] == 1)?;
    scene.finish().map(drop)
}
