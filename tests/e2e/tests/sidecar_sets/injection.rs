//! What users see on a cluster.

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, PATIENCE, Shape, Workload};
use hitless_e2e::stack::echo_image;
use hitless_e2e::{Kubectl, Stack, Watch};
use serde_json::{Value, json};

const RESOURCE: &str = "sidecarsets.apps.kruise.io";

/// The announcement's example: a log collector with a volume of its own, and the application's volume of the same name.
fn collector(name: &str, namespaces: &[String], image: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]},
        "containers": [{"name": "log", "image": image, "env": [{"name": "PORT", "value": "15090"}],
            "volumeMounts": [{"name": "log-volume", "mountPath": "/var/log"}]}],
        "volumes": [{"name": "log-volume", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]}})
}

/// Deletes it at the end, whatever has become of the test.
struct SidecarSet {
    kubectl: Kubectl,
    name: String,
    all: Watch,
}

impl SidecarSet {
    fn apply(stack: &Stack, set: &Value) -> anyhow::Result<Self> {
        let kubectl = stack.system();
        let name = set["metadata"]["name"].as_str().context("a SidecarSet without a name")?.to_owned();
        kubectl.feed(&["apply"], set)?;
        Ok(Self { all: Watch::start(&kubectl, &[RESOURCE])?, kubectl, name })
    }

    /// Waits for the condition that tells whether new pods get what it says now, and returns it.
    fn wait_condition(&self, status: &str) -> anyhow::Result<Value> {
        self.all.wait(&format!("SidecarSet {}: Injected={status}", self.name), PATIENCE, |all| {
            let set = all.get(&self.name)?;
            let condition = set["status"]["conditions"].as_array()?.iter().find(|each| each["type"] == "Injected")?;
            let is_of_now = condition["observedGeneration"] == set["metadata"]["generation"];
            (is_of_now && condition["status"] == status).then(|| condition.clone())
        })
    }

    fn wait_counts(&self, matched: u32, updated: u32) -> anyhow::Result<()> {
        self.all.wait(&format!("{updated} updated of {matched} pods with its containers"), PATIENCE, |all| {
            let status = &all.get(&self.name)?["status"];
            (status["matchedPods"] == matched && status["updatedPods"] == updated && status["readyPods"] == matched)
                .then_some(())
        })
    }

    fn patch(&self, patch: &Value) -> anyhow::Result<()> {
        self.kubectl.run(&["patch", RESOURCE, &self.name, "--type=json", "-p", &patch.to_string()]).map(drop)
    }
}

impl Drop for SidecarSet {
    fn drop(&mut self) {
        if let Err(error) = self.kubectl.run(&["delete", RESOURCE, &self.name]) {
            eprintln!("SidecarSet {} stays: {error:#}", self.name);
        }
    }
}

/// The application has a volume of the name of the collector's.
fn shape(workload: Workload, replicas: u32) -> Shape {
    let own = match workload {
        Workload::CloneSet => Shape::clone_set(replicas),
        _ => Shape { workload, replicas, ..Shape::default() },
    };
    let spec = json!({"volumes": [{"name": "log-volume", "emptyDir": {"medium": "Memory"}}]});
    Shape { patch: json!({"spec": {"template": {"spec": spec}}}), ..own }
}

