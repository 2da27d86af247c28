//! Containers beside the one that serves: restartable init containers, those that serve nobody, and init containers that have run.

use std::collections::BTreeSet;
use std::iter::once;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use hitless_e2e::app::{Identity, PATIENCE, Shape, Workload};
use hitless_e2e::traffic::Rate;
use hitless_e2e::watch::States;
use hitless_e2e::{App, Departures, Stack, Traffic, Watch};
use hitless_workloads::image::unpinned;
use serde_json::{Value, json};

/// The reference server that would listen in an hour, and ends at once when it is told to: nobody can rely on it.
fn silent(name: &str, image: &str) -> Value {
    json!({"name": name, "image": image, "env": [{"name": "START_DELAY", "value": "3600000"}]})
}

/// The same as a restartable init container.
fn restartable(name: &str, image: &str) -> Value {
    let mut container = silent(name, image);
    container["restartPolicy"] = json!("Always");
    container
}

/// An application under load, modes as they come.
struct Scene {
    stack: Stack,
    app: App,
    before: Vec<Identity>,
    departures: Departures,
    traffic: Traffic,
}

impl Scene {
    /// Namespace `t-sidecars-<name>`; `spec` is merged into that of the pods.
    fn start(name: &str, shape: Shape, spec: impl FnOnce(&str) -> Value) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let image = hitless_e2e::stack::echo_image("v1");
        let patch = json!({"spec": {"template": {"spec": spec(&image)}}});
        let shape = Shape { mode: None, patch, ..shape }.parking();
        let app = App::start(&stack.cluster, &format!("t-sidecars-{name}"), &shape)?;
        let departures = Departures::start(&app, shape.replicas as usize)?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(100, PATIENCE)?;
        Ok(Self { before: app.identities(), stack, app, departures, traffic })
    }

    /// `kubectl set image` of these containers to a version of the reference server.
    fn set_images(&self, containers: &[&str], version: &str) -> anyhow::Result<()> {
        let images: Vec<String> = containers.iter().map(|name| format!("{name}={}", self.app.image(version))).collect();
        let arguments = ["set", "image", self.app.workload.web()];
        self.app
            .kubectl
            .run(&arguments.into_iter().chain(images.iter().map(String::as_str)).collect::<Vec<_>>())
            .map(drop)
    }

    /// The same, and the workload is held and let go again, in place.
    fn roll(&self, containers: &[&str], version: &str) -> anyhow::Result<()> {
        self.app.roll(|| self.set_images(containers, version))?;
        self.app.wait_ready(self.before.len())
    }

    /// That container of each pod was restarted so often.
    fn ensure_restarts(&self, container: &str, wanted: u64) -> anyhow::Result<()> {
        let pods = self.app.pods_now()?;
        let restarts: BTreeSet<u64> =
            pods.values().filter_map(|pod| status(pod, container)?["restartCount"].as_u64()).collect();
        ensure!(restarts == once(wanted).collect(), "{container} was restarted {restarts:?} times, not {wanted}");
        Ok(())
    }

    /// Each pod has that version in that container.
    fn ensure_image(&self, container: &str, version: &str) -> anyhow::Result<()> {
        let images: BTreeSet<String> = self.app.pods_now()?.values().map(|pod| image(pod, container)).collect();
        ensure!(images == once(self.app.image(version)).collect(), "container {container} has {images:?}");
        Ok(())
    }

    /// No request failed, and the pods are the same.
    fn finish(self) -> anyhow::Result<()> {
        self.traffic.wait_for_more(100, PATIENCE)?;
        let report = self.traffic.stop()?;
        println!("{}", serde_json::to_string(&report)?);
        ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
        ensure!(
            self.app.identities() == self.before,
            "pods were replaced: {:?} {:?}",
            self.before,
            self.app.identities()
        );
        Ok(())
    }
}

const LISTS: [(&str, &str); 2] = [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")];

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|each| each["name"] == name)
}

fn spec<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    LISTS.iter().find_map(|(list, _)| named(&pod["spec"][list], container))
}

fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    LISTS.iter().find_map(|(_, list)| named(&pod["status"][list], container))
}

fn image(pod: &Value, container: &str) -> String {
    unpinned(spec(pod, container).and_then(|each| each["image"].as_str()).unwrap_or_default())
}

#[test]
fn a_restartable_init_container_is_replaced_in_place_and_the_one_that_serves_is_not_touched() -> anyhow::Result<()> {
    let scene =
        Scene::start("init", Shape::default(), |image| json!({"initContainers": [restartable("proxy", image)]}))?;
    scene.roll(&["proxy"], "v2")?;
    scene.ensure_image("proxy", "v2")?;
    scene.ensure_restarts("proxy", 1)?;
    scene.ensure_restarts("web", 0)?;
    scene.finish()
}

#[test]
fn an_app_and_its_sidecar_are_one_operation_and_a_restart_is_one_of_both() -> anyhow::Result<()> {
    let shape = Shape { workload: Workload::StatefulSet, replicas: 2, ..Shape::default() };
    let scene = Scene::start("both", shape, |image| json!({"initContainers": [restartable("proxy", image)]}))?;
    scene.roll(&["web", "proxy"], "v2")?;
    for container in ["web", "proxy"] {
        scene.ensure_image(container, "v2")?;
        scene.ensure_restarts(container, 1)?;
    }
    scene.app.roll(|| scene.app.kubectl.run(&["rollout", "restart", "statefulset/web"]).map(drop))?;
    scene.app.wait_ready(2)?;
    for container in ["web", "proxy"] {
        scene.ensure_restarts(container, 2)?;
    }
    scene.finish()
}

