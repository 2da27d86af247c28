//! What happens when a part of hitless dies, lies or is missing. These tests disturb the installation, so they take turns.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{self, PATIENCE, Shape, condition, image_of};
use hitless_e2e::stack::echo_image;
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Kubectl, Stack, Traffic, Watch, endpoint};
use serde_json::{Value, json};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn slow(replicas: u32) -> Shape {
    Shape { replicas, ..Shape::default() }.out_for(3)
}

fn out_of_service(pods: &Objects) -> usize {
    pods.values().filter(|pod| condition(pod, "hitless.dev/InService") == Some("False")).count()
}

/// Name of the node of the first pod that is out of service.
fn node_of_leaving_pod(app: &App) -> anyhow::Result<String> {
    app.pods.wait("a pod out of service", PATIENCE, |pods| {
        let pod = pods.values().find(|pod| condition(pod, "hitless.dev/InService") == Some("False"))?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    })
}

fn assert_all_updated(app: &App, version: &str, replicas: usize) -> anyhow::Result<()> {
    app.rollout_status()?;
    app.wait_unheld()?;
    app.wait_version(version, replicas)?;
    ensure!(out_of_service(&app.pods.objects()) == 0, "a pod was left out of service");
    Ok(())
}

#[test]
fn an_agent_killed_while_draining_and_while_operating_loses_nothing() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-agent-killed", &slow(3))?;
    let before = app.identities();
    let traffic = Traffic::start(
        &stack.cluster,
        &stack.programs,
        app.address,
        Rate { fresh: 50, keepalive: 50, ..Rate::default() },
    )?;
    traffic.wait_for_requests(100, PATIENCE)?;
    app.set_version("v2")?;
    // While draining.
    let node = node_of_leaving_pod(&app)?;
    stack.kill_agent(&node)?;
    // While operating: the moment the new image is in a pod's spec.
    let node = app.pods.wait("a pod with the new image", PATIENCE, |pods| {
        let pod = pods.values().find(|pod| image_of(pod) == echo_image("v2"))?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    })?;
    stack.kill_agent(&node)?;
    assert_all_updated(&app, "v2", 3)?;
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0, "fresh requests failed: {report:?}");
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

/// A pod whose preStop hook waits at the agent for fifteen seconds at least: long enough to take the agent away meanwhile.
fn with_hook(stack: &Stack, namespace: &str) -> anyhow::Result<Shape> {
    let plain = app::manifest(&Shape::default());
    let mut container = plain.pointer("/spec/template/spec/containers/0").context("no container")?.clone();
    let path = format!("/v1/pods/{namespace}/drain?labelSelector=app%3Dweb&wait=drained&timeout=30s");
    container["lifecycle"] =
        json!({"preStop": {"httpGet": {"host": stack.cluster.loopback(), "port": 9754, "path": path}}});
    let annotations = json!({"hitless.dev/drain": "{\"minSeconds\":15}"});
    let spec = json!({"terminationGracePeriodSeconds": 40, "containers": [container]});
    let change = json!({"spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}});
    Ok(Shape { replicas: 2, update: None, gate: false, mode: None, patch: change, ..Shape::default() })
}

#[test]
fn an_agent_that_is_replaced_ends_the_drain_that_a_prestop_hook_waits_for() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-agent-replaced", &with_hook(&stack, "t-agent-replaced")?)?;
    let rate = Rate { fresh: 50, keepalive: 50, ..Rate::default() };
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let victim = app.identities().into_iter().next().context("no pod")?;
    app.kubectl.run(&["delete", "pod", &victim.name, "--wait=false"])?;
    let node = app.pods.wait("the deletion", PATIENCE, |pods| {
        let pod = pods.get(&victim.name).filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null())?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    })?;
    let agent = stack.agent_of(&node)?;
    let agent = agent["metadata"]["name"].as_str().context("a pod without a name")?;
    until_answered(|| {
        let (_, body) = endpoint::get(&stack.cluster, &node, "/v1/node")?;
        ensure!(body.contains(&victim.name), "the hook of {} does not wait: {body}", victim.name);
        Ok(())
    })?;
    stack.system().run(&["delete", "pod", agent, "--wait=false"])?;
    let begin = Instant::now();
    app.pods.wait("the pod to be gone", PATIENCE, |pods| (!pods.contains_key(&victim.name)).then_some(()))?;
    let took = begin.elapsed();
    stack.wait_ready()?;
    app.wait_ready(2)?;
    let report = traffic.stop()?;
    ensure!(took >= Duration::from_secs(2), "the drain was over before its agent was to go: gone after {took:?}");
    println!("gone {took:?} after its agent had been deleted: {}", serde_json::to_string(&report)?);
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    let events = app.kubectl.list(&["events.events.k8s.io"])?;
    let failed: Vec<&Value> = events.iter().filter(|event| event["reason"] == "FailedPreStopHook").collect();
    ensure!(failed.is_empty(), "a hook failed: {failed:?}");
    Ok(())
}

