//! What clients see of a single replica that is operated.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{Identity, LONGEST_HOLD, OWN, PATIENCE, Shape, is_closed, is_opened};
use hitless_e2e::node_ports::{self, Policy};
use hitless_e2e::traffic::Rate;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, NodePorts, Stack, Traffic, Watch};
use serde_json::{Value, json};

/// Pods that may be held.
fn held() -> Shape {
    Shape { mode: None, ..Shape::default() }.parking()
}

/// One replica of a server that exits at once on SIGTERM.
fn single(stack: &Stack, namespace: &str) -> anyhow::Result<App> {
    App::start(&stack.cluster, namespace, &Shape { replicas: 1, ..Shape::default() }.holding().parking())
}

/// What `kubectl hitless plan` says beforehand of a change to that version.
fn plan(stack: &Stack, app: &App, version: &str) -> anyhow::Result<String> {
    let image = format!("web={}", app.image(version));
    stack.hitless(app, &["plan", "deployment/web", "--image", &image])
}

/// It says which way pods go, and why.
fn ensure_planned(stack: &Stack, app: &App, version: &str, words: &str) -> anyhow::Result<()> {
    let plan = plan(stack, app, version)?;
    ensure!(plan.contains(words), "the plan does not say {words:?}:\n{plan}");
    Ok(())
}

/// New connections from each of the two nodes.
const FRESH: Rate = Rate { fresh: 100, keepalive: 0, connections: 0, delay_ms: 0 };

/// No request has failed, and both versions have answered.
fn finish_with_both_versions(app: &App, traffic: Vec<Traffic>) -> anyhow::Result<()> {
    for traffic in traffic {
        traffic.wait_for_more(100, PATIENCE)?;
        let report = traffic.stop()?;
        println!("{}", serde_json::to_string(&report)?);
        ensure!(report.fresh.failed == 0, "requests failed: {report:?}; Events: {:#?}", app.told()?);
        ensure!(report.versions.contains_key("v1") && report.versions.contains_key("v2"), "{:?}", report.versions);
    }
    Ok(())
}

#[test]
fn a_single_replica_changes_its_image_and_no_connection_fails() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = single(&stack, "t-hold")?;
    let services = Watch::start(&app.kubectl, &["services"])?;
    let before = app.identities();
    let traffic = Traffic::start_from_each_node(&stack, &app, FRESH)?;
    traffic.iter().try_for_each(|traffic| traffic.wait_for_requests(200, PATIENCE))?;
    ensure_planned(&stack, &app, "v2", "Hold — Wished: ")?;
    let mut seen = services.follow();
    app.set_version("v2")?;
    seen.wait("the Service to be opened", PATIENCE, |services| {
        services.get("web").filter(|web| is_opened(web)).map(drop)
    })?;
    app.rollout_status()?;
    seen.wait("the Service to be closed again", PATIENCE, |services| {
        services.get("web").filter(|web| is_closed(web)).map(drop)
    })?;
    finish_with_both_versions(&app, traffic)?;
    ensure!(app.identities() == before, "the pod was replaced: {before:?} became {:?}", app.identities());
    app.workloads.wait("the gap to be learned", PATIENCE, |deployments| {
        deployments.get("web")?["metadata"]["annotations"]["hitless.dev/gap"].as_str().map(drop)
    })
}

/// When each pod was last put into service or taken out of it.
fn in_service_since(app: &App) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = app.kubectl.get(&["pods", "-l", OWN])?;
    let since = pods["items"].as_array().into_iter().flatten().filter_map(|pod| {
        let conditions = pod["status"]["conditions"].as_array()?;
        let condition = conditions.iter().find(|condition| condition["type"] == "hitless.dev/InService")?;
        Some((pod["metadata"]["name"].as_str()?.to_owned(), condition["lastTransitionTime"].as_str()?.to_owned()))
    });
    Ok(since.collect())
}

/// A pod is held beside others only if its workload was never away for longer than half of that.
const LONGEST_SHORT_GAP: u32 = LONGEST_HOLD / 2;

