//! The images of an application, and the pods that bring them.

use std::collections::BTreeSet;

use super::{App, OWN, PATIENCE, PREFETCH};

impl App {
    /// Digests of what the pods run.
    pub fn digests(&self) -> anyhow::Result<BTreeSet<String>> {
        let pods = self.kubectl.list(&["pods", "-l", OWN])?;
        let ids = pods.iter().filter_map(|pod| pod["status"]["containerStatuses"][0]["imageID"].as_str());
        Ok(ids.map(|id| id.rsplit('@').next().unwrap_or_default().to_owned()).collect())
    }

    /// Waits until no pod is left that brought an image to a node.
    pub fn wait_no_prefetch(&self) -> anyhow::Result<()> {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        self.kubectl.run(&["wait", "--for=delete", "pods", "-l", PREFETCH, &timeout]).map(drop)
    }
}
