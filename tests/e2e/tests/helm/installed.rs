//! An installation by each version of Helm, on the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{PATIENCE, Shape, condition, readiness_probe};
use hitless_e2e::helm::{RELEASE, chart};
use hitless_e2e::stack::echo_image;
use hitless_e2e::traffic::Rate;
use hitless_e2e::watch::States;
use hitless_e2e::{App, Helm, Kubectl, Stack, Traffic};
use serde_json::{Value, json};

/// One after the other: there is one installation. Helm 3 takes over what kubectl has installed, Helm 4 installs anew, in another namespace.
#[test]
fn each_helm_installs_upgrades_and_uninstalls_in_mid_rollout_without_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let [helm_3, helm_4] = Helm::both()?;
    let values = stack.write_values()?;
    let (system, elsewhere) = (stack.system(), stack.system().in_namespace("t-upgrades"));
    let outcome = taken_over(&helm_3, &system, &values)
        .and_then(|()| used(&stack, &helm_3, &system, &values))
        .and_then(|()| installed(&stack, &helm_4, &elsewhere, &values))
        .and_then(|()| used(&stack, &helm_4, &elsewhere, &values));
    elsewhere.run(&["delete", "namespace", elsewhere.namespace(), "--ignore-not-found", "--timeout=120s"])?;
    // First what has failed: an installation on top of it may fail, too.
    outcome?;
    stack.take_over_definitions()?;
    stack.install()
}

/// Without being asked to, Helm takes nothing over.
fn taken_over(helm: &Helm, system: &Kubectl, values: &str) -> anyhow::Result<()> {
    let chart = chart();
    let install = ["upgrade", "--install", RELEASE, &chart, "--values", values, "--wait", "--timeout", "120s"];
    let refused = helm.try_run(system, &install)?;
    let why = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && why.contains("cannot be imported into the current release"), "{why}");
    let before = programs(system)?;
    helm.run(system, &[&install[..], &["--take-ownership"]].concat())?;
    Stack::wait_ready_in(system)?;
    ensure!(programs(system)? == before, "controllers or agents were restarted");
    Ok(())
}

/// Names of the pods of both programs.
fn programs(system: &Kubectl) -> anyhow::Result<BTreeSet<String>> {
    let pods = system.list(&["pods", "-l", "app.kubernetes.io/part-of=hitless"])?;
    Ok(pods.iter().map(|pod| pod["metadata"]["name"].to_string()).collect())
}

/// The definitions that the uninstall has left are those of a release in another namespace. Server-side, whose they are is a conflict, too.
fn installed(stack: &Stack, helm: &Helm, system: &Kubectl, values: &str) -> anyhow::Result<()> {
    let chart = chart();
    let install =
        ["install", RELEASE, &chart, "--values", values, "--create-namespace", "--take-ownership", "--force-conflicts"];
    helm.run(system, &[&install[..], &["--wait", "--timeout", "120s"]].concat())?;
    Stack::wait_ready_in(system)?;
    stack.wait_gate()
}

