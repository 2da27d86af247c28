//! `NodeTransition`: the one object between the controller and a node's agent.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Grant, Propagation, Transition};

/// Which pods of a node may proceed. Written by the controller only, every write with a resourceVersion.
/// The object has the node's name and is owned by the Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "hitless.dev",
    version = "v1alpha1",
    kind = "NodeTransition",
    plural = "nodetransitions",
    shortname = "ntr",
    status = "NodeTransitionStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Grants","type":"string","jsonPath":".spec.grants[*].pod.name"}"#,
    printcolumn = r#"{"name":"Agent","type":"string","jsonPath":".status.agent.version"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodeTransitionSpec {
    /// uid of the Node: a node that was created again refuses old grants.
    #[serde(rename = "nodeUID")]
    pub node_uid: String,
    /// Epoch of the leader that wrote last; a new leader raises it, and so makes a deposed leader's writes fail.
    #[serde(default)]
    pub epoch: i64,
    /// The grants.
    #[serde(default)]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub grants: Vec<Grant>,
    /// What was learned on this node of how long leaving takes to be noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
}

impl NodeTransitionSpec {
    /// Most grants in one NodeTransition (its schema).
    pub const MAX_GRANTS: usize = 256;
}

/// What the node's agent says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentInfo {
    /// Version of the agent.
    pub version: String,
    /// The kernel's boot id: tells a restarted node from a restarted agent.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// What this agent can do: `Leave`, `Hold`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// `<pod uid>/<container>` of those that it was to replace without a drain and has refused to, because they serve somebody or may
    /// (docs/contract.md#containers-that-serve-nobody). One whose pod is gone is dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub serving: Vec<String>,
    /// uids of pods whose new connections it could not hold (`HoldFailed`). Until it is another agent's word, they leave service
    /// instead (docs/contract.md#leave-or-hold). One that is gone is dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub not_held: Vec<String>,
    /// uids of pods with requests that took longer than clients can be held (`StillInFlight`): they leave where another one serves, or
    /// these are waited for. One that is gone is dropped, and one whose process is another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub in_flight: Vec<String>,
}

impl AgentInfo {
    /// Whether it carries this mode out.
    #[must_use]
    pub fn can(&self, mode: &str) -> bool {
        self.features.iter().any(|feature| feature.eq_ignore_ascii_case(mode))
    }

    /// How [`Self::serving`] names a container.
    #[must_use]
    pub fn container(pod_uid: &str, name: &str) -> String {
        format!("{pod_uid}/{name}")
    }

    /// Most entries of [`Self::serving`], [`Self::not_held`] and [`Self::in_flight`] (their schema).
    pub const MOST_REFUSED: usize = 1024;

    /// Whether this is the word of the same program since the same start of its node, so that what it could not do then it can't do
    /// now.
    #[must_use]
    pub fn is_of_same(&self, other: &Self) -> bool {
        self.version == other.version && self.boot_id == other.boot_id && self.features == other.features
    }
}

/// How far each granted operation is. Written by that node's agent only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTransitionStatus {
    /// The agent that wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentInfo>,
    /// One entry for each grant that the agent has seen.
    #[serde(default)]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub transitions: Vec<Transition>,
}

impl NodeTransition {
    /// What the agent has reported of `grant`, if anything.
    #[must_use]
    pub fn transition(&self, grant: &Grant) -> Option<&Transition> {
        self.status.as_ref()?.transitions.iter().find(|transition| transition.is_of(grant))
    }
}
