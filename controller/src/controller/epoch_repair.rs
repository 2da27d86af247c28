//! A leader that finds writes of a later epoch than its own.
//!
//! Usually it has been deposed and learns of it within seconds. If it still holds the Lease after that, the Lease was deleted and
//! created again (`kubectl delete lease` is a usual way to force a change), so its count of transitions began again. Then the
//! count is raised above the epoch that was found. The election sees this and goes on leading with the new count.

use std::time::Duration;

use hitless_api::JsonPatch;
use hitless_api::names::system_namespace;
use hitless_runtime::lease::Leadership;
use hitless_runtime::write::{WriteError, Writes};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PatchParams;
use kube::{Api, Client};
use tokio::time::Instant;

/// Longer than a deposed leader can take itself for one.
const PATIENCE: Duration = Duration::from_secs(20);
/// Until then it looks again this often.
const LOOK: Duration = Duration::from_secs(1);

/// The Lease that this process contends for.
pub struct LeaseEpoch {
    api: Api<Lease>,
    lease: String,
    holder: String,
    writes: Writes,
}

impl LeaseEpoch {
    /// `holder` is our name in it.
    #[must_use]
    pub fn new(client: Client, lease: String, holder: String, writes: Writes) -> Self {
        Self { api: Api::namespaced(client, system_namespace()), lease, holder, writes }
    }

    /// Takes note that epoch `later` was found; says when to look again.
    pub(super) async fn later_epoch_found(&self, since: &mut Option<Instant>, ours: Leadership, later: i64) -> Instant {
        let start = *since.get_or_insert_with(Instant::now);
        if start.elapsed() < PATIENCE {
            tracing::debug!(ours = ours.epoch, later, "found writes of a later epoch, waiting for the Lease to change");
            return Instant::now() + LOOK;
        }
        *since = None;
        match self.raise(ours.epoch, later).await {
            Ok(()) => tracing::warn!(
                ours = ours.epoch,
                later,
                "the Lease counted its transitions from the start again; raised above the epoch that was found"
            ),
            Err(error) => tracing::warn!(%error, later, "can't raise the lease above the epoch that was found"),
        }
        Instant::now() + LOOK
    }

    async fn raise(&self, ours: i64, later: i64) -> Result<(), WriteError> {
        let patch = JsonPatch::default()
            .test(&["spec", "holderIdentity"], self.holder.as_str())
            .test(&["spec", "leaseTransitions"], ours)
            .replace(&["spec", "leaseTransitions"], later.saturating_add(1))
            .build();
        let params = PatchParams::default();
        let request = async { self.api.patch(&self.lease, &params, &patch).await.map(drop) };
        self.writes.send("leases", request).await
    }
}
