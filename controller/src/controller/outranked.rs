//! A leader that finds writes of a later epoch than its own.
//!
//! Usually it has been deposed and will be told within seconds. If its Lease stays its own all the same, the Lease must have
//! been deleted and made anew (`kubectl delete lease` is a usual way to force a change), and its count of transitions began
//! again. Then the count is raised above the epoch that was found; the election sees it and leads on with that.

use std::time::Duration;

use hitless_api::JsonPatch;
use hitless_api::names::SYSTEM_NAMESPACE;
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
pub struct Rank {
    api: Api<Lease>,
    lease: String,
    holder: String,
    writes: Writes,
}

impl Rank {
    /// `holder` is our name in it.
    #[must_use]
    pub fn new(client: Client, lease: String, holder: String, writes: Writes) -> Self {
        Self { api: Api::namespaced(client, SYSTEM_NAMESPACE), lease, holder, writes }
    }

    /// Takes note that epoch `later` was found; says when to look again.
    pub(super) async fn outranked(&self, since: &mut Option<Instant>, ours: Leadership, later: i64) -> Instant {
        let start = *since.get_or_insert_with(Instant::now);
        if start.elapsed() < PATIENCE {
            tracing::debug!(ours = ours.epoch, later, "a later leader has written, the lease will tell");
            return Instant::now() + LOOK;
        }
        *since = None;
        match self.raise(ours.epoch, later).await {
            Ok(()) => tracing::warn!(
                ours = ours.epoch,
                later,
                "the lease had begun to count anew, raised above what was found"
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
