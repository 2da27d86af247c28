//! Load on an application, sent by a process in a node's network namespace, or by a pod.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hitless_cluster::{Cluster, Place};
use hitless_load::Report;

use crate::build::Programs;
use crate::client::Client;
use crate::{App, Kubectl, Stack};

/// Clients give an answer up so long after the server was to have it, in milliseconds.
const TIMEOUT_MS: u32 = 5_000;

/// How much load.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests per second on connections of their own.
    pub fresh: u32,
    /// Requests per second on kept-alive connections.
    pub keepalive: u32,
    /// Number of kept-alive connections.
    pub connections: u32,
    /// How long the server takes for each, in milliseconds.
    pub delay_ms: u32,
}

impl Default for Rate {
    /// The load of the peers' table: 100 fresh and 100 keep-alive requests a second on 10 connections.
    fn default() -> Self {
        Self { fresh: 100, keepalive: 100, connections: 10, delay_ms: 0 }
    }
}

impl Rate {
    /// Requests per second on all connections.
    #[must_use]
    pub fn per_second(self) -> u64 {
        u64::from(self.fresh + self.keepalive)
    }
}

/// Running load; killed when dropped before [`Traffic::stop`].
pub struct Traffic(Client<Report>);

impl Traffic {
    /// Starts load on `target` from node `n1`.
    pub fn start(cluster: &Cluster, programs: &Programs, target: SocketAddr, rate: Rate) -> anyhow::Result<Self> {
        Self::start_from(Place::Node(1), cluster, programs, target, rate)
    }

    /// Starts load on `target` from there.
    pub fn start_from(
        place: Place,
        cluster: &Cluster,
        programs: &Programs,
        target: SocketAddr,
        rate: Rate,
    ) -> anyhow::Result<Self> {
        let mut command = cluster.command(place, &programs.load.to_string_lossy())?;
        arguments(&mut command, target, rate);
        Client::start(command).map(Self)
    }

    /// Starts load on `target` from a pod `load` in that namespace; `image` has the load client. The pod is deleted at the end.
    pub fn start_in_pod(kubectl: &Kubectl, image: &str, target: SocketAddr, rate: Rate) -> anyhow::Result<Self> {
        let mut command = kubectl.command(&["run", "load", "--rm", "--stdin", "--quiet", "--restart=Never"])?;
        command.args(["--pod-running-timeout=2m", "--image", image, "--command", "--", "/load"]);
        command.args(["--await-targets-seconds", "60"]);
        arguments(&mut command, target, rate);
        Client::start(command).map(Self)
    }

    /// Starts load on an application from each node, so that some comes from its pod's own.
    pub fn start_from_each_node(stack: &Stack, app: &App, rate: Rate) -> anyhow::Result<Vec<Self>> {
        let (cluster, programs) = (&stack.cluster, &stack.programs);
        let nodes = (1..).zip(cluster.node_names()).map(|(index, _)| Place::Node(index));
        nodes.map(|node| Self::start_from(node, cluster, programs, app.address, rate)).collect()
    }

    /// What has been seen so far, at most 200 ms old.
    #[must_use]
    pub fn report(&self) -> Report {
        self.0.report()
    }

    /// Waits until so many requests have been due.
    pub fn wait_for_requests(&self, count: u64, timeout: Duration) -> anyhow::Result<()> {
        self.0.wait(&format!("{count} requests"), timeout, |report| report.requests() >= count)
    }

    /// The same. `look` is told meanwhile, some times a second, what has been seen so far.
    pub fn wait_for_requests_looking(
        &self,
        count: u64,
        timeout: Duration,
        look: &mut dyn FnMut(&Report),
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            look(&self.report());
            let done = self.wait_for_requests(count, Duration::from_millis(250));
            if done.is_ok() || begin.elapsed() >= timeout {
                return done;
            }
        }
    }

    /// Waits until so many more requests have been due.
    pub fn wait_for_more(&self, count: u64, timeout: Duration) -> anyhow::Result<()> {
        self.wait_for_requests(self.report().requests() + count, timeout)
    }

    /// Stops sending, waits for what is outstanding and returns the final report.
    pub fn stop(self) -> anyhow::Result<Report> {
        let report = self.0.stop()?;
        ensure!(report.finished, "the load client ended without a final report: {report:?}");
        Ok(report)
    }
}

fn arguments(command: &mut Command, target: SocketAddr, rate: Rate) {
    command.args(["--until-stdin-closes", "--progress-every-ms", "200", "--target", &target.to_string()]);
    command.args(["--fresh", &rate.fresh.to_string(), "--keepalive", &rate.keepalive.to_string()]);
    command.args(["--connections", &rate.connections.to_string(), "--delay-ms", &rate.delay_ms.to_string()]);
    command.args(["--timeout-ms", &(TIMEOUT_MS + rate.delay_ms).to_string()]);
}
