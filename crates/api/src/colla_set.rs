//! `CollaSet` of `apps.kusionstack.io/v1alpha1`, wire-compatible with KusionStack kuperator v0.7.4.
//!
//! The upstream type has no checks in its schema (a webhook makes them); here the API server checks what it can. Upstream has no
//! subresource `scale`; here `kubectl scale` and a HorizontalPodAutoscaler work.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// So many pods of one template, each with an instance id of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kusionstack.io",
    version = "v1alpha1",
    kind = "CollaSet",
    plural = "collasets",
    shortname = "cls",
    namespaced,
    status = "CollaSetStatus",
    derive = "PartialEq",
    validation = Rule::new("(has(self.spec.scaleStrategy) && has(self.spec.scaleStrategy.context)) == (has(oldSelf.spec.scaleStrategy) && has(oldSelf.spec.scaleStrategy.context)) && (!(has(self.spec.scaleStrategy) && has(self.spec.scaleStrategy.context)) || self.spec.scaleStrategy.context == oldSelf.spec.scaleStrategy.context)")
        .message("spec.scaleStrategy.context can't be changed: the instance ids of its pods stand in that ResourceContext"),
    validation = Rule::new("self.spec.?namingStrategy.?podNamingSuffixPolicy.orValue('') != 'PersistentSequence' || (self.spec.?scaleStrategy.?podToExclude.orValue([]).size() == 0 && self.spec.?scaleStrategy.?podToInclude.orValue([]).size() == 0)")
        .message("podToExclude and podToInclude can't be used with podNamingSuffixPolicy PersistentSequence"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".spec.replicas","description":"Pods that are wanted"}"#,
    printcolumn = r#"{"name":"CURRENT","type":"integer","jsonPath":".status.replicas","description":"Pods that are there"}"#,
    printcolumn = r#"{"name":"AVAILABLE","type":"integer","jsonPath":".status.availableReplicas","description":"Pods that serve"}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedReplicas","description":"Pods of the updated revision"}"#,
    printcolumn = r#"{"name":"UPDATED_READY","type":"integer","jsonPath":".status.updatedReadyReplicas","description":"Pods of the updated revision that are Ready"}"#,
    printcolumn = r#"{"name":"UPDATED_AVAILABLE","type":"integer","jsonPath":".status.updatedAvailableReplicas","description":"Pods of the updated revision that serve"}"#,
    printcolumn = r#"{"name":"CURRENT_REVISION","type":"string","jsonPath":".status.currentRevision","description":"The revision before"}"#,
    printcolumn = r#"{"name":"UPDATED_REVISION","type":"string","jsonPath":".status.updatedRevision","description":"The revision of the template"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct CollaSetSpec {
    /// No pod is updated. Pods are still made and removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// How many pods; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Labels of its pods; the template's labels must match.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: LabelSelector,
    /// Template of its pods. Checked when the first pod is made from it.
    #[schemars(schema_with = "any_object")]
    pub template: Value,
    /// Claims that each pod gets for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub volume_claim_templates: Vec<Value>,
    /// How pods get another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// How the number of pods changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// How pods are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming_strategy: Option<NamingStrategy>,
    /// How many unused revisions are kept; 20 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub history_limit: Option<i32>,
}

/// How pods get another version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Which pods; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// `InPlaceIfPossible` (default), `InPlaceOnly`, `ReCreate` or `Replace`.
    #[serde(default, rename = "podUpgradePolicy", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "policy")]
    pub pod_update_policy: Option<String>,
    /// Seconds between leaving service and the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub operation_delay_seconds: Option<i32>,
}

/// Which pods are updated. With both, `byLabel` counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// All but a number of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_partition: Option<ByPartition>,
    /// Those with the label `collaset.kusionstack.io/update-included`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_label: Option<ByLabel>,
}

/// All but a number of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByPartition {
    /// So many pods keep their version; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub partition: Option<i32>,
}

/// Those with a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByLabel {}

/// How the number of pods changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// Name of the ResourceContext; the CollaSet's own name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub context: Option<String>,
    /// Pods that the CollaSet lets go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_to_exclude: Vec<String>,
    /// Pods that the CollaSet takes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_to_include: Vec<String>,
    /// Pods that are removed first, and made anew where the number of pods stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_to_delete: Vec<String>,
    /// What becomes of claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetention>,
    /// Seconds between leaving service and the deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub operation_delay_seconds: Option<i32>,
}

/// What becomes of the claims of pods that are gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRetention {
    /// When the CollaSet is deleted: `Delete` (default) or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "retention")]
    pub when_deleted: Option<String>,
    /// When there are fewer pods: `Delete` (default) or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "retention")]
    pub when_scaled: Option<String>,
}

/// How pods are named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamingStrategy {
    /// `Random` (default), or `PersistentSequence`: the CollaSet's name and the instance id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "naming")]
    pub pod_naming_suffix_policy: Option<String>,
}

/// A report. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CollaSetStatus {
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
    /// Pods that are there.
    pub replicas: i32,
    /// Of these, those on a node.
    pub scheduled_replicas: i32,
    /// Of these, those that are Ready.
    pub ready_replicas: i32,
    /// Of these, those that serve.
    pub available_replicas: i32,
    /// Of these, those of the updated revision.
    pub updated_replicas: i32,
    /// Those that are also Ready.
    pub updated_ready_replicas: i32,
    /// Those that also serve.
    pub updated_available_replicas: i32,
    /// Pods that are being operated.
    pub operating_replicas: i32,
    /// Pods that are being deleted.
    pub terminating_replicas: i32,
    /// `spec.selector` as text, for the subresource `scale`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// What became of the last scaling and of the last update.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CollaSetCondition>,
}

/// What became of something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollaSetCondition {
    /// `Scale`, `Update` or `Terminating`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When `status` changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// In CamelCase, for machines.
    #[serde(default)]
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
}

pub(crate) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub(crate) fn any_objects(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "array", "items": any_object(generator)})
}

/// Both spellings of the first one are in use.
fn policy(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": ["ReCreate", "Recreate", "InPlaceIfPossible", "InPlaceOnly", "Replace"]})
}

fn retention(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": ["Delete", "Retain"]})
}

fn naming(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": ["Random", "PersistentSequence"]})
}
