//! What the agents report of operations, live.

use std::time::Duration;

use anyhow::Context as _;
use hitless_api::{NodeTransition, Transition};

use crate::{Stack, Watch};

/// All NodeTransitions.
pub struct Operations(Watch);

impl Operations {
    /// Begins to watch.
    pub fn start(stack: &Stack) -> anyhow::Result<Self> {
        Watch::start(&stack.system(), &["nodetransitions"]).map(Self)
    }

    /// Waits until an operation of the pod has ended. Begin to wait before it can end: soon after, the report goes with its
    /// grant.
    pub fn wait_end(&self, pod_uid: &str, timeout: Duration) -> anyhow::Result<Transition> {
        self.0.wait("an operation of the pod to end", timeout, |nodes| {
            let nodes = nodes.values().filter_map(|node| serde_json::from_value::<NodeTransition>(node.clone()).ok());
            let mut reports = nodes.filter_map(|node| node.status).flat_map(|status| status.transitions);
            reports.find(|report| report.id.starts_with(pod_uid) && report.result.is_some())
        })
    }
}

/// A number of an ended operation's report (docs/draining.md).
pub fn number(ended: &Transition, name: &str) -> anyhow::Result<i64> {
    let result = ended.result.as_ref().context("it has not ended")?;
    result.report.get(name).copied().with_context(|| format!("no {name} in the report: {result:?}"))
}