/// It has run, and what it did for the others is done: only a new pod would show that it ran again.
#[test]
fn an_init_container_that_has_run_rolls_natively_and_the_event_names_it() -> anyhow::Result<()> {
    let scene = Scene::start(
        "setup",
        Shape { replicas: 1, ..Shape::default() },
        |image| json!({"initContainers": [{"name": "setup", "image": image, "args": ["whoami"]}], "terminationGracePeriodSeconds": 1}),
    )?;
    scene.set_images(&["setup"], "v2")?;
    let note = scene.app.wait_event("NativeRollout")?;
    ensure!(note.contains("init container setup runs only when a pod is started"), "the Event says: {note}");
    scene.app.rollout_status()?;
    scene.app.wait_replaced(&scene.before)?;
    scene.app.wait_ready(1)?;
    scene.ensure_image("setup", "v2")
}

#[test]
fn a_sidecar_image_that_does_not_exist_takes_nobody_out() -> anyhow::Result<()> {
    let shape = Shape { replicas: 2, ..Shape::default() };
    let scene = Scene::start("missing", shape, |image| json!({"initContainers": [restartable("proxy", image)]}))?;
    scene.set_images(&["proxy"], "no-such-tag")?;
    println!("{}", scene.app.wait_event_saying("RolloutBlocked", "no-such-tag")?);
    scene.departures.ensure_none()?;
    scene.ensure_restarts("proxy", 0)?;
    scene.set_images(&["proxy"], "v2")?;
    let wanted = scene.app.image("v2");
    scene.app.pods.wait("the sidecars' image", PATIENCE, |pods| {
        pods.values().all(|pod| image(pod, "proxy") == wanted).then_some(())
    })?;
    scene.app.wait_unheld()?;
    scene.finish()
}

/// Its Services go on sending the pod connections while another container of it is replaced.
#[test]
fn a_container_that_serves_nobody_is_replaced_without_taking_its_pod_out_of_service() -> anyhow::Result<()> {
    let shape = Shape { replicas: 1, ..Shape::default() };
    let scene = Scene::start("silent", shape, |image| json!({"initContainers": [restartable("log", image)]}))?;
    // What an agent can do is known once it has operated a pod.
    scene.roll(&["log"], "v2")?;
    let departures = Departures::start(&scene.app, 1)?;
    let transitions = Watch::start(&scene.stack.system(), &["nodetransitions.hitless.dev"])?;
    transitions.wait("the nodes", PATIENCE, |nodes| (!nodes.is_empty()).then_some(()))?;
    // A grant is there for as long as its operation, which is a second.
    let mut grants = transitions.follow();
    scene.roll(&["log"], "v1")?;
    let reason = wait_mode(&mut grants, "log", &scene.app.image("v1"), &scene.before)?;
    ensure!(reason.starts_with("ServesNobody"), "the mode was chosen because: {reason}");
    scene.ensure_image("log", "v1")?;
    scene.ensure_restarts("log", 2)?;
    scene.ensure_restarts("web", 0)?;
    // Not out of service for a moment.
    departures.ensure_none()?;
    scene.finish()
}

/// Nothing in its spec says that it listens.
#[test]
fn a_sidecar_that_listens_is_drained_whatever_its_spec_says() -> anyhow::Result<()> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&seen);
    let kubectl = Stack::attach()?.system();
    // First: a refusal is reported for a moment only, and kubectl takes a while to begin.
    let _watch = Watch::start_seeing(&kubectl, &["nodetransitions.hitless.dev"], move |event| {
        let ended = event["object"]["status"]["transitions"].as_array().into_iter().flatten();
        let reasons = ended.filter_map(|each| each["result"]["reason"].as_str()).map(str::to_owned);
        noted.lock().unwrap_or_else(PoisonError::into_inner).extend(reasons);
    })?;
    let scene = Scene::start("listens", Shape { replicas: 2, ..Shape::default() }, |image| {
        json!({"initContainers": [{"name": "proxy", "image": image, "restartPolicy": "Always",
            "env": [{"name": "PORT", "value": "9090"}]}]})
    })?;
    scene.roll(&["proxy"], "v2")?;
    scene.ensure_image("proxy", "v2")?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(seen.contains("ContainerServes"), "operations ended as {seen:?}");
    scene.ensure_restarts("web", 0)?;
    scene.finish()
}

/// Why the mode was chosen in which the container of the scene's pod gets this image.
fn wait_mode(transitions: &mut States<'_>, container: &str, to: &str, pods: &[Identity]) -> anyhow::Result<String> {
    transitions.wait("a grant", PATIENCE, |nodes| {
        let mut grants = nodes.values().filter_map(|node| node["spec"]["grants"].as_array()).flatten();
        let grant = grants.find(|grant| {
            let image = unpinned(grant["containers"][container]["to"].as_str().unwrap_or_default());
            image == to && pods.iter().any(|pod| grant["pod"]["uid"] == pod.uid.as_str())
        })?;
        grant["modeReason"].as_str().map(str::to_owned)
    })
}
