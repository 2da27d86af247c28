//! What happens when somebody dies during a Hold. These tests disturb the installation, so they take turns.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{Identity, LONGEST_HOLD, PATIENCE, Shape, image_of, is_closed, is_opened, is_ready};
use hitless_e2e::stack::{echo_image, main_process};
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Stack, Traffic, Watch};
use hitless_load::Report;
use jiff::{SignedDuration, Timestamp};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longest time that a Service may stay open after somebody died. The next leader may take the Lease after fifteen seconds; the rest is
/// the machine's affair.
const CLOSED_WITHIN: Duration = Duration::from_mins(1);
/// Requests a second from each of the two nodes.
const RATE: Rate = Rate { fresh: 50, keepalive: 0, connections: 0, delay_ms: 0 };

/// Pods that are held.
fn held() -> Shape {
    Shape::default().holding()
}

/// A single replica under load from both nodes.
struct Scene {
    stack: Stack,
    app: App,
    services: Watch,
    /// Since when the Service is closed, as far as was seen.
    closed: Arc<Mutex<Option<Instant>>>,
    pod: Identity,
    node: String,
    traffic: Vec<Traffic>,
}

impl Scene {
    fn start(namespace: &str, shape: &Shape) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let app = App::start(&stack.cluster, namespace, &Shape { replicas: 1, ..shape.clone() })?;
        let closed = Arc::<Mutex<Option<Instant>>>::default();
        let noted = Arc::clone(&closed);
        let services = Watch::start_seeing(&app.kubectl, &["services"], move |event| {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            *noted = if is_closed(&event["object"]) { noted.or_else(|| Some(Instant::now())) } else { None };
        })?;
        services.wait("the Service", PATIENCE, |services| services.get("web").map(drop))?;
        let pod = app.identities().into_iter().next().context("no pod")?;
        let node = app.kubectl.get(&["pod", &pod.name])?["spec"]["nodeName"].as_str().context("no node")?.to_owned();
        let traffic = Traffic::start_from_each_node(&stack, &app, RATE)?;
        traffic.iter().try_for_each(|traffic| traffic.wait_for_requests(100, PATIENCE))?;
        Ok(Self { stack, app, services, closed, pod, node, traffic })
    }

    /// Changes the image and waits until the Service is open, which it may be for two seconds only: the grant to hold the pod follows at
    /// once.
    fn hold(&self) -> anyhow::Result<()> {
        let mut services = self.services.follow();
        self.app.set_version("v2")?;
        services.wait("the Service to be opened", PATIENCE, |services| {
            services.get("web").filter(|web| is_opened(web)).map(drop)
        })
    }

    fn wait_closed(&self, since: Instant) -> anyhow::Result<()> {
        self.services.wait("the Service to be closed", PATIENCE, |services| {
            services.get("web").filter(|web| is_closed(web)).map(drop)
        })?;
        // What came after the fault may have taken longer than this.
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now);
        let open = closed.saturating_duration_since(since);
        ensure!(open <= CLOSED_WITHIN, "the Service was open for {open:?} after the fault");
        Ok(())
    }

    fn reports(self) -> anyhow::Result<Vec<Report>> {
        self.traffic.iter().try_for_each(|traffic| traffic.wait_for_more(100, PATIENCE))?;
        self.traffic.into_iter().map(Traffic::stop).collect()
    }

    /// Nothing of a Hold is left in the pod's network namespace, and the agent has let go of it.
    fn assert_nothing_left(&self) -> anyhow::Result<()> {
        let pid = main_process(&self.app.kubectl.get(&["pod", &self.pod.name])?)?.to_string();
        let agent = self.stack.agent_process(&self.node)?;
        // A grant's end and the agent's next turn lie a moment apart; what a killed agent has left goes when it can hold nobody any more.
        until_answered(|| {
            let output = Command::new("nsenter").args(["-t", &pid, "-n", "nft", "list", "tables"]).output()?;
            ensure!(output.status.success(), "nft: {}", String::from_utf8_lossy(&output.stderr));
            let tables = String::from_utf8_lossy(&output.stdout);
            ensure!(!tables.contains("hitless"), "left in the pod's network namespace: {tables}");
            let held = namespace_of_a_pod(agent)?;
            ensure!(held.is_none(), "the agent keeps {held:?}");
            Ok(())
        })
    }
}

/// A network namespace that a process keeps open.
fn namespace_of_a_pod(pid: u32) -> anyhow::Result<Option<String>> {
    let links =
        std::fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mut links = links.map(|link| link.to_string_lossy().into_owned());
    Ok(links.find(|link| link.starts_with("net:[")))
}

fn assert_none_failed(reports: &[Report]) -> anyhow::Result<()> {
    for report in reports {
        println!("{}", serde_json::to_string(report)?);
        ensure!(report.fresh.failed == 0, "requests failed: {:?}", report.failures);
        ensure!(report.versions.contains_key("v2"), "{:?}", report.versions);
    }
    Ok(())
}

/// The agent is killed so long after the Service was opened.
fn agent_killed_after(milliseconds: u64, shape: &Shape) -> anyhow::Result<()> {
    let scene = Scene::start(&format!("t-hold-kill-{milliseconds}"), shape)?;
    scene.hold()?;
    // The fault comes at a moment of its own choice, not at an event.
    std::thread::sleep(Duration::from_millis(milliseconds));
    scene.stack.kill_agent(&scene.node)?;
    let killed = Instant::now();
    scene.app.rollout_status()?;
    scene.app.wait_version("v2", 1)?;
    scene.wait_closed(killed)?;
    scene.assert_nothing_left()?;
    ensure!(scene.app.identities() == [scene.pod.clone()], "the pod was replaced");
    // A new one has no back-off of the kubelet, in which the next test would wait.
    scene.stack.renew_agent(&scene.node)?;
    assert_none_failed(&scene.reports()?)
}

