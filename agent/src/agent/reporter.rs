//! The status of the node's NodeTransition: what became of the grants, and what this agent is. Its only writer.

use std::collections::BTreeMap;
use std::time::Duration;

use hitless_api::node_transition::AgentInfo;
use hitless_api::{NodeTransition, NodeTransitionStatus, Transition, names};
use hitless_runtime::watch::Cache;
use hitless_runtime::write::Writes;
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::RETRY;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::report::Pace;

/// After a conflict that was read away: it is decided anew at once.
const SOON: Duration = Duration::from_millis(20);

/// Writes reports, each once it is time.
pub(super) struct Reporter {
    transitions: Api<NodeTransition>,
    cache: Cache<NodeTransition, NodeTransition>,
    metrics: Metrics,
    pace: Pace,
    /// No report is written before.
    after: Option<Instant>,
}

impl Reporter {
    pub(super) fn new(
        transitions: Api<NodeTransition>,
        cache: Cache<NodeTransition, NodeTransition>,
        metrics: Metrics,
    ) -> Self {
        Self { transitions, cache, metrics, pace: Pace::default(), after: None }
    }

    /// When the next try is due, if a write has failed.
    pub(super) const fn retry_at(&self) -> Option<Instant> {
        self.after
    }

    /// Writes the report of the node with this name if it is time, and tells the memories what the API server has. Says when to ask again.
    pub(super) async fn report(
        &mut self,
        node: &str,
        stored: &NodeTransition,
        (entries, info): (&[Transition], &AgentInfo),
        memories: &mut BTreeMap<String, Memory>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let no_status = NodeTransitionStatus::default();
        let status = stored.status.as_ref().unwrap_or(&no_status);
        let report = self.pace.report(status, entries, info, now);
        if self.after.is_some_and(|after| after > Instant::now()) {
            return None;
        }
        self.after = None;
        let Some(status) = report.write else { return report.wake_at };
        let body = json!({
            "metadata": {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version},
            "status": &status,
        });
        let params = PatchParams { field_manager: Some(names::AGENT.into()), ..PatchParams::default() };
        let (patch, transitions) = (Patch::Merge(&body), &self.transitions);
        let write = transitions.patch_status(node, &params, &patch);
        match self.metrics.writes.send("nodetransitions/status", write).await {
            Ok(object) => {
                self.cache.put(object);
                self.pace.wrote(now);
                self.reported(stored, &status.transitions, memories);
            }
            Err(error) => {
                tracing::info!(%error, "the report was not written, trying again");
                let is_fresh = error.is_stale() && self.read(node).await;
                self.after = Some(Instant::now() + if is_fresh { SOON } else { RETRY });
            }
        }
        None
    }

    async fn read(&self, node: &str) -> bool {
        match Writes::read(self.transitions.get_opt(node)).await {
            Ok(Some(object)) => {
                self.cache.put(object);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%error, "can't read the grants");
                false
            }
        }
    }

    /// The API server has the report.
    fn reported(&self, before: &NodeTransition, entries: &[Transition], memories: &mut BTreeMap<String, Memory>) {
        for entry in entries {
            if let Some(memory) = memories.get_mut(&entry.id) {
                memory.reported(entry);
            }
            let was_ended = before
                .status
                .iter()
                .flat_map(|status| &status.transitions)
                .any(|stored| stored.id == entry.id && stored.granted == entry.granted && stored.result.is_some());
            if let Some(result) = entry.result.as_ref().filter(|_| !was_ended) {
                self.metrics.ended(result);
                tracing::info!(grant = entry.id, outcome = ?result.outcome, reason = result.reason,
                    message = entry.message, report = ?result.report, "ended");
            }
        }
    }
}
