//! One update of the tutorial's server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use hitless_e2e::{Kubectl, Watch};
use serde::Serialize;
use serde_json::Value;

use super::client::Client;

/// Longest time for an update. The tutorial's probe looks five seconds after the start, and then every three.
const PATIENCE: Duration = Duration::from_mins(4);

/// What came of it.
#[derive(Serialize)]
pub(super) struct Update {
    /// Until all pods were available at the new revision.
    seconds: f64,
    /// Of the client, from before the update until each worker had ended a loop after it.
    requests: u64,
    pub(super) failed: u64,
    pods_recreated: usize,
}

impl Update {
    pub(super) fn text(&self) -> String {
        let Self { seconds, requests, failed, pods_recreated } = self;
        format!("{seconds:.1} s, {failed} of {requests} requests failed, {pods_recreated} pods made anew")
    }
}

pub(super) fn carry_out(kubectl: &Kubectl, client: &Client<'_>, manifest: &str) -> anyhow::Result<Update> {
    let (before, pods) = (client.sum()?, uids(kubectl)?);
    let begin = Instant::now();
    kubectl.feed_text(&["apply"], manifest)?;
    wait_available(kubectl, "server", 3)?;
    let seconds = begin.elapsed().as_secs_f64();
    let after = client.sum_after(2)?;
    let pods_recreated = uids(kubectl)?.difference(&pods).count();
    Ok(Update {
        seconds,
        requests: after.requests - before.requests,
        failed: after.failed - before.failed,
        pods_recreated,
    })
}

fn uids(kubectl: &Kubectl) -> anyhow::Result<BTreeSet<String>> {
    let pods = kubectl.list(&["pods", "-l", "app=server"])?;
    Ok(pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str().map(ToOwned::to_owned)).collect())
}

/// Waits until the CollaSet says that so many pods are available at its newest revision.
pub(super) fn wait_available(kubectl: &Kubectl, name: &str, replicas: u64) -> anyhow::Result<()> {
    let sets = Watch::start(kubectl, &["collasets"])?;
    let is_there = |set: &Value| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && status["updatedAvailableReplicas"].as_u64() == Some(replicas)
    };
    let waited = sets.wait(&format!("CollaSet {name} to be available"), PATIENCE, |sets| {
        sets.get(name).filter(|set| is_there(set)).map(drop)
    });
    let Err(error) = waited else { return Ok(()) };
    let why = kubectl.run(&["describe", "collaset", name]).unwrap_or_default();
    bail!("{error:#}\n{why}")
}
