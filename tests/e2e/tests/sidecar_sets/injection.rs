//! What users see on a cluster.

use anyhow::{Context as _, ensure};
use hitless_e2e::Stack;
use hitless_e2e::app::{App, Workload};
use hitless_e2e::stack::echo_image;
use serde_json::{Value, json};

use crate::sidecar_set::{SidecarSet, collector, shape};

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
    set.wait_injected("True")?;
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
    set.wait_injected("True")?;
    let app = App::start(&stack.cluster, &namespace, &shape(Workload::Deployment, 1))?;

    // The API server says itself what is wrong; what it does not see is said by hitless.
    let port = json!([{"op": "add", "path": "/spec/containers/0/ports", "value": [{"containerPort": 99_999}]}]);
    let mount = json!([{"op": "add", "path": "/spec/containers/0/volumeMounts/-", "value": {"name": "nowhere", "mountPath": "/x"}}]);
    for (edit, reason, words) in [
        (&port, "SidecarsNotAccepted", "must be between 1 and 65535"),
        (&mount, "InvalidSpec", "mounts nowhere, which is not in spec.volumes"),
    ] {
        set.patch(edit)?;
        let condition = set.wait_injected("False")?;
        let message = condition["message"].as_str().unwrap_or_default();
        ensure!(condition["reason"] == reason && message.contains(words), "{condition}");
        ensure!(message.ends_with("new pods get what it said before"), "{message}");
    }
    app.kubectl.run(&["scale", "deployment/web", "--replicas=2"])?;
    app.wait_ready(2)?;
    ensure_injected(&app, "t-log-edit", &image)?;

    // Mended, with another image: that is what the next pod gets, and these get it in place.
    let (newer, before) = (echo_image("v2"), app.identities());
    set.patch(&json!([{"op": "remove", "path": "/spec/containers/0/ports"}, {"op": "remove", "path": "/spec/containers/0/volumeMounts/1"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": newer}]))?;
    set.wait_counts(2, 2)?;
    set.wait_condition("Updated", |condition| condition["status"] == "True")?;
    ensure!(app.identities() == before, "pods were made anew");
    ensure_injected(&app, "t-log-edit", &newer)
}
