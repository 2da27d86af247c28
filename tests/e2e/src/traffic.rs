//! Load on an application, sent by a process in a node's network namespace.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use hitless_cluster::{Cluster, Place};
use hitless_load::Report;

use crate::build::Programs;

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

/// Running load; killed when dropped before [`Traffic::stop`].
pub struct Traffic {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
    latest: Arc<(Mutex<Option<Report>>, Condvar)>,
}

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
        command.args(["--until-stdin-closes", "--progress-every-ms", "200", "--target", &target.to_string()]);
        command.args(["--fresh", &rate.fresh.to_string(), "--keepalive", &rate.keepalive.to_string()]);
        command.args(["--connections", &rate.connections.to_string(), "--delay-ms", &rate.delay_ms.to_string()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the load client")?;
        let stdout = child.stdout.take().context("the load client has no standard output")?;
        let latest = Arc::new((Mutex::new(None), Condvar::new()));
        let reader = std::thread::spawn({
            let latest = Arc::clone(&latest);
            move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if let Ok(report) = serde_json::from_str::<Report>(&line) {
                        *latest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                        latest.1.notify_all();
                    }
                }
            }
        });
        Ok(Self { stdin: child.stdin.take(), child, reader: Some(reader), latest })
    }

    /// What has been seen so far, at most 200 ms old.
    #[must_use]
    pub fn report(&self) -> Report {
        self.latest.0.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// Waits until so many requests have been due.
    pub fn wait_for_requests(&self, count: u64, timeout: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + timeout;
        let mut latest = self.latest.0.lock().unwrap_or_else(PoisonError::into_inner);
        while latest.as_ref().is_none_or(|report| report.fresh.requests + report.keepalive.requests < count) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("the load client did not reach {count} requests in {timeout:?}: {latest:?}");
            }
            latest = self.latest.1.wait_timeout(latest, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Stops sending, waits for what is outstanding and returns the final report.
    pub fn stop(mut self) -> anyhow::Result<Report> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let report = self.report();
        if !status.success() || !report.finished {
            bail!("the load client ended with {status} and without a final report: {report:?}");
        }
        Ok(report)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        // After `stop` both find nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