#[test]
fn an_agent_killed_while_leaving_and_while_returning_loses_nothing() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-agent-killed-again", &Shape { replicas: 2, ..Shape::default() })?;
    let before = app.identities();
    let rate = Rate { fresh: 50, keepalive: 50, ..Rate::default() };
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(100, PATIENCE)?;
    // That a pod returns is seen for a moment only.
    let mut pods = app.pods.follow();
    let mut killed_when = |what: &str, is_so: fn(&Value) -> bool| {
        let node = pods.wait(what, PATIENCE, |pods| {
            pods.values().find(|pod| is_so(pod))?["spec"]["nodeName"].as_str().map(str::to_owned)
        })?;
        stack.kill_agent(&node)?;
        anyhow::Ok(node)
    };
    app.set_version("v2")?;
    let first = killed_when("a pod that leaves", |pod| condition(pod, "hitless.dev/InService") == Some("False"))?;
    let second = killed_when("a pod that returns", |pod| {
        image_of(pod) == echo_image("v2")
            && condition(pod, "hitless.dev/InService") == Some("True")
            && condition(pod, "Ready") == Some("False")
    })?;
    assert_all_updated(&app, "v2", 2)?;
    let report = traffic.stop()?;
    // New ones have no back-off of the kubelet, in which the next test would wait.
    for node in BTreeSet::from([first, second]) {
        stack.renew_agent(&node)?;
    }
    ensure!(report.fresh.failed == 0, "fresh requests failed: {report:?}");
    ensure!(report.keepalive.failed == 0, "kept-alive requests failed: {report:?}");
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

#[test]
fn a_controller_killed_in_mid_rollout_is_succeeded_by_the_other_one() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-controller-killed", &slow(3))?;
    app.set_version("v2")?;
    node_of_leaving_pod(&app)?;
    stack.kill_leader()?;
    let over = app.pods.wait("the rollout to end", PATIENCE, |pods| {
        let over = out_of_service(pods) > 1;
        let done = pods.values().all(|pod| image_of(pod) == echo_image("v2"));
        (over || done).then_some(over)
    })?;
    ensure!(!over, "the new leader over-spent the budget");
    assert_all_updated(&app, "v2", 3)
}

#[test]
fn a_reservation_without_a_grant_is_taken_up_or_freed_by_the_next_leader() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-between", &Shape { replicas: 2, ..Shape::default() })?;
    stack.scale_controller(0)?;
    // What a leader leaves that is killed after it wrote the ledger and before it wrote the grant.
    let pod = app.identities().into_iter().next().context("no pod")?;
    let node = app.kubectl.get(&["pod", &pod.name])?["spec"]["nodeName"].clone();
    let reservation = json!({"id": format!("{}.0123456789abcdef", pod.uid), "pod": pod.name, "node": node, "owner": "Deployment/web",
        "rules": ["implicit"], "since": "2026-01-01T00:00:00.000000Z", "images": {"web": echo_image("v2")}, "fromImages": {"web": echo_image("v1")}});
    let ledger = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionLedger", "metadata": {"name": "ledger"},
        "spec": {"leader": {"epoch": 0, "holder": "dead"}, "reservations": {pod.uid.clone(): reservation}}});
    app.kubectl.feed(&["apply", "--as=system:serviceaccount:hitless-system:hitless-controller"], &ledger)?;
    stack.scale_controller(2)?;
    let ledgers = Watch::start(&app.kubectl, &["transitionledgers"])?;
    ledgers.wait("the orphaned reservation to be freed", PATIENCE, |ledgers| {
        ledgers.get("ledger")?["spec"]["reservations"].as_object().is_none_or(serde_json::Map::is_empty).then_some(())
    })?;
    app.set_version("v2")?;
    assert_all_updated(&app, "v2", 2)?;
    Ok(())
}

