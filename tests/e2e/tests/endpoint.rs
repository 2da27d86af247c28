//! The nodes' endpoint: ordinary deletions that drain, and load balancers that are told.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_cluster::Place;
use hitless_e2e::app::{self, PATIENCE, Shape, is_ready};
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Kubectl, Stack, Traffic, Watch, endpoint, measure, namespace};
use serde_json::{Value, json};

/// How long the hook waits at most; the kubelet's grace period is longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The native way, with a preStop hook that asks the node's endpoint. hitless operates none of these pods.
fn with_hook(stack: &Stack, namespace: &str, replicas: u32) -> anyhow::Result<Shape> {
    let plain = app::manifest(&Shape::default());
    let mut container = plain.pointer("/spec/template/spec/containers/0").context("no container")?.clone();
    let seconds = TIMEOUT.as_secs();
    let path = format!("/v1/pods/{namespace}/drain?labelSelector=app%3Dweb&wait=drained&timeout={seconds}s");
    container["lifecycle"] =
        json!({"preStop": {"httpGet": {"host": stack.cluster.loopback(), "port": 9754, "path": path}}});
    let spec = json!({"terminationGracePeriodSeconds": seconds + 10, "containers": [container]});
    let change = json!({"spec": {"template": {"spec": spec}}});
    Ok(Shape { replicas, update: None, gate: false, mode: None, patch: change, ..Shape::default() })
}

fn failed_hooks(app: &App) -> anyhow::Result<Vec<Value>> {
    let events = app.kubectl.list(&["events.events.k8s.io"])?;
    Ok(events.into_iter().filter(|event| event["reason"] == "FailedPreStopHook").collect())
}

/// The reference is `the_reference_a_native_rollout_of_the_same_server_loses_requests`.
#[test]
fn a_native_rollout_of_a_server_that_exits_at_once_loses_nothing_with_the_endpoint_as_its_prestop_hook()
-> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-prestop", &with_hook(&stack, "t-prestop", 3)?)?;
    let measured = measure::rollout(&stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})?;
    println!("{}", serde_json::to_string(&measured)?);
    ensure!(measured.pods_recreated == 3, "these pods are replaced, not operated: {measured:?}");
    ensure!(measured.failed == 0, "requests failed: {measured:?}");
    ensure!(failed_hooks(&app)?.is_empty(), "a hook failed: {:?}", failed_hooks(&app)?);
    Ok(())
}

/// As in docs/endpoint.md: the hook names no host, so the strictest Pod Security lets it in.
#[test]
fn under_pod_security_restricted_a_native_rollout_loses_nothing_with_the_endpoint_inside_of_the_pod()
-> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let plain = app::manifest(&Shape::default());
    let mut container = plain.pointer("/spec/template/spec/containers/0").context("no container")?.clone();
    let seconds = TIMEOUT.as_secs();
    let path = format!("/v1/self/drain?wait=drained&timeout={seconds}s");
    container["lifecycle"] = json!({"preStop": {"httpGet": {"port": 9754, "path": path}}});
    container["securityContext"] = json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let spec = json!({"terminationGracePeriodSeconds": seconds + 10, "containers": [container]});
    let annotations = json!({"hitless.dev/endpoint": "9754"});
    let change = json!({"spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}});
    let shape = Shape { replicas: 2, update: None, gate: false, mode: None, patch: change, ..Shape::default() };
    let namespace = "t-prestop-restricted";
    let kubectl = Kubectl::new(Arc::clone(&stack.cluster), namespace);
    namespace::apply(&kubectl, &json!({}))?;
    kubectl.run(&["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"])?;
    let app = App::start_by(kubectl, &shape)?;
    for pod in app.identities() {
        // A stranger learns nothing there either.
        let address = SocketAddr::new(pod.ip.parse()?, 9754);
        let ask = || endpoint::get_at(&stack.cluster, Place::ControlPlane, address, "/v1/self/drain");
        let answer = until_answered(ask).with_context(|| format!("nobody listens in pod {}", pod.name))?;
        ensure!(answer.0 == 403, "a stranger was answered {answer:?}");
    }
    let measured = measure::rollout(&stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})?;
    println!("{}", serde_json::to_string(&measured)?);
    ensure!(measured.pods_recreated == 2, "these pods are replaced, not operated: {measured:?}");
    ensure!(measured.failed == 0, "requests failed: {measured:?}");
    ensure!(failed_hooks(&app)?.is_empty(), "a hook failed: {:?}", failed_hooks(&app)?);
    Ok(())
}

