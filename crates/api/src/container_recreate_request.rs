//! `ContainerRecreateRequest` of `apps.kruise.io`, wire-compatible with OpenKruise 1.9 (v1alpha1) and its main branch (v1beta1), whose specs are
//! the same. What upstream's webhook refuses, the schema refuses here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Containers of one pod are started anew, once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ContainerRecreateRequest",
    plural = "containerrecreaterequests",
    shortname = "crr",
    namespaced,
    status = "ContainerRecreateRequestStatus",
    derive = "PartialEq",
    validation = Rule::new("self.spec == oldSelf.spec")
        .message("spec can't be changed; make another ContainerRecreateRequest"),
    printcolumn = r#"{"name":"PHASE","type":"string","jsonPath":".status.phase","description":"How far it is"}"#,
    printcolumn = r#"{"name":"POD","type":"string","jsonPath":".spec.podName","description":"The pod"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateRequestSpec {
    /// The pod, of this namespace.
    #[schemars(length(min = 1, max = 253))]
    pub pod_name: String,
    /// Its containers that are started anew, each once.
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub containers: Vec<RecreatedContainer>,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RecreateStrategy>,
    /// So many seconds after its creation it has ended, whatever it has done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3))]
    pub active_deadline_seconds: Option<i64>,
    /// So many seconds after its end it is deleted; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// A container of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecreatedContainer {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
}

/// How containers are started anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecreateStrategy {
    /// Whether the first container that fails ends the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Each container is Ready before the next one is stopped. Otherwise all are replaced in one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered_recreate: Option<bool>,
    /// Also containers that were started after the request was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_recreate: Option<bool>,
    /// Read, and not used: the kubelet stops containers, and gives them the time of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// At least so many seconds the pod is out of service before its containers are stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub unready_grace_period_seconds: Option<i64>,
    /// A new container counts once it runs for longer than so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_started_seconds: Option<i32>,
}

/// What a container that fails means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The request ends.
    #[default]
    Fail,
    /// The others go on.
    Ignore,
}

/// How far a request, or one of its containers, is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecreatePhase {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    Recreating,
    /// A container: it runs anew.
    Succeeded,
    /// A container: it could not be replaced.
    Failed,
    /// The request has ended. What became of its containers they say themselves.
    Completed,
}

impl RecreatePhase {
    /// Whether a container stays so.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Succeeded)
    }
}

/// A report. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecreateRequestStatus {
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RecreatePhase>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Why it ended without what it was made for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Each container, in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_recreate_states: Vec<ContainerRecreateState>,
}

/// How far one container is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateState {
    /// Its name.
    pub name: String,
    /// How far it is.
    #[serde(default)]
    pub phase: RecreatePhase,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The one before it was stopped for this request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_killed: bool,
}
