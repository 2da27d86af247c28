//! Other images for the sidecars of a fleet.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, PATIENCE, Workload};
use hitless_e2e::stack::{echo_image, image};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic};
use serde_json::Value;

use crate::sidecar_set::{SidecarSet, collector, shape};

/// Of each pod, by its uid: the image of a container, and how often it was restarted.
fn containers(apps: &[App], name: &str) -> anyhow::Result<BTreeMap<String, (String, u64)>> {
    let mut all = BTreeMap::new();
    for app in apps {
        for pod in app.pods_now()?.values() {
            let of = |list: &Value| list.as_array().into_iter().flatten().find(|each| each["name"] == name).cloned();
            let spec = of(&pod["spec"]["containers"]).context("a pod without the container")?;
            let restarts = of(&pod["status"]["containerStatuses"])
                .map_or(0, |status| status["restartCount"].as_u64().unwrap_or_default());
            let uid = pod["metadata"]["uid"].as_str().context("a pod without uid")?;
            all.insert(uid.to_owned(), (spec["image"].as_str().unwrap_or_default().to_owned(), restarts));
        }
    }
    Ok(all)
}

#[test]
fn a_new_image_reaches_the_sidecars_of_a_fleet_without_a_new_pod_or_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let kinds = [(Workload::Deployment, "d"), (Workload::StatefulSet, "s"), (Workload::CloneSet, "c")];
    let namespaces: Vec<String> = kinds.iter().map(|(_, name)| format!("t-sidecar-fleet-{name}")).collect();
    let mut collector = collector("t-fleet", &namespaces, &echo_image("v1"));
    collector["spec"]["updateStrategy"] = serde_json::json!({"maxUnavailable": 2});
    let set = SidecarSet::apply(&stack, &collector)?;
    set.wait_injected("True")?;
    let apps: Vec<App> = kinds
        .iter()
        .zip(&namespaces)
        .map(|((workload, _), namespace)| App::start(&stack.cluster, namespace, &shape(*workload, 2).parking()))
        .collect::<anyhow::Result<_>>()?;
    let traffics: Vec<Traffic> = apps
        .iter()
        .map(|app| Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default()))
        .collect::<anyhow::Result<_>>()?;
    traffics.iter().try_for_each(|traffic| traffic.wait_for_requests(100, PATIENCE))?;
    let before = containers(&apps, "web")?;

    set.set_image(&echo_image("v2"))?;
    set.wait_condition("Updated", |condition| condition["status"] == "True")?;
    set.wait_counts(6, 6)?;
    ensure!(containers(&apps, "web")? == before, "pods were made anew, or their applications restarted");
    let sidecars = containers(&apps, "log")?;
    ensure!(sidecars.values().all(|(image, restarts)| *image == echo_image("v2") && *restarts == 1), "{sidecars:?}");

    // One that is nowhere: nobody is touched.
    set.set_image(&echo_image("no-such-version"))?;
    set.wait_condition("Updated", |condition| condition["reason"] == "InProgress")?;
    set.set_image(&echo_image("v2"))?;
    set.wait_condition("Updated", |condition| condition["status"] == "True")?;
    ensure!(containers(&apps, "log")? == sidecars, "a sidecar was restarted");
    ensure!(containers(&apps, "web")? == before, "pods were made anew, or their applications restarted");
    for traffic in traffics {
        let report = traffic.stop()?;
        ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
    }
    Ok(())
}

#[test]
fn a_sidecar_that_does_not_start_is_undone_in_the_pod_that_shows_it_and_reaches_no_other() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let namespace = "t-sidecar-bad".to_owned();
    let set = SidecarSet::apply(&stack, &collector("t-bad", std::slice::from_ref(&namespace), &echo_image("v1")))?;
    set.wait_injected("True")?;
    let mut shape = shape(Workload::Deployment, 2);
    shape.patch["spec"]["progressDeadlineSeconds"] = serde_json::json!(15);
    let apps = [App::start(&stack.cluster, &namespace, &shape)?];
    let (before, web) = (containers(&apps, "log")?, containers(&apps, "web")?);
    stack.push_echo("sidecar", "bad", &[("FAIL", "exit")], None)?;
    set.set_image(&image("sidecar", "bad"))?;
    let halted = set.wait_condition("Updated", |condition| condition["reason"] == "SidecarUpdateHalted")?;
    ensure!(
        halted["message"].as_str().is_some_and(|message| message.contains("was judged bad by pod web-")),
        "{halted}"
    );
    apps[0].wait_ready(2)?;
    let after = containers(&apps, "log")?;
    let touched = after.iter().filter(|(uid, now)| before.get(*uid) != Some(now)).count();
    ensure!(touched == 1 && after.values().all(|(image, _)| *image == echo_image("v1")), "{before:?}, then {after:?}");
    ensure!(containers(&apps, "web")? == web, "pods were made anew, or their applications restarted");
    // The same again where its owner wants it; another image goes on by itself.
    set.set_image(&echo_image("v2"))?;
    set.wait_condition("Updated", |condition| condition["status"] == "True")?;
    set.wait_counts(2, 2)
}
