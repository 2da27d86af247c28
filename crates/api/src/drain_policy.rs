//! `DrainPolicy`: how pods are kept from losing requests, for many pods at a time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Hook;
use crate::drain::DrainOverrides;

/// How pods of its namespace are taken out of traffic. Of several that select a pod the first one by name counts. One named
/// `default` in `hitless-system` concerns all pods of the cluster, for what nobody else says. The controller resolves all of it
/// into each grant; agents know no DrainPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "hitless.dev",
    version = "v1alpha1",
    kind = "DrainPolicy",
    plural = "drainpolicies",
    shortname = "dp",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"Mode","type":"string","jsonPath":".spec.mode"}"#,
    printcolumn = r#"{"name":"Stragglers","type":"string","jsonPath":".spec.drain.stragglers"}"#,
    printcolumn = r#"{"name":"Deadline","type":"integer","jsonPath":".spec.drain.deadlineSeconds"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrainPolicySpec {
    /// Which pods it concerns. An empty selector means all of the namespace; without it the policy concerns nobody. The
    /// cluster's default is not asked for its selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: Option<LabelSelector>,
    /// How requests are kept safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DesiredMode>,
    /// Single fields of the drain.
    #[serde(default)]
    pub drain: DrainOverrides,
    /// Single fields of how the result is judged.
    #[serde(default)]
    pub verify: VerifyOverrides,
    /// What the pod is told or asked meanwhile; an empty list means: nothing. A list replaces those of weaker policies as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub hooks: Option<Vec<Hook>>,
}

/// Name of the DrainPolicy in `hitless-system` that concerns all pods.
pub const DEFAULT: &str = "default";

/// How requests are wanted to be kept safe; the controller makes a [`crate::GrantMode`] of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DesiredMode {
    /// As is best for the pod at that moment.
    #[default]
    Auto,
    /// The pod leaves service, its connections are drained, it returns.
    Leave,
    /// New connections are parked while the container is replaced.
    Hold,
}

impl DesiredMode {
    /// Reads one of the three words.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Auto" => Some(Self::Auto),
            "Leave" => Some(Self::Leave),
            "Hold" => Some(Self::Hold),
            _ => None,
        }
    }
}

/// Fields of [`crate::VerifySpec`] that a policy sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerifyOverrides {
    /// The new containers must be ready within this many seconds after they were started; otherwise the workload's
    /// `progressDeadlineSeconds`, or 600, or what their probes allow if that is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub progress_seconds: Option<u32>,
    /// It must stay ready for this many seconds before the pod returns to service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 3600))]
    pub soak_seconds: Option<u32>,
}