#[test]
fn a_deleted_pod_drains_through_prestop_and_none_of_its_requests_is_lost() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-prestop-one", &with_hook(&stack, "t-prestop-one", 2)?)?;
    let rate = Rate { fresh: 50, keepalive: 50, ..Rate::default() };
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let victim = app.identities().into_iter().next().context("no pod")?;
    let begin = Instant::now();
    app.kubectl.run(&["delete", "pod", &victim.name, "--wait=false"])?;
    let node = app.pods.wait("the deletion", PATIENCE, |pods| {
        let pod = pods.get(&victim.name).filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null())?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    })?;
    // The pod may be gone before this is asked: that it was asked for is seen by how long it stayed.
    let (status, body) =
        endpoint::get(&stack.cluster, &node, &format!("/v1/pods/t-prestop-one/{}/drain", victim.name))?;
    if status == 200 {
        let answer: Value = serde_json::from_str(&body)?;
        ensure!(answer["terminating"] == true, "the endpoint said: {body}");
    }
    app.pods.wait("the pod to be gone", PATIENCE, |pods| (!pods.contains_key(&victim.name)).then_some(()))?;
    let took = begin.elapsed();
    ensure!(took >= Duration::from_secs(1), "nobody waited for the pod's connections: gone after {took:?}");
    ensure!(took < TIMEOUT, "it was not drained but timed out, after {took:?}");
    app.wait_ready(2)?;
    let asked = traffic.report().requests();
    traffic.wait_for_requests(asked + 200, PATIENCE)?;
    let report = traffic.stop()?;
    println!("gone after {took:?}: {}", serde_json::to_string(&report)?);
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(failed_hooks(&app)?.is_empty(), "a hook failed: {:?}", failed_hooks(&app)?);
    Ok(())
}

#[test]
fn a_load_balancer_is_told_when_a_pod_leaves_and_when_it_is_back_and_a_stranger_sees_no_more() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-lb", &Shape::default().out_for(3))?;
    let stranger = |pod: &Value, path: &str| -> anyhow::Result<(u16, String)> {
        let address: IpAddr = pod["status"]["hostIP"].as_str().context("no hostIP")?.parse()?;
        let name = pod["metadata"]["name"].as_str().context("no name")?;
        endpoint::get_from(&stack.cluster, Place::ControlPlane, address, &path.replace("POD", name))
    };
    // A drain takes three seconds at least, so a pod that is seen to be out of service is still so when it is asked for.
    let pods = Watch::start(&app.kubectl, &["pods", "-l", app::OWN])?;
    // The agent has its own watch, so it may learn later than this test that a pod is ready: it then refuses, and loses nothing.
    let is_in_service = |pod: &Value| {
        until_answered(|| {
            let answer = stranger(pod, "/lb/t-lb/POD")?;
            ensure!(answer == (200, "in service\n".to_owned()), "answered {answer:?}");
            Ok(())
        })
    };
    for pod in app.pods.objects().values() {
        is_in_service(pod).context("before")?;
    }
    app.set_version("v2")?;
    let leaving = pods.wait("a pod out of service", PATIENCE, |pods| {
        pods.values().find(|pod| app::condition(pod, "hitless.dev/InService") == Some("False")).cloned()
    })?;
    let name = leaving["metadata"]["name"].as_str().context("no name")?;
    let answer = stranger(&leaving, "/lb/t-lb/POD")?;
    ensure!(answer == (503, "out of service\n".to_owned()), "out of service: {answer:?}");
    let (status, body) = stranger(&leaving, "/v1/pods/t-lb/POD/drain")?;
    ensure!(status == 403 && body.contains("HITLESS_TRUSTED"), "a stranger was answered {status}: {body}");
    app.rollout_status()?;
    let back = pods.wait("the pod to be back", PATIENCE, |pods| pods.get(name).filter(|pod| is_ready(pod)).cloned())?;
    is_in_service(&back).context("after")?;
    let node = back["spec"]["nodeName"].as_str().context("no node")?;
    let (status, body) = endpoint::get(&stack.cluster, node, "/v1/node")?;
    let summary: Value = serde_json::from_str(&body)?;
    ensure!(status == 200 && summary["node"] == node, "the node was answered {status}: {body}");
    Ok(())
}