/// Every pod has the collector in front, with that image and the application's own volume.
fn ensure_injected(app: &App, set: &str, image: &str) -> anyhow::Result<()> {
    for (name, pod) in app.pods_now()? {
        let containers = pod["spec"]["containers"].as_array().context("no containers")?;
        let names: Vec<&str> = containers.iter().filter_map(|each| each["name"].as_str()).collect();
        ensure!(names == ["log", "web"], "pod {name} has containers {names:?}");
        ensure!(containers[0]["image"] == image, "pod {name} has the collector {}", containers[0]["image"]);
        let volumes = pod["spec"]["volumes"].as_array().context("no volumes")?;
        let logs: Vec<&Value> = volumes.iter().filter(|volume| volume["name"] == "log-volume").collect();
        ensure!(logs.len() == 1 && logs[0]["emptyDir"]["medium"] == "Memory", "pod {name} has {logs:?}");
        ensure!(volumes.iter().all(|volume| volume["name"] != "unused"), "nobody mounts it, and pod {name} has it");
        ensure!(pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"] == set, "pod {name}: {pod}");
    }
    Ok(())
}

#[test]
fn pods_of_every_kind_get_its_containers_and_without_a_pod_of_ours_too() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let kinds = [(Workload::Deployment, "d"), (Workload::StatefulSet, "s"), (Workload::CloneSet, "c")];
    let namespaces: Vec<String> = kinds.iter().map(|(_, name)| format!("t-sidecar-sets-{name}")).collect();
    let image = echo_image("v1");
    let set = SidecarSet::apply(&stack, &collector("t-log", &namespaces, &image))?;
    set.wait_condition("True")?;
    let started: Vec<App> = kinds
        .iter()
        .zip(&namespaces)
        .map(|((workload, _), namespace)| App::start(&stack.cluster, namespace, &shape(*workload, 2)))
        .collect::<anyhow::Result<_>>()?;
    for app in &started {
        ensure_injected(app, "t-log", &image)?;
    }
    set.wait_counts(6, 6)?;

    // Nobody of hitless is there: pods are made, and have it.
    let app = &started[0];
    let before = app.identities();
    stack.scale_controller(0)?;
    app.kubectl.run(&["delete", "pods", "-l", "app=web", "--wait=false"])?;
    let replaced = app.wait_replaced(&before).and_then(|()| ensure_injected(app, "t-log", &image));
    stack.scale_controller(2)?;
    replaced
}

/// Report of users #1330: what is wrong is said where it was written, and not by pods that can't be made.
#[test]
fn an_edit_that_makes_no_pod_possible_is_told_and_new_pods_get_what_was_there_before() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let namespace = "t-sidecar-sets-edit".to_owned();
    let image = echo_image("v1");
    let set = SidecarSet::apply(&stack, &collector("t-log-edit", std::slice::from_ref(&namespace), &image))?;
    set.wait_condition("True")?;
    let app = App::start(&stack.cluster, &namespace, &shape(Workload::Deployment, 1))?;

    // The API server says itself what is wrong; what it does not see is said by hitless.
    let port = json!([{"op": "add", "path": "/spec/containers/0/ports", "value": [{"containerPort": 99_999}]}]);
    let mount = json!([{"op": "add", "path": "/spec/containers/0/volumeMounts/-", "value": {"name": "nowhere", "mountPath": "/x"}}]);
    let undo = json!([{"op": "remove", "path": "/spec/containers/0/ports"}]);
    for (edit, reason, words) in [
        (&port, "SidecarsNotAccepted", "must be between 1 and 65535"),
        (&mount, "InvalidSpec", "mounts nowhere, which is not in spec.volumes"),
    ] {
        set.patch(edit)?;
        let condition = set.wait_condition("False")?;
        let message = condition["message"].as_str().unwrap_or_default();
        ensure!(condition["reason"] == reason && message.contains(words), "{condition}");
        ensure!(message.ends_with("new pods get what it said before"), "{message}");
    }
    app.kubectl.run(&["scale", "deployment/web", "--replicas=2"])?;
    app.wait_ready(2)?;
    ensure_injected(&app, "t-log-edit", &image)?;

    // Mended, with another image: that is what the next pod gets, and the others are counted as they are.
    let newer = echo_image("v2");
    set.patch(&undo)?;
    set.patch(&json!([{"op": "remove", "path": "/spec/containers/0/volumeMounts/1"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": newer}]))?;
    set.wait_condition("True")?;
    set.wait_counts(2, 0)?;
    let before = app.identities();
    app.kubectl.run(&["delete", "pods", "-l", "app=web", "--wait=false"])?;
    app.wait_replaced(&before)?;
    ensure_injected(&app, "t-log-edit", &newer)?;
    set.wait_counts(2, 2)
}
