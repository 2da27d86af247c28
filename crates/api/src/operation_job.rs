//! `OperationJob` of `apps.kusionstack.io/v1alpha1`, wire-compatible with KusionStack kuperator v0.7.4.
//!
//! The upstream type has no checks in its schema (a webhook makes them); here the API server makes the same ones. Upstream has no
//! bound on the number of targets, and its status does not fit into one object at some size; here the schema says where.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something is done once to each of these pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kusionstack.io",
    version = "v1alpha1",
    kind = "OperationJob",
    plural = "operationjobs",
    shortname = "opj",
    namespaced,
    status = "OperationJobStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"PROGRESS","type":"string","jsonPath":".status.progress","description":"How far it is"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.action == oldSelf.action", "message": "action can't be changed; make another OperationJob", "fieldPath": ".action"},
    {"rule": "self.targets == oldSelf.targets", "message": "targets can't be changed; make another OperationJob", "fieldPath": ".targets"},
    {"rule": "!has(self.partition) || (has(oldSelf.partition) && self.partition >= oldSelf.partition)",
     "message": "partition may only grow: what was begun is not taken back", "fieldPath": ".partition"},
]))]
pub struct OperationJobSpec {
    /// `Restart`: their containers are restarted in place. `Replace`: a CollaSet makes another pod in place of each. Anything else
    /// fails, and nothing is touched.
    #[schemars(length(min = 1, max = 64))]
    pub action: String,
    /// The pods. Each name once, of this namespace.
    #[schemars(
        length(min = 1, max = OperationJobSpec::MAX_TARGETS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub targets: Vec<OperationTarget>,
    /// So many of the targets, the first ones, are operated; absent: all. The rest waits until this grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub partition: Option<i32>,
    /// Seconds between leaving service and the operation. With more than 0 a pod always leaves, and is never held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub operation_delay_seconds: Option<i32>,
    /// So many seconds after `status.startTime` nothing more is begun; what is under way ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = OperationJobSpec::DEFAULT_ACTIVE_DEADLINE_SECONDS))]
    pub active_deadline_seconds: Option<i32>,
    /// So many seconds after its end the job is deleted. Upstream's spelling.
    #[serde(default, rename = "TTLSecondsAfterFinished", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = OperationJobSpec::DEFAULT_TTL_SECONDS))]
    pub ttl_seconds_after_finished: Option<i32>,
}

impl OperationJobSpec {
    /// Most pods of a job: with a status of each it has to fit into one object.
    pub const MAX_TARGETS: usize = 2000;
    /// Default of `activeDeadlineSeconds`.
    pub const DEFAULT_ACTIVE_DEADLINE_SECONDS: i32 = 10800;
    /// Default of `TTLSecondsAfterFinished`.
    pub const DEFAULT_TTL_SECONDS: i32 = 1800;
}

/// A pod of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTarget {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Names of its containers that are meant; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 63)))]
    pub containers: Vec<String>,
}

/// How far a job, or one of its targets, is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Progress {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    Processing,
    /// Ended, not as it should.
    Failed,
    /// Ended as it should.
    Succeeded,
}

impl Progress {
    /// Whether it stays so.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Succeeded)
    }
}

/// A report. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationJobStatus {
    /// Generation that this is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far the job is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When the controller took it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When its last target ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// How many targets it has.
    pub total_pod_count: i32,
    /// How many of them ended as they should.
    pub succeeded_pod_count: i32,
    /// How many did not.
    pub failed_pod_count: i32,
    /// Each target, in the order of `spec.targets`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = OperationJobSpec::MAX_TARGETS))]
    pub target_details: Vec<OperationTargetStatus>,
}

/// How far one target is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationTargetStatus {
    /// Name of the pod.
    pub name: String,
    /// How far it is.
    #[serde(default)]
    pub progress: Progress,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// More about it, by upstream's keys: `NewPod`; and ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_info: BTreeMap<String, String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<OperationError>,
}

/// Why a target failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationError {
    /// In CamelCase: `PodNotFound` and `ContainerNotFound` are upstream's.
    #[serde(default)]
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
}
