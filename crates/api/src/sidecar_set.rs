//! `SidecarSet` of `apps.kruise.io`, wire-compatible with OpenKruise 1.9 (v1alpha1) and its main branch (v1beta1): containers that pods get
//! when they are made, whoever owns them.
//!
//! Both versions are served, stored as v1alpha1, and have one schema: v1alpha1 has `namespace` besides, v1beta1 `customVersion`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clone_set::{PriorityStrategy, ScatterTerm};
use crate::colla_set::any_objects;
use crate::pod_transition_rule::count_or_percent;

/// Containers that pods get, with what these mount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "SidecarSet",
    plural = "sidecarsets",
    status = "SidecarSetStatus",
    derive = "PartialEq",
    validation = Rule::new("size(self.spec.?containers.orValue([])) + size(self.spec.?initContainers.orValue([])) > 0")
        .message("give at least one container in spec.containers or spec.initContainers"),
    validation = Rule::new("size(self.spec.selector.?matchLabels.orValue({})) + size(self.spec.selector.?matchExpressions.orValue([])) > 0")
        .message("spec.selector selects all pods; name labels of those that are to get the containers"),
    printcolumn = r#"{"name":"MATCHED","type":"integer","jsonPath":".status.matchedPods","description":"Pods that have its containers"}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedPods","description":"Pods that have them as they are now"}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.readyPods","description":"Pods that have its containers and are Ready"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetSpec {
    /// Labels of the pods that get the containers; not empty.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: LabelSelector,
    /// Labels of their namespaces; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub namespace_selector: Option<LabelSelector>,
    /// v1alpha1. Only pods of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Init containers, native sidecars among them. Behind the pod's own, unless `podInjectPolicy` is `BeforeAppContainer`; in order of
    /// their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "sidecars")]
    pub init_containers: Vec<Value>,
    /// Containers. In front of the pod's own, unless `podInjectPolicy` is `AfterAppContainer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "sidecars")]
    pub containers: Vec<Value>,
    /// Volumes. Those that one of the containers mounts are added; one of the pod's own of that name wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub volumes: Vec<Value>,
    /// Secrets for pulling images, beside the pod's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub image_pull_secrets: Vec<PullSecret>,
    /// How pods that have the containers get other images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<SidecarUpdateStrategy>,
    /// What new pods get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injection_strategy: Option<InjectionStrategy>,
    /// How many unused revisions are kept; 10 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// Annotations that pods get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub patch_pod_metadata: Vec<PatchPodMetadata>,
    /// v1beta1. A name for the version, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
}

/// A Secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PullSecret {
    /// In the namespace of the pod.
    pub name: String,
}

/// How pods that have the containers get other images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.selector) || !has(self.partition) || (type(self.partition) == int ? self.partition == 0 : self.partition == '0%')",
     "message": "partition and selector can't both be given"}
]))]
pub struct SidecarUpdateStrategy {
    /// `RollingUpdate` (default) or `NotUpdate`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "update_type")]
    pub type_: Option<String>,
    /// No pod is updated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Only those pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: Option<LabelSelector>,
    /// So many pods keep their images; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub partition: Option<IntOrString>,
    /// Most pods that may be unavailable for it; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// Which pods go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<PriorityStrategy>,
    /// Pods with these labels are spread over the rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub scatter_strategy: Vec<ScatterTerm>,
}

/// What new pods get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InjectionStrategy {
    /// New pods do not get the containers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// They get an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<InjectionRevision>,
}

/// Which version new pods get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectionRevision {
    /// By its `customVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// By the name of its ControllerRevision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// `Always` (default), or `Partial`: as many as `partition` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// Annotations that pods get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PatchPodMetadata {
    /// By key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
    /// `Retain` (default): one that is there stays; `Overwrite`: it is replaced; `MergePatchJson`: both are JSON and are merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "patch_policy")]
    pub patch_policy: Option<String>,
}

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SidecarSetStatus {
    /// `metadata.generation` that this tells of.
    pub observed_generation: i64,
    /// Pods that have its containers.
    pub matched_pods: i32,
    /// Pods that have them as they are now.
    pub updated_pods: i32,
    /// Pods that have its containers and are Ready.
    pub ready_pods: i32,
    /// Pods that have them as they are now and are Ready.
    pub updated_ready_pods: i32,
    /// Name of the newest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<String>,
    /// Kept for upstream's sake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// `Injected`: whether new pods get what it says now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Containers as the API server knows them, with upstream's own fields. What makes no sense in one is told by the API server itself, when it is
/// asked for a pod that has it.
fn sidecars(generator: &mut SchemaGenerator) -> Schema {
    let mut all = any_objects(generator);
    all.insert("maxItems".to_owned(), 32.into());
    all
}

fn update_type(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": ["RollingUpdate", "NotUpdate"]})
}

fn patch_policy(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": ["Retain", "Overwrite", "MergePatchJson"]})
}
