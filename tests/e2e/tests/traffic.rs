//! A load balancer outside of the cluster follows the pods: HAProxy, with pods as servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::ensure;
use hitless_cluster::Place;
use hitless_e2e::app::{App, OWN, PATIENCE, Shape, condition, image_of, is_ready, patience_for};
use hitless_e2e::haproxy::{Admin, HaProxy};
use hitless_e2e::stack::{echo_image, main_process};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic, Watch};
use serde_json::{Value, json};

/// Whoever loses a node does so alone.
static NODES: RwLock<()> = RwLock::new(());

/// Kubernetes takes 50 s to find out that a node is lost.
const NOTICED: Duration = Duration::from_mins(3);

struct Scene {
    stack: Stack,
    app: App,
    haproxy: Arc<Mutex<HaProxy>>,
    provider: String,
}

impl Scene {
    /// Three pods behind a HAProxy.
    fn start(name: &str, number: u16, shape: &Shape) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let namespace = format!("t-traffic-{name}");
        let haproxy = HaProxy::start(&stack.cluster, number)?;
        let provider = format!("edge-{name}");
        stack.system().feed(&["apply"], &haproxy.provider(&provider, &namespace))?;
        let app = App::start(&stack.cluster, &namespace, shape)?;
        app.kubectl.run(&["label", "service", "web", "kusionstack.io/control=true"])?;
        app.kubectl.run(&["annotate", "service", "web", &format!("hitless.dev/traffic={provider}/shop")])?;
        haproxy.wait_servers(|| app.pods.objects())?;
        Ok(Self { stack, app, haproxy: Arc::new(Mutex::new(haproxy)), provider })
    }

    fn haproxy(&self) -> std::sync::MutexGuard<'_, HaProxy> {
        self.haproxy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self) -> anyhow::Result<Traffic> {
        let (cluster, programs) = (&self.stack.cluster, &self.stack.programs);
        let traffic =
            Traffic::start_from(Place::Outside, cluster, programs, self.haproxy().address(), Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(traffic)
    }

    /// Waits until it is said that the load balancer can't be read.
    fn wait_unread(&self) -> anyhow::Result<()> {
        let provider = Watch::start(&self.stack.system(), &["trafficproviders"])?;
        provider.wait("a pool that can't be read", PATIENCE, |all| {
            let pools = all.get(&self.provider)?["status"]["pools"].as_array()?.clone();
            pools.iter().any(|pool| pool["state"] == "Unreadable").then_some(())
        })?;
        println!("{}", self.app.wait_event_saying("TrafficUnreadable", "no operation of its pods begins")?);
        Ok(())
    }

    /// Waits until `why` says so of its pods.
    fn wait_why(&self) -> anyhow::Result<()> {
        self.stack.wait_says(&self.app, &["why", "deployment/web"], &["could not be read"]).map(drop)
    }

    fn finish(self) -> anyhow::Result<()> {
        self.haproxy().wait_servers(|| self.app.pods.objects())?;
        self.stack.system().run(&["delete", "trafficprovider", &self.provider]).map(drop)
    }
}

fn stop(traffic: Traffic) -> anyhow::Result<()> {
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
    Ok(())
}