/// Waits until the longest time, to LISTEN or to ready, that is known of the Deployment is one of these.
fn wait_gap(app: &App, what: &str, is_one: impl Fn(u64) -> bool) -> anyhow::Result<u64> {
    app.workloads.wait(what, PATIENCE, |deployments| {
        let annotations = &deployments.get("web")?["metadata"]["annotations"];
        let known =
            ["hitless.dev/gap", "hitless.dev/gap-to-ready"].iter().filter_map(|name| annotations[name].as_str());
        let known = known.map(serde_json::from_str::<BTreeMap<String, u64>>).collect::<Result<Vec<_>, _>>().ok()?;
        known.into_iter().flat_map(BTreeMap::into_values).max().filter(|gap| is_one(*gap))
    })
}

/// How long each of the last versions of the Deployment needed until its pods were Ready, in milliseconds.
fn times_to_ready(deployment: &Value) -> anyhow::Result<BTreeMap<String, u64>> {
    let known = deployment["metadata"]["annotations"]["hitless.dev/gap-to-ready"].as_str();
    Ok(serde_json::from_str(known.unwrap_or("{}"))?)
}

#[test]
fn three_replicas_leave_once_and_are_held_when_the_gap_is_known_and_no_request_fails() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-hold-three", &held())?;
    let rate = Rate { fresh: 100, keepalive: 50, ..Rate::default() };
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(200, PATIENCE)?;
    ensure_planned(&stack, &app, "v2", "Leave — UnknownGap: ")?;
    app.set_version("v2")?;
    app.rollout_status()?;
    wait_gap(&app, "the gap to be learned", |_| true)?;
    let before = in_service_since(&app)?;
    ensure!(before.len() == 3, "{before:?}");
    let plan = plan(&stack, &app, "v3")?;
    // The first pod leaves each time: nobody knows yet how long a new version takes to start.
    ensure!(plan.contains("Leave — UnknownGap: "), "the plan does not say so:\n{plan}");
    let is_held = plan.contains("Hold — ShortGap: ");
    ensure!(is_held || plan.contains("Leave — LongGap: "), "the plan says neither:\n{plan}");
    let known = times_to_ready(&app.kubectl.get(&["deployment", "web"])?)?;
    let mut states = app.workloads.follow();
    app.set_version("v3")?;
    app.rollout_status()?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    println!("{}", serde_json::to_string(&report)?);
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(report.versions.contains_key("v3"), "{:?}", report.versions);
    let after = in_service_since(&app)?;
    ensure!(after.keys().eq(before.keys()), "other pods: {before:?}, {after:?}");
    let stayed = before.iter().filter(|(pod, since)| after.get(*pod) == Some(since)).count();
    // The plan goes by the versions before; what the first pods of this one have shown corrects it. The next ones may take longer again.
    let is_corrected = |deployments: &Objects| {
        let times = times_to_ready(deployments.get("web")?).ok()?;
        times
            .iter()
            .any(|(version, time)| !known.contains_key(version) && *time <= LONGEST_SHORT_GAP.into())
            .then_some(())
    };
    ensure!(
        stayed == 0 || is_held || states.wait("a version that is Ready soon", Duration::ZERO, is_corrected).is_ok(),
        "{stayed} pods stayed in service; {known:?} was known before, and the plan said:\n{plan}"
    );
    if stayed + 1 < before.len() {
        // How long a restart takes is the machine's affair; on a slow one the time that a pod shows makes the next ones leave.
        let gap = wait_gap(&app, "a gap that is too long for a Hold", |gap| gap > LONGEST_SHORT_GAP.into())
            .with_context(|| format!("pods that might have been held left: {before:?}, {after:?}"))?;
        println!("{} pods left instead of one, for their workload was away for {gap} ms", before.len() - stayed);
    }
    Ok(())
}