#[test]
fn two_controllers_that_both_believe_to_lead_never_over_spend() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-two-leaders", &Shape { replicas: 4, ..Shape::default() })?;
    // A second controller with a lease of its own: nothing stops it from leading.
    let system = stack.system();
    let mut second = system.get(&["deployment", "hitless-controller"])?;
    second["metadata"] = json!({"name": "second-controller", "namespace": "hitless-system"});
    second["spec"]["replicas"] = json!(1);
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        second.pointer_mut(labels).context("labels")?["app.kubernetes.io/instance"] = json!("second");
    }
    let env =
        second.pointer_mut("/spec/template/spec/containers/0/env").and_then(Value::as_array_mut).context("env")?;
    env.push(json!({"name": "HITLESS_LEASE", "value": "second-controller"}));
    second.as_object_mut().context("object")?.remove("status");
    system.feed(&["apply"], &second)?;
    let outcome = (|| {
        system.run(&["rollout", "status", "deployment/second-controller", "--timeout=120s"])?;
        for version in ["v2", "v3"] {
            app.set_version(version)?;
            let over = app.pods.wait("the rollout to end", PATIENCE, |pods| {
                let over = out_of_service(pods) > 1;
                let done = pods.values().all(|pod| image_of(pod) == echo_image(version));
                (over || done).then_some(over)
            })?;
            ensure!(!over, "25 % of 4 is 1, but two leaders took more out of service");
            assert_all_updated(&app, version, 4)?;
        }
        Ok(())
    })();
    system.run(&["delete", "deployment", "second-controller"])?;
    outcome
}

#[test]
fn grants_that_make_no_sense_are_refused_and_reported() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-bad-grants", &Shape { replicas: 1, ..Shape::default() })?;
    let pod = app.identities().into_iter().next().context("no pod")?;
    let node = app.kubectl.get(&["pod", &pod.name])?["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let other = ["n1", "n2"].into_iter().find(|name| *name != node).unwrap_or_default();
    stack.scale_controller(0)?;
    let outcome = (|| {
        let granted = stack.now();
        let grant = |id: &str, name: &str, uid: &str, container: &str| {
            json!({"id": id, "epoch": 0, "pod": {"namespace": app.kubectl.namespace(), "name": name, "uid": uid}, "op": "Update", "mode": "Leave",
                "containers": {container: {"from": echo_image("v1"), "to": echo_image("v2")}}, "before": {}, "drain": {}, "verify": {},
                "granted": granted, "ttlSeconds": 60})
        };
        let mut unsupported = grant("x.op", &pod.name, &pod.uid, "web");
        unsupported["op"] = json!("Levitate");
        let here = [
            grant("x.gone", "no-such-pod", "u-1", "web"),
            grant("x.uid", &pod.name, "u-2", "web"),
            grant("x.container", &pod.name, &pod.uid, "no-such-container"),
            unsupported,
        ];
        let there = [grant("x.node", &pod.name, &pod.uid, "web")];
        write_grants(&stack.system(), &node, &here)?;
        write_grants(&stack.system(), other, &there)?;
        let transitions = Watch::start(&stack.system(), &["nodetransitions"])?;
        for (node, id, outcomes) in [
            (node.as_str(), "x.gone", ["PodGone", "PodGone"]),
            (node.as_str(), "x.uid", ["PodUIDMismatch", "PodGone"]),
            (node.as_str(), "x.container", ["UnknownContainer", "UnknownContainer"]),
            (node.as_str(), "x.op", ["UnsupportedOp", "UnsupportedOp"]),
            (other, "x.node", ["WrongNode", "WrongNode"]),
        ] {
            let reason = transitions.wait(&format!("a result for {id}"), PATIENCE, |objects| {
                let entries = objects.get(node)?["status"]["transitions"].as_array()?.clone();
                let entry = entries.into_iter().find(|entry| entry["id"] == id)?;
                entry["result"]["reason"].as_str().map(str::to_owned)
            })?;
            ensure!(outcomes.contains(&reason.as_str()), "{id} was answered by {reason}");
        }
        ensure!(app.pods.objects().values().all(|pod| image_of(pod) == echo_image("v1")), "a pod was operated");
        ensure!(out_of_service(&app.pods.objects()) == 0, "a pod was taken out of service");
        Ok(())
    })();
    stack.scale_controller(2)?;
    outcome
}