#[test]
fn each_pod_is_out_of_the_load_balancer_before_its_image_changes_and_no_request_fails() -> anyhow::Result<()> {
    let _nodes = NODES.read().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::start("rollout", 1, &Shape::default())?;
    let before = scene.app.identities();
    let traffic = scene.load()?;
    // How the load balancer has the pod at the moment its image is seen to have changed. On a busy machine that is seen late, so the new
    // version needs some seconds until it is back.
    let seen: Arc<Mutex<BTreeMap<String, Option<Admin>>>> = Arc::default();
    let (haproxy, noted) = (Arc::clone(&scene.haproxy), Arc::clone(&seen));
    let new = echo_image("slow");
    let _watch = Watch::start_seeing(&scene.app.kubectl, &["pods", "-l", OWN], move |event| {
        let pod = &event["object"];
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if image_of(pod) == new && !noted.contains_key(name) {
            let servers = haproxy.lock().unwrap_or_else(PoisonError::into_inner).servers().unwrap_or_default();
            let ip = pod["status"]["podIP"].as_str().unwrap_or_default();
            noted.insert(name.to_owned(), servers.get(ip).copied());
        }
    })?;
    scene.app.set_version("slow")?;
    scene.app.wait_version("slow", 3)?;
    scene.app.wait_unheld()?;
    ensure!(scene.app.identities() == before, "pods were replaced");
    stop(traffic)?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("{seen:?}");
    ensure!(
        seen.len() == 3 && seen.values().all(|admin| *admin == Some(Admin::Maintenance)),
        "pods were operated while the load balancer had them as {seen:?}"
    );
    // Pods that go are taken out, new ones are put in, and nothing else is there.
    scene.haproxy().wait_servers(|| scene.app.pods.objects())?;
    for replicas in ["--replicas=2", "--replicas=3"] {
        scene.app.kubectl.run(&["scale", "deployment/web", replicas])?;
        scene.app.wait_ready(replicas.trim_start_matches("--replicas=").parse()?)?;
        scene.haproxy().wait_servers(|| scene.app.pods.objects())?;
    }
    // Somebody mistypes the pool: that is said, and nobody loses anything.
    scene.app.kubectl.run(&["annotate", "service", "web", "hitless.dev/traffic=edge/bank", "--overwrite"])?;
    println!("{}", scene.app.wait_event_saying("TrafficInvalid", "no TrafficProvider edge")?);
    let servers = scene.haproxy().servers()?;
    ensure!(servers.len() == 3 && servers.values().all(|admin| *admin == Admin::Ready), "the servers are {servers:?}");
    scene.finish()
}

/// Pods that take some seconds to drain: what a test does while one is out is over before the third one goes.
fn slow() -> Shape {
    let annotations =
        json!({"hitless.dev/mode": "Leave", "hitless.dev/drain": "{\"minSeconds\":8,\"deadlineSeconds\":20}"});
    Shape { patch: json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}), ..Shape::default() }
}

/// `kill -9` of all controllers' processes.
fn kill_controllers(stack: &Stack) -> anyhow::Result<()> {
    for pod in stack.system().list(&["pods", "-l", "app.kubernetes.io/name=hitless-controller"])? {
        let pid = main_process(&pod)?.to_string();
        ensure!(std::process::Command::new("kill").args(["-9", &pid]).status()?.success(), "kill -9 {pid} failed");
    }
    Ok(())
}

#[test]
fn controllers_that_die_and_a_load_balancer_that_is_away_cost_no_backend_and_no_operation() -> anyhow::Result<()> {
    let _nodes = NODES.read().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::start("away", 2, &slow())?;
    // One that accepts connections and answers nobody is as good as away.
    scene.haproxy().set_stopped(true)?;
    let unread = scene.wait_unread().and_then(|()| scene.app.set_version("v2")).and_then(|()| scene.wait_why());
    scene.haproxy().set_stopped(false)?;
    unread?;
    let traffic = scene.load()?;
    let is_out = |pod: &Value| condition(pod, "hitless.dev/InService") == Some("False");
    let first = scene.app.pods.wait("a pod out of service", PATIENCE, |pods| {
        pods.iter().find(|(_, pod)| is_out(pod)).map(|(name, _)| name.clone())
    })?;
    kill_controllers(&scene.stack)?;
    scene.app.pods.wait("the first pod to be back", patience_for(3), |pods| {
        let pod = pods.get(&first)?;
        (image_of(pod) == echo_image("v2") && !is_out(pod)).then_some(())
    })?;
    stop(traffic)?;
    // What is asked of a HAProxy that is dead fails: nobody is there to answer. So nothing is asked meanwhile.
    scene.haproxy().kill()?;
    scene.wait_unread()?;
    // One that was on its way ends by its deadline. Nobody else begins, and `why` says so.
    scene.app.pods.wait("the pods that were out to be back", patience_for(3), |pods| {
        (!pods.values().any(is_out)).then_some(())
    })?;
    scene.wait_why()?;
    let left = scene.app.pods.objects().values().filter(|pod| image_of(pod) != echo_image("v2")).count();
    ensure!(left > 0, "all pods were operated although their load balancer was away");
    let begin = Instant::now();
    scene.haproxy().run()?;
    scene.haproxy().wait_servers(|| {
        let pods = scene.app.pods.objects();
        pods.into_iter().filter(|(_, pod)| !is_out(pod)).collect()
    })?;
    println!("all servers were back {} ms after HAProxy", begin.elapsed().as_millis());
    let traffic = scene.load()?;
    scene.app.wait_version("v2", 3)?;
    scene.app.wait_unheld()?;
    stop(traffic)?;
    scene.finish()
}