#[test]
fn an_agent_killed_at_any_moment_of_a_hold_loses_nothing() -> anyhow::Result<()> {
    let _turn = turn();
    // Not for longer than usual: nobody lets clients in before their time is up, and a client's third attempt comes after three seconds.
    let shape = held();
    [0, 60, 150, 400].into_iter().try_for_each(|milliseconds| {
        agent_killed_after(milliseconds, &shape)
            .with_context(|| format!("killed {milliseconds} ms after the Service was opened"))
    })
}

/// Clients come all the time, so some find that nobody listens any more. From then on the kernel alone lets them in to the new process,
/// by the repetition that comes a second later at most.
#[test]
fn clients_of_an_agent_killed_in_a_hold_wait_for_the_new_process_and_not_for_the_cap() -> anyhow::Result<()> {
    let _turn = turn();
    let scene = Scene::start("t-hold-kill-patched", &held().parking())?;
    scene.app.set_version("v2")?;
    scene.app.pods.wait("the image patch", PATIENCE, |pods| {
        pods.values().any(|pod| image_of(pod) == echo_image("v2")).then_some(())
    })?;
    scene.stack.kill_agent(&scene.node)?;
    scene.app.rollout_status()?;
    scene.app.wait_version("v2", 1)?;
    scene.stack.renew_agent(&scene.node)?;
    let reports = scene.reports()?;
    assert_none_failed(&reports)?;
    for report in reports {
        ensure!(report.fresh.latency.max_ms < 3900.0, "somebody waited for the cap: {:?}", report.fresh.latency);
    }
    Ok(())
}

/// Agents are replaced by SIGTERM, in a rollout of their own for instance.
#[test]
fn an_agent_that_is_replaced_in_a_hold_ends_it_in_order() -> anyhow::Result<()> {
    let _turn = turn();
    for (name, milliseconds) in [("t-hold-term-a", 0), ("t-hold-term-b", 150)] {
        let scene = Scene::start(name, &held().parking())?;
        scene.hold()?;
        // At a moment of its own choice, as above.
        std::thread::sleep(Duration::from_millis(milliseconds));
        let deleted = Instant::now();
        scene.stack.renew_agent(&scene.node)?;
        scene.app.rollout_status()?;
        scene.app.wait_version("v2", 1)?;
        scene.wait_closed(deleted)?;
        scene.assert_nothing_left()?;
        ensure!(scene.app.identities() == [scene.pod.clone()], "the pod was replaced");
        let reports = scene.reports()?;
        assert_none_failed(&reports)?;
        for report in reports {
            ensure!(report.fresh.latency.max_ms < 3900.0, "somebody waited for the cap: {:?}", report.fresh.latency);
        }
    }
    Ok(())
}

#[test]
fn the_leader_killed_in_a_hold_loses_nothing_and_the_next_one_closes_the_service() -> anyhow::Result<()> {
    let _turn = turn();
    let scene = Scene::start("t-hold-leader", &held().parking())?;
    scene.hold()?;
    scene.stack.kill_leader()?;
    let killed = Instant::now();
    scene.app.wait_version("v2", 1)?;
    scene.wait_closed(killed)?;
    scene.app.rollout_status()?;
    scene.assert_nothing_left()?;
    ensure!(scene.app.identities() == [scene.pod.clone()], "the pod was replaced");
    assert_none_failed(&scene.reports()?)
}

#[test]
fn a_pod_deleted_in_its_hold_costs_no_more_than_its_deletion() -> anyhow::Result<()> {
    let _turn = turn();
    let scene = Scene::start("t-hold-deleted", &held().parking())?;
    scene.hold()?;
    let held = SignedDuration::from_millis(LONGEST_HOLD.into());
    let deleted = Timestamp::now();
    scene.app.kubectl.run(&["delete", "pod", &scene.pod.name, "--wait=false"])?;
    let at = Instant::now();
    let old = scene.pod.name.clone();
    scene.app.pods.wait("the next pod", PATIENCE, |pods| {
        pods.iter().any(|(name, pod)| *name != old && is_ready(pod)).then_some(())
    })?;
    scene.wait_closed(at)?;
    scene.app.rollout_status()?;
    scene.app.wait_unheld()?;
    // kube-proxy follows a little later, as after every deletion.
    scene.app.wait_serving(1)?;
    let served = Timestamp::now();
    for report in scene.reports()? {
        println!("{}", serde_json::to_string(&report)?);
        // A single replica that is deleted is away until the next one is ready, hitless or not. Who was held when it was deleted
        // has waited for it in vain.
        let Some(window) = report.fresh.failed_due else { continue };
        let at = |ms: u64| Timestamp::from_millisecond(i64::try_from(report.started_unix_ms + ms).unwrap_or(i64::MAX));
        let (first, last) = (at(window.first_ms)?, at(window.last_ms)?);
        ensure!(
            first >= deleted - held,
            "deleted at {deleted}, and a request of {first} failed: {:?}",
            report.failures
        );
        ensure!(last <= served, "served again at {served}, and a request of {last} failed: {:?}", report.failures);
    }
    Ok(())
}