/// Writes a NodeTransition as the controller would.
fn write_grants(system: &Kubectl, node: &str, grants: &[Value]) -> anyhow::Result<()> {
    let uid = system.get(&["node", node])?["metadata"]["uid"].clone();
    let object = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition", "metadata": {"name": node},
        "spec": {"nodeUID": uid, "epoch": 0, "grants": grants}});
    system
        .feed(
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--as=system:serviceaccount:hitless-system:hitless-controller",
            ],
            &object,
        )
        .map(drop)
}

#[test]
fn a_gated_pod_on_a_node_without_an_agent_becomes_ready() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let system = stack.system();
    let agent = stack.agent_of("n2")?;
    let agent = agent["metadata"]["name"].as_str().context("a pod without a name")?;
    let label = "hitless.dev/e2e-agent=yes";
    system.run(&["label", "node", "n1", label, "--overwrite"])?;
    let affinity =
        json!({"spec": {"template": {"spec": {"nodeSelector": {"hitless.dev/e2e-agent": "yes"}}}}}).to_string();
    system.run(&["patch", "daemonset", "hitless-agent", "-p", &affinity])?;
    let outcome = (|| {
        system.run(&["wait", "pod", agent, "--for=delete", "--timeout=120s"])?;
        let shape = Shape {
            replicas: 1,
            patch: json!({"spec": {"template": {"spec": {"nodeName": "n2"}}}}),
            ..Shape::default()
        };
        App::start(&stack.cluster, "t-no-agent", &shape).map(drop)
    })();
    let undo = json!({"spec": {"template": {"spec": {"nodeSelector": {"hitless.dev/e2e-agent": null}}}}}).to_string();
    system.run(&["patch", "daemonset", "hitless-agent", "-p", &undo])?;
    stack.wait_ready()?;
    outcome
}

#[test]
fn a_huge_annotation_and_a_huge_message_hurt_nobody() -> anyhow::Result<()> {
    let _turn = turn();
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-huge", &Shape { replicas: 1, ..Shape::default() })?;
    let huge = "x".repeat(200 * 1024);
    let pod = app.identities().into_iter().next().context("no pod")?;
    let patch =
        json!({"metadata": {"annotations": {"hitless.dev/restart-containers": huge, "hitless.dev/restart": "token"}}});
    let patched = app.kubectl.command(&["patch", "pod", &pod.name, "--type=merge", "--patch-file=/dev/stdin"])?;
    feed(patched, &patch.to_string())?;
    let moved = app.pods.never(Duration::from_secs(4), |pods| (out_of_service(pods) > 0).then_some(()));
    ensure!(moved.is_none(), "a restart of containers that do not exist took the pod out of service");
    stack.wait_ready()
}

fn feed(mut command: std::process::Command, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut child = command.stdin(std::process::Stdio::piped()).spawn()?;
    child.stdin.take().context("stdin")?.write_all(text.as_bytes())?;
    ensure!(child.wait()?.success(), "kubectl patch failed");
    Ok(())
}
