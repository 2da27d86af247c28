//! What readiness probes ask is away for a while, in the middle of a rollout to a version that is never Ready: nobody has verified it,
//! so it gets onto no more pods than may be unavailable, as natively.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{PATIENCE, Shape, image_of, is_ready, readiness_probe};
use hitless_e2e::stack::{REGISTRY, echo_image};
use hitless_e2e::traffic::Rate;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Kubectl, Stack, Traffic, namespace};
use serde_json::{Value, json};

const REPLICAS: u32 = 4;
/// For so long the dependency is away.
const AWAY: Duration = Duration::from_secs(15);
/// No keep-alive: such connections survive a pod's not being Ready.
const RATE: Rate = Rate { fresh: 50, keepalive: 0, connections: 0, delay_ms: 0 };
/// Requests that one of two runs may lose more than the other because of the machine: what is sent in 3 s.
const TOLERATED: u64 = 150;

/// What pods need to be Ready: a Deployment `db` and its Service, whose address is returned.
fn dependency(kubectl: &Kubectl) -> anyhow::Result<String> {
    let labels = json!({"app": "db"});
    namespace::apply(kubectl, &json!({}))?;
    let container = json!({"name": "db", "image": echo_image("v1"), "readinessProbe": readiness_probe("http"),
        "ports": [{"containerPort": 8080, "name": "http"}]});
    kubectl.feed(
        &["apply"],
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "db"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}}),
    )?;
    kubectl.feed(
        &["apply"],
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"},
            "spec": {"selector": labels, "ports": [{"port": 8080, "targetPort": 8080}]}}),
    )?;
    kubectl.run(&["rollout", "status", "deployment/db", &format!("--timeout={}s", PATIENCE.as_secs())])?;
    let service = kubectl.get(&["service", "db"])?;
    Ok(service["spec"]["clusterIP"].as_str().context("no clusterIP")?.to_owned())
}

/// A second container of each pod, which is ready while the dependency is there.
fn asks(address: &str) -> Value {
    let probe = json!({"httpGet": {"host": address, "path": "/healthz", "port": 8080},
        "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1});
    let web = json!({"name": "web", "image": format!("{REGISTRY}/echo:v1"), "readinessProbe": readiness_probe("http"),
        "ports": [{"containerPort": 8080, "name": "http"}]});
    let asks = json!({"name": "asks", "image": echo_image("v1"), "readinessProbe": probe, "env": [{"name": "PORT", "value": "8081"}]});
    json!({"spec": {"template": {"spec": {"containers": [web, asks]}}}})
}

fn on_bad_version(pods: &Objects) -> usize {
    pods.values().filter(|pod| image_of(pod) == echo_image("unready")).count()
}

fn old_and_ready(pods: &Objects) -> usize {
    pods.values().filter(|pod| image_of(pod) == echo_image("v1") && is_ready(pod)).count()
}

/// The application and its load.
fn start(stack: &Stack, namespace: &str, shape: &Shape) -> anyhow::Result<(App, Traffic)> {
    let app = App::start(&stack.cluster, namespace, shape)?;
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, RATE)?;
    traffic.wait_for_requests(100, PATIENCE)?;
    Ok((app, traffic))
}

#[test]
fn while_all_probes_fail_a_version_that_nobody_has_verified_is_on_one_pod_and_no_more_is_lost_than_natively()
-> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let db = Kubectl::new(Arc::clone(&stack.cluster), "t-blips-db");
    let address = dependency(&db)?;
    let shape = Shape { replicas: REPLICAS, patch: asks(&address), ..Shape::default() };
    let native = Shape { update: None, mode: None, gate: false, ..shape.clone() };
    let (app, traffic) = start(&stack, "t-blips", &shape)?;
    let (twin, native_traffic) = start(&stack, "t-blips-native", &native)?;
    for each in [&app, &twin] {
        each.set_version("unready")?;
    }
    for each in [&app, &twin] {
        each.pods.wait("a pod of the new version", PATIENCE, |pods| (on_bad_version(pods) > 0).then_some(()))?;
    }
    db.run(&["scale", "deployment/db", "--replicas=0"])?;
    let nobody = |pods: &Objects| (!pods.values().any(is_ready)).then_some(());
    for each in [&app, &twin] {
        each.pods.wait("no Ready pod", PATIENCE, nobody)?;
    }
    let spread = app.pods.never(AWAY, |pods| (on_bad_version(pods) > 1).then(|| on_bad_version(pods)));
    db.run(&["scale", "deployment/db", "--replicas=1"])?;
    for each in [&app, &twin] {
        each.pods.wait("old pods that serve again", PATIENCE, |pods| (old_and_ready(pods) >= 3).then_some(()))?;
    }
    let later = app.pods.never(Duration::from_secs(5), |pods| (on_bad_version(pods) > 1).then(|| on_bad_version(pods)));
    let bad = [&app, &twin].map(|each| on_bad_version(&each.pods.objects()));
    let (ours, natively) = (traffic.stop()?, native_traffic.stop()?);
    for (who, bad, report) in [("hitless", bad[0], &ours), ("natively", bad[1], &natively)] {
        println!(
            "{who}: {bad} pods on the unverified version, {} of {} requests lost, longest time without service {:.1} s",
            report.failed(),
            report.requests(),
            Duration::from_millis(report.longest_pause.length_ms).as_secs_f64()
        );
    }
    drop(db.run(&["delete", "namespace", db.namespace(), "--wait=false"]));
    ensure!(spread.is_none() && later.is_none(), "{spread:?}, then {later:?} pods have the unverified version");
    let (lost, allowed) = (ours.failed(), natively.failed() + TOLERATED);
    ensure!(lost <= allowed, "{lost} requests lost, natively {}", natively.failed());
    let pauses = [&ours, &natively].map(|report| report.longest_pause.length_ms);
    ensure!(pauses[0] <= pauses[1] + 3_000, "{pauses:?} ms without service, the second natively");
    Ok(())
}

