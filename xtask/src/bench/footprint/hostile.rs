//! What controllers and an agent need beside objects that are made to take much memory.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_e2e::stack::main_process;
use hitless_e2e::{Hostile, Stack};
use serde::Serialize;
use serde_json::Value;

use super::super::process::memory_mib;

/// Half of them opted in.
const DEPLOYMENTS: usize = 20;
const PODS: usize = 30;
const NODE: &str = "n1";
/// The limits of `manifests/controller.yaml` and `manifests/agent.yaml`, in MiB.
const LIMITS: (f64, f64) = (512.0, 64.0);
/// Everything has been read, and events of the pods have come.
const SETTLED: Duration = Duration::from_secs(20);

#[derive(Serialize)]
pub(super) struct Hosted {
    pub(super) deployments: usize,
    pub(super) pods_of_a_node: usize,
    /// That were started beside them.
    pub(super) controllers: Vec<Needs>,
    pub(super) agent: Needs,
}

#[derive(Serialize)]
pub(super) struct Needs {
    pub(super) rss_mib: f64,
    /// The most since it was started.
    pub(super) most_mib: f64,
    pub(super) restarts: u64,
}

pub(super) fn measure(stack: &Stack) -> anyhow::Result<Hosted> {
    let tenant = Hostile::new(stack, "bench-hostile")?;
    tenant.deployments(DEPLOYMENTS / 2, true)?;
    tenant.deployments(DEPLOYMENTS / 2, false)?;
    tenant.pods(PODS, NODE)?;
    stack.scale_controller(0)?;
    stack.scale_controller(2)?;
    stack.renew_agent(NODE)?;
    // What is measured is the most within this time, so there is no event to wait for.
    std::thread::sleep(SETTLED);
    let controllers = stack.system().list(&["pods", "-l", "app.kubernetes.io/name=hitless-controller"])?;
    let controllers: Vec<Needs> = controllers.iter().map(needs).collect::<anyhow::Result<_>>()?;
    let agent = needs(&stack.agent_of(NODE)?)?;
    let is_within = |needs: &Needs, limit: f64| needs.most_mib < limit && needs.restarts == 0;
    let hosted = Hosted { deployments: DEPLOYMENTS, pods_of_a_node: PODS, controllers, agent };
    let are_within =
        hosted.controllers.iter().all(|each| is_within(each, LIMITS.0)) && is_within(&hosted.agent, LIMITS.1);
    ensure!(are_within, "beyond the limits: {}", serde_json::to_string(&hosted)?);
    Ok(hosted)
}

fn needs(pod: &Value) -> anyhow::Result<Needs> {
    let pid = main_process(pod)?;
    let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().context("no restartCount")?;
    Ok(Needs { rss_mib: memory_mib(pid, "VmRSS:")?, most_mib: memory_mib(pid, "VmHWM:")?, restarts })
}