/// A node that is off the network; back on it when dropped.
struct Lost<'a>(&'a Stack, u8);

impl<'a> Lost<'a> {
    fn new(stack: &'a Stack, node: &str) -> anyhow::Result<Self> {
        let index = node.trim_start_matches('n').parse()?;
        stack.cluster.set_connected(index, false)?;
        Ok(Self(stack, index))
    }
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.cluster.set_connected(self.1, true) {
            eprintln!("n{} can't be put back on the network: {error}", self.1);
        }
    }
}

/// The addresses of the pods on a node, or of all others.
fn addresses(app: &App, node: &str, on_it: bool) -> BTreeSet<String> {
    let pods = app.pods.objects();
    let there = pods.values().filter(|pod| (pod["spec"]["nodeName"] == node) == on_it);
    there.filter_map(|pod| pod["status"]["podIP"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_lost_node_s_pods_leave_the_load_balancer_and_nobody_else_is_operated_until_it_is_back() -> anyhow::Result<()> {
    let _nodes = NODES.write().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::start("lost", 3, &slow())?;
    let before = scene.app.identities();
    scene.stack.spread_controllers()?;
    let is_out = |pod: &Value| condition(pod, "hitless.dev/InService") == Some("False");
    scene.app.set_version("v2")?;
    let node = scene.app.pods.wait("a pod out of service", PATIENCE, |pods| {
        pods.values().find(|pod| is_out(pod))?["spec"]["nodeName"].as_str().map(str::to_owned)
    })?;
    let (gone, left) = (addresses(&scene.app, &node, true), addresses(&scene.app, &node, false));
    let lost = Lost::new(&scene.stack, &node)?;
    // Until Kubernetes finds out, its other pods still get requests.
    let begin = Instant::now();
    let traffic = scene.load()?;
    let ready = |servers: &BTreeMap<String, Admin>| -> BTreeSet<String> {
        servers.iter().filter(|(_, admin)| **admin == Admin::Ready).map(|(ip, _)| ip.clone()).collect()
    };
    let nodes = Watch::start(&scene.stack.system(), &["nodes"])?;
    nodes.wait("the node to be noticed", NOTICED, |nodes| (!is_ready(nodes.get(&node)?)).then_some(()))?;
    println!("{node} was noticed after {} ms", begin.elapsed().as_millis());
    scene.haproxy().wait_until("only pods of other nodes", |servers| ready(servers) == left)?;
    let report = traffic.stop()?;
    println!("meanwhile {} of {} requests failed; of {gone:?} none is left", report.failed(), report.requests());
    let why = scene.stack.hitless_output(&scene.app, &["why", "deployment/web"])?;
    println!("{}", String::from_utf8_lossy(&why.stdout));
    stop(scene.load()?)?;
    let pods = scene.app.pods.objects();
    let is_operated = |pod: &&Value| pod["spec"]["nodeName"] != node && image_of(pod) != echo_image("v1");
    let operated: Vec<&Value> = pods.values().filter(is_operated).map(|pod| &pod["metadata"]["name"]).collect();
    ensure!(operated.is_empty(), "{operated:?} were operated while {node} was lost");
    let begin = Instant::now();
    drop(lost);
    scene.app.wait_version("v2", 3)?;
    scene.app.wait_unheld()?;
    scene.haproxy().wait_servers(|| scene.app.pods.objects())?;
    println!("all was done {} ms after {node} was back", begin.elapsed().as_millis());
    ensure!(scene.app.identities() == before, "pods were replaced");
    stop(scene.load()?)?;
    scene.finish()
}