/// Pods of a CollaSet that are made anew while all probes fail (F1): a budget that is paused lets none go, and without it no more go than
/// may be unavailable, as a Deployment makes unhealthy pods anew.
#[test]
fn while_all_probes_fail_no_more_pods_of_a_collaset_are_made_anew_than_a_rule_and_its_bound_allow() -> anyhow::Result<()>
{
    let stack = Stack::attach()?;
    let db = Kubectl::new(Arc::clone(&stack.cluster), "t-blips-set-db");
    let address = dependency(&db)?;
    let space = Kubectl::new(Arc::clone(&stack.cluster), "t-blips-set");
    space.run(&["create", "namespace", space.namespace()])?;
    // Its probes ask another host, which pods that the controller makes may do only where an administrator says so.
    space.run(&["label", "namespace", space.namespace(), "hitless.dev/node-access=allowed"])?;
    let mut patch = asks(&address);
    patch["spec"]["updateStrategy"] = json!({"podUpgradePolicy": "ReCreate"});
    let shape = Shape { patch, ..Shape::colla_set(5) };
    let app = App::start(&stack.cluster, "t-blips-set", &shape)?;
    let before: BTreeSet<String> = app.identities().into_iter().map(|pod| pod.uid).collect();
    let gone = |pods: &Objects| {
        let here: BTreeSet<&str> = pods.values().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
        before.iter().filter(|uid| !here.contains(uid.as_str())).count()
    };
    app.kubectl.feed(
        &["apply"],
        &json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": "stop"},
            "spec": {"selector": {}, "paused": true}}),
    )?;
    let template = json!({"spec": {"template": {"metadata": {"labels": {"app": "web", "made": "anew"}}}}});
    app.kubectl.run(&["patch", "collaset", "web", "--type=merge", "-p", &template.to_string()])?;
    db.run(&["scale", "deployment/db", "--replicas=0"])?;
    app.pods.wait("no Ready pod", PATIENCE, |pods| (!pods.values().any(is_ready)).then_some(()))?;
    let paused = app.pods.never(AWAY, |pods| (gone(pods) > 0).then(|| gone(pods)));
    ensure!(paused.is_none(), "{paused:?} pods were deleted although a budget is paused");
    app.kubectl.run(&["delete", "transitionbudget", "stop"])?;
    app.pods.wait("a pod that is made anew", PATIENCE, |pods| (gone(pods) > 0).then_some(()))?;
    let bound = app.pods.never(AWAY, |pods| (gone(pods) > 1).then(|| gone(pods)));
    ensure!(bound.is_none(), "{bound:?} of 5 pods are made anew, and none of the new ones is available");
    db.run(&["scale", "deployment/db", "--replicas=1"])?;
    app.pods.wait("new pods", PATIENCE, |pods| {
        let ready = pods.values().filter(|pod| is_ready(pod)).count();
        (gone(pods) == 5 && ready == 5).then_some(())
    })?;
    drop(db.run(&["delete", "namespace", db.namespace(), "--wait=false"]));
    Ok(())
}

/// A good version, and a dependency that is away for longer than a start may take: nobody is to blame, and it goes on by itself.
#[test]
fn a_rollout_waits_out_what_all_pods_need_and_ends_well() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let db = Kubectl::new(Arc::clone(&stack.cluster), "t-blips-good-db");
    let mut patch = asks(&dependency(&db)?);
    patch["spec"]["progressDeadlineSeconds"] = 15.into();
    let app = App::start(&stack.cluster, "t-blips-good", &Shape { replicas: 3, patch, ..Shape::default() })?;
    let nobody = |pods: &Objects| (!pods.values().any(is_ready)).then_some(());
    // What is away has to go before the first pod of the new version is verified: as soon as that pod leaves, and its start is slow.
    app.set_version("slow")?;
    let leaves = |pods: &Objects| pods.values().any(|pod| !is_ready(pod)).then_some(());
    app.pods.wait("a pod that leaves", PATIENCE, leaves)?;
    db.run(&["scale", "deployment/db", "--replicas=0"])?;
    app.pods.wait("no Ready pod", PATIENCE, nobody)?;
    app.wait_event("DependencyAway")?;
    std::thread::sleep(AWAY);
    db.run(&["scale", "deployment/db", "--replicas=1"])?;
    app.wait_version("slow", 3)?;
    app.wait_ready(3)?;
    drop(db.run(&["delete", "namespace", db.namespace(), "--wait=false"]));
    app.wait_not_halted()
}
