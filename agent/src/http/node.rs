//! `/v1/node`: the node at a glance.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::State;
use axum::response::Json;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::DrainStatus;
use super::identity::{Caller, trusted_pods};
use super::refusal::Refusal;
use super::state::AppState;

/// The node at a glance.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Name of the node.
    pub node: String,
    /// Version of the agent.
    pub version: String,
    /// What the agent can do beyond what every version can.
    pub features: Vec<String>,
    /// What it was not given, and what that costs.
    pub missing_capabilities: Vec<String>,
    /// What is wrong with its settings, and which pods ask for the endpoint inside of them in vain.
    pub warnings: Vec<String>,
    /// How many there are.
    pub counts: Counts,
    /// Pods that have an operation or that somebody waits for, by namespace and name.
    pub pods: Vec<DrainStatus>,
}

/// How many there are.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Pods on the node.
    pub pods: usize,
    /// Operations that have not ended.
    pub operations: usize,
    /// Requests that wait.
    pub waits: usize,
    /// Event streams.
    pub streams: usize,
    /// Open connections to the endpoint.
    pub connections: usize,
}

/// The node, for those who may see all of it.
pub(super) async fn node(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<NodeSummary>, Refusal> {
    if !caller.sees_all() {
        return Err(Refusal::forbidden(caller.to_string()));
    }
    let all = state.pods.pods();
    let shown: BTreeSet<String> = state.published.pods().into_iter().chain(state.waiters.awaited()).collect();
    let now = Timestamp::now();
    let shown = all.iter().filter(|pod| shown.contains(&pod.view.id.uid));
    let mut pods: Vec<DrainStatus> = shown.map(|pod| state.status(&pod.view, now).0).collect();
    pods.sort_by(|a, b| a.pod.cmp(&b.pod));
    let counts = Counts {
        pods: all.len(),
        operations: pods.iter().filter(|pod| pod.operation.is_some() && !pod.has_ended()).count(),
        waits: state.limits.waits.taken(),
        streams: state.limits.streams.taken(),
        connections: state.limits.connections.taken(),
    };
    Ok(Json(NodeSummary {
        node: state.node.clone(),
        version: state.agent.version.clone(),
        features: state.agent.features.clone(),
        missing_capabilities: state.missing_capabilities.clone(),
        warnings: trusted_pods(&all, &state.trusted).into_iter().chain(state.unheard.words()).collect(),
        counts,
        pods,
    }))
}