/// A load balancer that sends connections to pods' addresses and does not look at readiness, as some of clouds do.
#[test]
fn who_comes_to_a_pod_that_has_left_waits_for_its_new_process_and_is_not_refused() -> anyhow::Result<()> {
    const RATE: Rate = Rate { fresh: 50, ..FRESH };
    /// Where the reference server listens.
    const PORT: u16 = 8080;
    let stack = Stack::attach()?;
    // Connections come until the end, so each pod drains so long. A kubelet on a busy machine needs up to three seconds to lower Ready.
    let drain = json!({"holdCapMilliseconds": LONGEST_HOLD, "deadlineSeconds": 8}).to_string();
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"hitless.dev/drain": drain}}}}});
    let app = App::start(&stack.cluster, "t-hold-ignored", &Shape { replicas: 2, patch, ..Shape::default() })?;
    let before = app.identities();
    let address = |pod: &Identity| anyhow::Ok(SocketAddr::new(pod.ip.parse().context("a pod's IP")?, PORT));
    let start = |pod| Traffic::start(&stack.cluster, &stack.programs, address(pod)?, RATE);
    let traffic: Vec<Traffic> = before.iter().map(start).collect::<anyhow::Result<_>>()?;
    traffic.iter().try_for_each(|traffic| traffic.wait_for_requests(100, PATIENCE))?;
    app.set_version("v2")?;
    app.rollout_status()?;
    finish_with_both_versions(&app, traffic)?;
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    Ok(())
}

/// What was seen of the nodes, again and again, while something else happened.
#[derive(Debug, Default)]
struct Looks {
    /// How often somebody looked.
    count: usize,
    /// Nodes whose health check said that they have no pod.
    unhealthy: usize,
    /// Nodes whose kernel sent what came to the port to no pod of theirs.
    without_a_pod: usize,
}

impl Looks {
    fn during(stack: &Stack, ports: &NodePorts, happens: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Self> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut seen = Self::default();
                while !done.load(Ordering::Relaxed) {
                    seen.count += 1;
                    seen.unhealthy += ports.unhealthy(&stack.cluster);
                    seen.without_a_pod += ports.without_a_pod(&stack.cluster)?;
                }
                anyhow::Ok(seen)
            });
            let outcome = happens();
            done.store(true, Ordering::Relaxed);
            let seen = looking.join().map_err(|_panic| anyhow::anyhow!("the thread that looks panicked"))?;
            outcome.and(seen)
        })
    }
}

#[test]
fn where_a_node_serves_itself_no_node_port_fails_and_no_node_is_without_a_pod() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let mut shape = Shape { replicas: 2, ..held() };
    shape.patch["spec"]["template"]["spec"] = json!({"affinity": node_ports::apart()});
    let app = App::start(&stack.cluster, "t-node-local", &shape)?;
    let ports = NodePorts::open(&stack, &app, Policy::Local)?;
    let traffic = ports.start_traffic(&stack, FRESH)?;
    let why = "Hold — OnlyPod: no other pod on its node serves, and Service web";
    ensure_planned(&stack, &app, "v2", why)?;
    for version in ["v2", "v3"] {
        app.set_version(version)?;
        let seen = Looks::during(&stack, &ports, || app.rollout_status().map(drop))?;
        println!("{version}: {seen:?}");
        ensure!(seen.count > 0 && seen.unhealthy == 0 && seen.without_a_pod == 0, "with {version}: {seen:?}");
    }
    for traffic in traffic {
        traffic.wait_for_more(100, PATIENCE)?;
        let report = traffic.stop()?;
        println!("{}", serde_json::to_string(&report)?);
        ensure!(report.fresh.failed == 0, "requests failed: {report:?}");
        ensure!(
            ["v1", "v2", "v3"].iter().all(|version| report.versions.contains_key(*version)),
            "{:?}",
            report.versions
        );
    }
    // The same kernels, asked in the same way, tell of a node whose pod is gone.
    app.kubectl.run(&["scale", "deployment/web", "--replicas=1"])?;
    app.wait_ready(1)?;
    let begin = Instant::now();
    while ports.without_a_pod(&stack.cluster)? != 1 {
        ensure!(begin.elapsed() < PATIENCE, "the look at the kernel never sees that a node has no pod");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
