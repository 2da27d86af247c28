//! A *companion pod*: one pod of a workload's next version that runs beside its own for a while. It tries the version before a
//! pod that serves gets it, and serves itself while the only pod is away (docs/contract.md#companion-pod).
//!
//! It has the labels of the workload's pods, because network policies, meshes and the application itself look at them, but not
//! those by which ReplicaSets count. The workload is its controller, so nobody adopts it, and a PodDisruptionBudget counts it
//! with the workload. Its readiness gate keeps it out of every Service until the controller says otherwise.

mod manifest;
mod state;
mod tried;

pub use manifest::manifest;
pub use state::State;
pub(crate) use state::failure;
pub use tried::{Outcome, Tried};

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_api::{ObjectRef, digest};
use serde_json::json;

/// Characters of the workload's name in a companion's: with the rest it fits into a host name.
const LONGEST_NAME: usize = 35;

/// Value of the label `hitless.dev/companion` for this revision of a workload.
#[must_use]
pub fn key(workload: &ObjectRef, revision: &str) -> String {
    digest::short(&json!([workload.uid, revision]))
}

/// Name of the companion of a workload with this key.
#[must_use]
pub fn name(workload: &ObjectRef, key: &str) -> String {
    let name: String = workload.name.chars().take(LONGEST_NAME).collect();
    format!("{}-companion-{key}", name.trim_end_matches(['-', '.']))
}

/// Whether the pod is one.
#[must_use]
pub fn is_companion(pod: &PodView) -> bool {
    pod.labels.contains_key(labels::COMPANION)
}

/// Whether it was ever put in service: from then on it counts as a pod of its workload.
#[must_use]
pub fn has_served(pod: &PodView) -> bool {
    pod.in_service().is_some()
}
