//! `PodDecoration` of `apps.kusionstack.io/v1alpha1`, wire-compatible with KusionStack kuperator v0.7.4: what pods of CollaSets get
//! beside their own template.
//!
//! The upstream type has no checks in its schema (a webhook makes them); here the API server checks what it can.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::colla_set::{any_object, any_objects};

/// What pods of CollaSets get that this selects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kusionstack.io",
    version = "v1alpha1",
    kind = "PodDecoration",
    plural = "poddecorations",
    shortname = "pd",
    namespaced,
    status = "PodDecorationStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"MATCHED","type":"integer","jsonPath":".status.matchedPods","description":"Pods that are selected"}"#,
    printcolumn = r#"{"name":"INJECTED","type":"integer","jsonPath":".status.injectedPods","description":"Pods that have it"}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedPods","description":"Pods that have the updated revision"}"#,
    printcolumn = r#"{"name":"UPDATED_READY","type":"integer","jsonPath":".status.updatedReadyPods","description":"Pods that have the updated revision and are Ready"}"#,
    printcolumn = r#"{"name":"CURRENT_REVISION","type":"string","jsonPath":".status.currentRevision","description":"The revision before"}"#,
    printcolumn = r#"{"name":"UPDATED_REVISION","type":"string","jsonPath":".status.updatedRevision","description":"The revision of the template"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PodDecorationSpec {
    /// How many unused revisions are kept; 20 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub history_limit: Option<i32>,
    /// The status does not list pods.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_pod_detail: bool,
    /// Labels of the pods that get it; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Which pods get a changed template.
    #[serde(default)]
    pub update_strategy: DecorationStrategy,
    /// Of several for one pod the one with the greatest weight is applied first, of equal ones the first by name; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// What the pods get.
    #[serde(default)]
    pub template: DecorationTemplate,
}

/// Which pods get a changed template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecorationStrategy {
    /// Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<DecorationRollingUpdate>,
}

/// Which pods get a changed template. With both, a pod has to be meant by both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecorationRollingUpdate {
    /// So many pods keep what they have; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub partition: Option<i32>,
    /// Only those that it selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// What pods get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecorationTemplate {
    /// Labels and annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<DecorationMetadata>,
    /// Init containers. One whose name is taken is left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub init_containers: Vec<Value>,
    /// Containers, each with `injectPolicy`: `BeforePrimaryContainer` (default) or `AfterPrimaryContainer`. One replaces a container
    /// of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub containers: Vec<Value>,
    /// What the template's own containers get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub primary_containers: Vec<PrimaryContainer>,
    /// Volumes. One replaces a volume of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub volumes: Vec<Value>,
    /// Where pods may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<DecorationAffinity>,
    /// Tolerations, beside the template's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub tolerations: Vec<Value>,
    /// RuntimeClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
}

/// Labels and annotations that pods get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecorationMetadata {
    /// What becomes of a value that is there: `Retain` (default) keeps it, `Overwrite` replaces it, `MergePatchJson` takes both for
    /// JSON and merges them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "patch_policy")]
    pub patch_policy: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What containers of the template get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrimaryContainer {
    /// `ByName`, `All`, `First` or `Last`; if absent, `ByName` where there is a name, else `All`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "target_policy")]
    pub target_policy: Option<String>,
    /// Name of the container that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Variables. One replaces a variable of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub env: Vec<Value>,
    /// Mounts. One replaces a mount of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub volume_mounts: Vec<Value>,
}

/// Where pods may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecorationAffinity {
    /// In place of the template's affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub override_affinity: Option<Value>,
    /// Beside the terms that a node has to meet already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub node_selector_terms: Vec<Value>,
}

/// A report. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDecorationStatus {
    /// Generation that this is of.
    pub observed_generation: i64,
    /// The revision that all pods had last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The revision of the template.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub updated_revision: String,
    /// How often the name of a revision was taken by another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Pods that are selected.
    pub matched_pods: i32,
    /// Of these, those that have it.
    pub injected_pods: i32,
    /// Of these, those that have the updated revision.
    pub updated_pods: i32,
    /// Those that are also Ready.
    pub updated_ready_pods: i32,
    /// Those that also serve.
    pub updated_available_pods: i32,
    /// The pods, by CollaSet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DecorationDetail>,
}

/// The pods of one CollaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecorationDetail {
    /// Name of the CollaSet.
    pub colla_set: String,
    /// How many of its pods are selected.
    pub affected_replicas: i32,
    /// These pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<DecoratedPod>,
}

/// A pod that is selected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DecoratedPod {
    /// Its name.
    pub name: String,
    /// The revision that it has.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// It has none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub escaped: bool,
}

fn patch_policy(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "nullable": true, "enum": ["Retain", "Overwrite", "MergePatchJson"]})
}

fn target_policy(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "nullable": true, "enum": ["ByName", "All", "First", "Last"]})
}