/// An application that loses nothing natively either: after an uninstall its rollout goes on natively. It opts in by its namespace's label.
fn graceful(stack: &Stack, helm: &Helm) -> anyhow::Result<App> {
    let container = json!({"name": "web", "image": echo_image("v1"), "readinessProbe": readiness_probe("http"),
        "ports": [{"containerPort": 8080, "name": "http"}], "env": [{"name": "MODE", "value": "graceful"}],
        "lifecycle": {"preStop": {"sleep": {"seconds": 2}}}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let namespace = format!("t-{}", helm.name());
    stack.wait_opt_in(&Kubectl::new(Arc::clone(&stack.cluster), &namespace))?;
    let app =
        App::start(&stack.cluster, &namespace, &Shape { replicas: 2, by_namespace: true, patch, ..Shape::default() })?;
    let deployment = app.kubectl.get(&["deployment", "web"])?;
    ensure!(deployment["metadata"]["annotations"]["hitless.dev/update"] == "in-place", "{}", deployment["metadata"]);
    let gates = app.kubectl.list(&["pods", "-l", "app=web"])?;
    ensure!(gates.iter().all(|pod| pod["spec"]["readinessGates"].is_array()), "a pod has no readiness gate");
    Ok(app)
}

fn used(stack: &Stack, helm: &Helm, system: &Kubectl, values: &str) -> anyhow::Result<()> {
    println!("{}", helm.run(system, &["test", RELEASE, "--timeout", "120s"])?);
    let other = helm.try_run(system, &["install", "second", &chart(), "--values", values])?;
    let why = String::from_utf8_lossy(&other.stderr);
    ensure!(!other.status.success() && why.contains("this cluster has hitless already, as release hitless"), "{why}");

    let app = graceful(stack, helm)?;
    let budget = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": "one"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}});
    app.kubectl.feed(&["apply"], &budget)?;
    let before = app.identities();
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;

    let (mut pods, begin) = (app.pods.follow(), Instant::now());
    app.set_version("v2")?;
    wait_out(&mut pods)?;
    // Both programs are replaced while a pod is out of service.
    let settings = ["--set", "controller.settings.HITLESS_LOG=debug", "--set", "agent.settings.HITLESS_LOG=debug"];
    let upgrade = ["upgrade", RELEASE, &chart(), "--values", values, "--wait", "--timeout", "180s"];
    helm.run(system, &[&upgrade[..], &settings[..]].concat())?;
    app.wait_version("v2", 2)?;
    app.wait_unheld()?;
    ensure!(app.identities() == before, "pods were replaced: {before:?}");
    println!(
        "{}: updated in place {:.1} s after the change, with an upgrade meanwhile",
        helm.name(),
        begin.elapsed().as_secs_f64()
    );

    let others = others(helm, system)?;
    let mut pods = app.pods.follow();
    app.set_version("v3")?;
    wait_out(&mut pods)?;
    helm.run(system, &["uninstall", RELEASE, "--wait", "--timeout", "120s"])?;
    app.wait_unheld()?;
    app.rollout_status()?;
    app.wait_version("v3", 2)?;
    traffic.wait_for_more(400, PATIENCE)?;
    let report = traffic.stop()?;
    println!(
        "{}: {} requests, {} failed",
        helm.name(),
        report.requests(),
        report.fresh.failed + report.keepalive.failed
    );
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    left(system, &app, &others)
}

const KINDS: &str = "deployments,daemonsets,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,priorityclasses,\
                     mutatingadmissionpolicies,validatingadmissionpolicies,flowschemas,prioritylevelconfigurations";

/// Objects of hitless, as `kind.group/name`.
fn ours(system: &Kubectl) -> anyhow::Result<BTreeSet<String>> {
    let names = system.run(&["get", KINDS, "-o", "name"])?;
    Ok(names.lines().filter(|name| name.contains("hitless")).map(str::to_owned).collect())
}

/// Those that the release does not have: another test has installed a component beside it.
fn others(helm: &Helm, system: &Kubectl) -> anyhow::Result<BTreeSet<String>> {
    let manifest = helm.run(system, &["get", "manifest", RELEASE])?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest).context("no YAML")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let released: BTreeSet<(String, String)> = objects
        .iter()
        .map(|object| (text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"])))
        .collect();
    let key = |name: &str| {
        let (kind, name) = name.split_once('/').unwrap_or_default();
        (kind.split('.').next().unwrap_or_default().to_owned(), name.to_owned())
    };
    let others: BTreeSet<String> = ours(system)?.into_iter().filter(|name| !released.contains(&key(name))).collect();
    ensure!(released.len() > 50 && others.len() < released.len(), "{released:?} {others:?}");
    Ok(others)
}

/// What people wrote is left with its definition, and nothing of ours but definitions.
fn left(system: &Kubectl, app: &App, others: &BTreeSet<String>) -> anyhow::Result<()> {
    app.kubectl.get(&["transitionbudgets/one"])?;
    for what in ["serviceaccount", "clusterrole", "clusterrolebinding"] {
        system.run(&["wait", &format!("{what}/hitless-uninstall"), "--for=delete", "--timeout=120s"])?;
    }
    let ours: Vec<String> = ours(system)?.difference(others).cloned().collect();
    // It keeps people from deleting the definitions by mistake, and stays with them.
    let guard = ["validatingadmissionpolicy.admissionregistration.k8s.io/hitless-definitions"];
    ensure!(ours == guard, "after the uninstall there is {ours:?}");
    let definitions = system.run(&["get", "crds", "-l", "app.kubernetes.io/part-of=hitless", "-o", "name"])?;
    println!("left: {}", definitions.split_whitespace().collect::<Vec<_>>().join(" "));
    ensure!(
        definitions.contains("transitionbudgets.hitless.dev") && !definitions.contains("transitionledgers"),
        "{definitions}"
    );
    Ok(())
}

fn wait_out(pods: &mut States<'_>) -> anyhow::Result<()> {
    pods.wait("a pod out of service", PATIENCE, |pods| {
        pods.values().any(|pod| condition(pod, "hitless.dev/InService") == Some("False")).then_some(())
    })
}
