//! What the tutorial's client has seen, by its own lines.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_e2e::Kubectl;

/// Its workers.
const WORKERS: usize = 10;
/// Longest time for a line of each worker. One takes five seconds if nothing is wrong.
const PATIENCE: Duration = Duration::from_mins(2);

/// The client's pod.
pub(super) struct Client<'a> {
    kubectl: &'a Kubectl,
    pod: String,
}

/// What its lines say in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) lines: usize,
    pub(super) requests: u64,
    pub(super) failed: u64,
}

impl<'a> Client<'a> {
    pub(super) fn find(kubectl: &'a Kubectl) -> anyhow::Result<Self> {
        let pods = kubectl.list(&["pods", "-l", "app=client"])?;
        let name = pods.first().and_then(|pod| pod["metadata"]["name"].as_str());
        Ok(Self { kubectl, pod: name.context("the client has no pod")?.to_owned() })
    }

    fn log(&self) -> anyhow::Result<String> {
        self.kubectl.run(&["logs", &self.pod])
    }

    /// What it has seen so far, as of the last line of each worker.
    pub(super) fn sum(&self) -> anyhow::Result<Sum> {
        Ok(sum(&self.log()?))
    }

    /// The same, once each worker has ended so many loops more. The first one of them has begun before this call.
    pub(super) fn sum_after(&self, loops: usize) -> anyhow::Result<Sum> {
        let begin = self.sum()?;
        let since = Instant::now();
        loop {
            let now = self.sum()?;
            if now.lines >= begin.lines + loops * WORKERS {
                return Ok(now);
            }
            ensure!(since.elapsed() < PATIENCE, "the client says nothing any more: {begin:?}, then {now:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    pub(super) fn last_line(&self) -> anyhow::Result<String> {
        let log = self.log()?;
        Ok(log.lines().rev().find_map(|line| numbers(line).map(|_| line.to_owned())).unwrap_or_default())
    }
}

fn sum(log: &str) -> Sum {
    log.lines().filter_map(numbers).fold(Sum::default(), |sum, (requests, failed)| Sum {
        lines: sum.lines + 1,
        requests: sum.requests + requests,
        failed: sum.failed + failed,
    })
}

/// Of a line like `worker-0 another loop, request: 50, failed: 0`.
fn numbers(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once("another loop, request: ")?;
    let (requests, failed) = rest.split_once(", failed: ")?;
    Some((requests.parse().ok()?, failed.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_added_up() {
        let log = "worker-0 another loop, request: 50, failed: 0\nworker-1 fails to request POST http://x/echo : Reset\n\
                   worker-1 another loop, request: 50, failed: 1\n";
        assert_eq!(sum(log), Sum { lines: 2, requests: 100, failed: 1 });
    }
}
