//! `SidecarInjection`: what all SidecarSets together put into new pods, as the admission policy reads it (`manifests/kruise/policies`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::colla_set::any_objects;
use crate::sidecar_set::{PatchPodMetadata, PullSecret};

/// All SidecarSets, in the order of their names. There is one object, `sidecarsets`. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "hitless.dev",
    version = "v1alpha1",
    kind = "SidecarInjection",
    plural = "sidecarinjections",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name == 'sidecarsets'").message("admission reads the one that is named 'sidecarsets'"),
    printcolumn = r#"{"name":"Sets","type":"string","jsonPath":".spec.sets[*].name"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct SidecarInjectionSpec {
    /// What each of them puts into pods.
    #[serde(default)]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub sets: Vec<InjectedSet>,
}

impl SidecarInjection {
    /// Name of the one object.
    pub const NAME: &'static str = "sidecarsets";
}

/// What one SidecarSet puts into pods: as its owner wrote it, once the API server has accepted a pod that has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InjectedSet {
    /// Name of the SidecarSet.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Admission has found the SidecarSet with this name and uid. What the controller writes here itself is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Its `metadata.generation` when this was taken.
    pub generation: i64,
    /// Of a canary: name of the SidecarSet in whose place it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Its `spec.selector`.
    pub selector: LabelSelector,
    /// Its `spec.namespaceSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Its `spec.namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its `spec.initContainers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub init_containers: Vec<Value>,
    /// Its `spec.containers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub containers: Vec<Value>,
    /// Its `spec.volumes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub volumes: Vec<Value>,
    /// Its `spec.imagePullSecrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<PullSecret>,
    /// Its `spec.patchPodMetadata`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patch_pod_metadata: Vec<PatchPodMetadata>,
    /// Digest of the containers: which version a pod has.
    pub hash: String,
    /// JSON: the entry of upstream's annotation `kruise.io/sidecarset-hash`.
    pub pod_hash: String,
    /// JSON: the entry of upstream's annotation `kruise.io/sidecarset-hash-without-image`.
    pub pod_hash_without_image: String,
}
