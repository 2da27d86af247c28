//! What an agent needs while many of its pods are in a Hold.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{self, PATIENCE, Shape, all_ready, image_of};
use hitless_e2e::stack::echo_image;
use hitless_e2e::{Kubectl, Stack, Watch, namespace};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::process::memory_mib;

const NAMESPACE: &str = "bench-holding";
/// All on one node.
const NODE: &str = "n1";
/// Version that takes three seconds to listen, so that many are away at the same time.
const SLOW: &str = "slow";

#[derive(Serialize)]
pub(super) struct Holding {
    /// Pods whose image was changed at once, each its Service's only one.
    pub(super) pods: usize,
    /// The most that were in a Hold at the same moment.
    pub(super) at_once: usize,
    /// Memory of their agent at that moment.
    pub(super) rss_mib: f64,
    /// The most that it ever needed.
    pub(super) most_mib: f64,
    /// Its memory when all was over.
    pub(super) after_mib: f64,
}

/// Changes the image of `pods` single replicas on one node at once.
pub(super) fn measure(stack: &Stack, pods: usize) -> anyhow::Result<Holding> {
    let kubectl = Kubectl::new(Arc::clone(&stack.cluster), NAMESPACE);
    namespace::apply(&kubectl, &json!({}))?;
    kubectl.feed(&["apply"], &objects(pods, "v1"))?;
    let watch = Watch::start(&kubectl, &["pods", "-l", app::OWN])?;
    watch.wait("all pods to be ready", PATIENCE * 2, |seen| all_ready(seen, pods).then_some(()))?;
    let agent = stack.agent_process(NODE)?;
    // kubectl takes a while for so many; all are to begin at the same time.
    kubectl.feed(&["apply"], &pause(true))?;
    kubectl.feed(&["apply"], &objects(pods, SLOW))?;
    let deployments = Watch::start(&kubectl, &["deployments"])?;
    let is_held = |deployment: &Value| deployment["metadata"]["annotations"]["hitless.dev/rollout"] == "held";
    deployments.wait("all rollouts to be held", PATIENCE, |seen| seen.values().all(is_held).then_some(()))?;
    kubectl.feed(&["apply"], &pause(false))?;
    let (mut at_once, mut rss_mib) = (0, 0.0);
    let is_new = |pod: &Value| image_of(pod) == echo_image(SLOW);
    loop {
        // A thread that such a one has just made has its name at first.
        let holds = threads(agent, "hold")?.min(pods);
        if holds > at_once {
            (at_once, rss_mib) = (holds, memory_mib(agent, "VmRSS:")?);
        }
        let seen = watch.objects();
        if all_ready(&seen, pods) && seen.values().all(is_new) && holds == 0 {
            break;
        }
        watch.next_change(Duration::from_millis(20));
    }
    let (most_mib, after_mib) = (memory_mib(agent, "VmHWM:")?, memory_mib(agent, "VmRSS:")?);
    kubectl.run(&["delete", "namespace", NAMESPACE])?;
    ensure!(at_once > 0, "no pod was held");
    Ok(Holding { pods, at_once, rss_mib, most_mib, after_mib })
}

/// A budget that lets nobody go while it is paused, and everybody after.
fn pause(paused: bool) -> Value {
    json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": "start"},
        "spec": {"selector": {}, "paused": paused, "maxConcurrent": 1000}})
}

/// Deployments of one replica, and a Service for each.
fn objects(pods: usize, version: &'static str) -> Value {
    let each = |number: usize| {
        let name = format!("web-{number}");
        let template =
            json!({"metadata": {"labels": {"app": name}}, "spec": {"nodeSelector": {"kubernetes.io/hostname": NODE}}});
        let patch = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}});
        let deployment = app::manifest(&Shape { replicas: 1, version, patch, ..Shape::default() }.holding());
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}});
        [deployment, service]
    };
    json!({"apiVersion": "v1", "kind": "List", "items": (1..=pods).flat_map(each).collect::<Vec<_>>()})
}

/// Threads of a process that have this name.
fn threads(pid: u32, name: &str) -> anyhow::Result<usize> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("process {pid}"))?;
    let is_called =
        |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name);
    Ok(tasks.flatten().filter(is_called).count())
}
