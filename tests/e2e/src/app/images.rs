//! The images of an application, and the pods that bring them.

use std::collections::BTreeSet;

use anyhow::anyhow;
use serde_json::Value;

use super::{App, PATIENCE, PREFETCH, image_of, patience_for};

/// What the kubelet says of a container whose image it could not pull.
const PULL_FAILURES: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];

impl App {
    /// Waits until so many pods have their image. If one can't be pulled, the error has the kubelet's words at once.
    pub(super) fn wait_pulled(&self, count: usize) -> anyhow::Result<()> {
        let outcome = self.pods.wait(&format!("{count} pods with their image"), patience_for(count), |pods| {
            let done = pods.values().filter(|pod| has_image(pod)).count() >= count;
            pods.values().find_map(pull_failure).map(Err).or_else(|| done.then_some(Ok(())))
        })?;
        outcome.map_err(|words| anyhow!("the pods' image can't be pulled: {words}"))
    }

    /// Digests of what the pods run.
    pub fn digests(&self) -> anyhow::Result<BTreeSet<String>> {
        let pods = self.pods_now()?;
        let ids = pods.values().filter_map(|pod| pod["status"]["containerStatuses"][0]["imageID"].as_str());
        Ok(ids.map(|id| id.rsplit('@').next().unwrap_or_default().to_owned()).collect())
    }

    /// Waits until no pod is left that brought an image to a node.
    pub fn wait_no_prefetch(&self) -> anyhow::Result<()> {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        self.kubectl.run(&["wait", "--for=delete", "pods", "-l", PREFETCH, &timeout]).map(drop)
    }
}

fn has_image(pod: &Value) -> bool {
    pod["status"]["containerStatuses"][0]["imageID"].as_str().is_some_and(|id| !id.is_empty())
}

fn pull_failure(pod: &Value) -> Option<String> {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let reason = waiting["reason"].as_str().filter(|reason| PULL_FAILURES.contains(reason))?;
    Some(format!("{}: {reason}: {}", image_of(pod), waiting["message"].as_str().unwrap_or_default()))
}
