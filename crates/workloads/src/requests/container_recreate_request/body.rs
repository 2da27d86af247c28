//! What only a ContainerRecreateRequest has.

use hitless_api::container_recreate_request::{
    ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, FailurePolicy,
};
use jiff::SignedDuration;
use serde::Deserialize;

/// What only a ContainerRecreateRequest has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct RecreateBody {
    /// Name of the pod.
    pub pod: String,
    /// Names of its containers that are started anew.
    pub containers: Vec<String>,
    /// One after the other, each once the one before is Ready.
    pub is_ordered: bool,
    /// Also those that were started after the request was made.
    pub is_forced: bool,
    /// What a container that fails means for the others.
    pub failure_policy: FailurePolicy,
    /// Seconds between leaving service and the restart.
    pub delay_seconds: u32,
    /// A new container counts once it runs for longer than this.
    pub min_started: SignedDuration,
    /// So long after its creation it has ended.
    pub active: Option<SignedDuration>,
    /// So long after its end it is deleted.
    pub time_to_live: Option<SignedDuration>,
    /// What it reports.
    pub status: ContainerRecreateRequestStatus,
}

#[derive(Deserialize)]
struct Raw {
    spec: ContainerRecreateRequestSpec,
    #[serde(default)]
    status: ContainerRecreateRequestStatus,
}

impl From<Raw> for RecreateBody {
    fn from(Raw { spec, status }: Raw) -> Self {
        let strategy = spec.strategy.unwrap_or_default();
        let delay = strategy.unready_grace_period_seconds.unwrap_or_default();
        Self {
            pod: spec.pod_name,
            containers: spec.containers.into_iter().map(|container| container.name).collect(),
            is_ordered: strategy.ordered_recreate.unwrap_or_default(),
            is_forced: strategy.force_recreate.unwrap_or_default(),
            failure_policy: strategy.failure_policy.unwrap_or_default(),
            delay_seconds: u32::try_from(delay).unwrap_or_default(),
            min_started: SignedDuration::from_secs(strategy.min_started_seconds.unwrap_or_default().into()),
            active: spec.active_deadline_seconds.map(SignedDuration::from_secs),
            time_to_live: spec.ttl_seconds_after_finished.map(|ttl| SignedDuration::from_secs(ttl.into())),
            status,
        }
    }
}
