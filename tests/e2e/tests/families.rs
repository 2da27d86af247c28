//! Clients of each family of addresses that the cluster has. A dual-stack one has two: `--ip-family dual`.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_cluster::Place;
use hitless_e2e::app::{LONGEST_HOLD, PATIENCE, Shape, readiness_probe};
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Stack, Traffic, endpoint, families};
use serde_json::{Value, json};

/// The reference server's port.
const PORT: u16 = 8080;

/// One replica with these settings of its drain.
fn single(mode: Option<&'static str>, drain: &Value) -> Shape {
    // Not a name that begins with `http`: nobody ends the clients' idle connections.
    let container = json!({"name": "web", "image": hitless_e2e::stack::echo_image("v1"), "ports": [{"containerPort": PORT, "name": "plain"}],
        "readinessProbe": readiness_probe("plain")});
    let template = json!({"metadata": {"annotations": {"hitless.dev/drain": drain.to_string()}}, "spec": {"containers": [container]}});
    Shape { replicas: 1, mode, patch: json!({"spec": {"template": template}}), ..Shape::default() }
}

/// Its only pod.
fn pod(app: &App) -> anyhow::Result<Value> {
    app.pods.objects().into_values().next().context("no pod")
}

/// As many addresses as the cluster has families.
fn ensure_each_family(stack: &Stack, found: &[IpAddr]) -> anyhow::Result<()> {
    let families =
        found.iter().filter(|ip| ip.is_ipv4()).count().min(1) + found.iter().filter(|ip| ip.is_ipv6()).count().min(1);
    let wanted = stack.cluster.ip_family();
    ensure!(found.len() == wanted.count() && families == wanted.count(), "these are not all of {wanted}: {found:?}");
    Ok(())
}

#[test]
fn a_single_replica_is_held_and_no_connection_of_any_family_fails() -> anyhow::Result<()> {
    const FRESH: Rate = Rate { fresh: 100, keepalive: 0, connections: 0, delay_ms: 0 };
    let stack = Stack::attach()?;
    let app = App::start(
        &stack.cluster,
        "t-families-hold",
        &single(None, &json!({"holdCapMilliseconds": LONGEST_HOLD})).holding(),
    )?;
    let before = app.identities();
    let services = families::open(&app)?;
    ensure_each_family(&stack, &services.iter().map(SocketAddr::ip).collect::<Vec<_>>())?;
    let start = |service: &SocketAddr| Traffic::start(&stack.cluster, &stack.programs, *service, FRESH);
    let traffic: Vec<Traffic> = services.iter().map(start).collect::<anyhow::Result<_>>()?;
    traffic.iter().try_for_each(|traffic| traffic.wait_for_requests(200, PATIENCE))?;
    app.set_version("v2")?;
    app.rollout_status()?;
    for (traffic, service) in traffic.into_iter().zip(services) {
        traffic.wait_for_more(100, PATIENCE)?;
        let report = traffic.stop()?;
        println!("{service}: {}", serde_json::to_string(&report)?);
        ensure!(report.fresh.failed == 0, "requests to {service} failed: {report:?}");
        ensure!(report.versions.contains_key("v1") && report.versions.contains_key("v2"), "{:?}", report.versions);
    }
    ensure!(app.identities() == before, "the pod was replaced: {before:?} became {:?}", app.identities());
    Ok(())
}

#[test]
fn a_pod_that_leaves_waits_for_its_connections_of_every_family() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let drain = json!({"stragglerAfterSeconds": 100, "deadlineSeconds": 110});
    let app = App::start(&stack.cluster, "t-families-leave", &single(Some("Leave"), &drain))?;
    let before = app.identities();
    let pod = pod(&app)?;
    let (name, node) = (&before[0].name, pod["spec"]["nodeName"].as_str().context("no node")?);
    let addresses = families::of_pod(&pod, "podIPs");
    ensure_each_family(&stack, &addresses)?;
    let connect = |ip: &IpAddr| {
        let address = SocketAddr::new(*ip, PORT);
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(5));
        anyhow::Ok(stack.cluster.in_network(Place::Node(1), connect)??)
    };
    let mut clients: Vec<TcpStream> = addresses.iter().map(connect).collect::<anyhow::Result<_>>()?;
    app.set_version("v2")?;
    while !clients.is_empty() {
        // The kubelet's probes come in between.
        until_answered(|| {
            let (status, body) =
                endpoint::get(&stack.cluster, node, &format!("/v1/pods/t-families-leave/{name}/drain"))?;
            let answer: Value = serde_json::from_str(&body)?;
            let waits_for = answer["connections"]["inbound"].as_u64();
            let is_counted = answer["phase"] == "Draining" && waits_for == Some(u64::try_from(clients.len())?);
            ensure!(status == 200 && is_counted, "with {} clients the endpoint said: {body}", clients.len());
            Ok(())
        })?;
        let client = clients.remove(0);
        println!("{:?} is counted, and ends now", client.peer_addr()?);
    }
    app.rollout_status()?;
    app.wait_version("v2", 1)?;
    ensure!(app.identities() == before, "the pod was replaced: {before:?} became {:?}", app.identities());
    Ok(())
}

#[test]
fn a_pod_is_known_to_its_node_by_each_of_its_addresses_and_a_stranger_by_none() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-families-self", &single(None, &json!({})))?;
    let pod = pod(&app)?;
    let name = format!("t-families-self/{}", app.identities()[0].name);
    let nodes = families::of_pod(&pod, "hostIPs");
    ensure_each_family(&stack, &nodes)?;
    for node in nodes {
        // The agent has its own watch, so it may learn the pod's addresses later than we that it is Ready.
        until_answered(|| {
            let (status, body) = endpoint::get_as(&stack.cluster, &pod, node, "/v1/self/drain")?;
            let answer: Value = serde_json::from_str(&body)?;
            ensure!(status == 200 && answer["pod"] == json!(name), "at {node} the pod was answered {status}: {body}");
            Ok(())
        })?;
        let path = format!("/v1/pods/{name}/drain");
        let (status, body) = endpoint::get_from(&stack.cluster, Place::Outside, node, &path)?;
        ensure!(status == 403, "at {node} a stranger was answered {status}: {body}");
    }
    Ok(())
}
