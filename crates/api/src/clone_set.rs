//! `CloneSet` of `apps.kruise.io`, wire-compatible with OpenKruise 1.9 (v1alpha1) and its main branch (v1beta1).
//!
//! Both versions are served, stored as v1alpha1, and have one schema, so that no conversion server is needed: which version an object was
//! written for shows in its fields ([`CloneSetSpec::shape`]). Fields of both in one object are refused.

mod strategy;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use strategy::{
    InPlaceUpdateStrategy, Lifecycle, LifecycleHook, OrderTerm, Pace, PriorityStrategy, Rolling, ScaleStrategy,
    ScatterTerm, UpdateStrategy, WeightTerm,
};

use crate::colla_set::{any_object, any_objects};

/// So many pods of one template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "CloneSet",
    plural = "clonesets",
    shortname = "clone",
    namespaced,
    status = "CloneSetStatus",
    derive = "PartialEq",
    validation = Rule::new("self.spec.selector == oldSelf.spec.selector")
        .message("spec.selector can't be changed: pods are found by it; make another CloneSet"),
    validation = Rule::new("!((self.spec.?updateStrategy.?rollingUpdate.hasValue() || self.spec.?updateStrategy.?type.orValue('') == 'RollingUpdate' || self.spec.?scaleStrategy.?enablePVCReuse.hasValue() || self.spec.?scaleStrategy.?excludePreparingDelete.hasValue()) && (self.spec.?updateStrategy.?type.orValue('') in ['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly'] || self.spec.?updateStrategy.?partition.hasValue() || self.spec.?updateStrategy.?maxUnavailable.hasValue() || self.spec.?updateStrategy.?maxSurge.hasValue() || self.spec.?updateStrategy.?paused.hasValue() || self.spec.?updateStrategy.?priorityStrategy.hasValue() || self.spec.?updateStrategy.?scatterStrategy.hasValue() || self.spec.?updateStrategy.?inPlaceUpdateStrategy.hasValue() || self.spec.?scaleStrategy.?disablePVCReuse.hasValue()))")
        .message("the object has fields of v1alpha1 and of v1beta1: give the strategy either in spec.updateStrategy with type ReCreate, InPlaceIfPossible or InPlaceOnly (v1alpha1), or in spec.updateStrategy.rollingUpdate with podUpdatePolicy (v1beta1)"),
    validation = Rule::new("!has(self.spec.progressDeadlineSeconds) || self.spec.progressDeadlineSeconds > self.spec.?minReadySeconds.orValue(0)")
        .message("spec.progressDeadlineSeconds must be more than spec.minReadySeconds"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".spec.replicas","description":"Pods that are wanted"}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedReplicas","description":"Pods of the update revision"}"#,
    printcolumn = r#"{"name":"UPDATED_READY","type":"integer","jsonPath":".status.updatedReadyReplicas","description":"Pods of the update revision that are Ready"}"#,
    printcolumn = r#"{"name":"UPDATED_AVAILABLE","type":"integer","jsonPath":".status.updatedAvailableReplicas","description":"Pods of the update revision that are available"}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.readyReplicas","description":"Pods that are Ready"}"#,
    printcolumn = r#"{"name":"TOTAL","type":"integer","jsonPath":".status.replicas","description":"Pods that are there"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"CONTAINERS","type":"string","priority":1,"jsonPath":".spec.template.spec.containers[*].name","description":"Containers of its pods"}"#,
    printcolumn = r#"{"name":"IMAGES","type":"string","priority":1,"jsonPath":".spec.template.spec.containers[*].image","description":"Their images"}"#,
    printcolumn = r#"{"name":"SELECTOR","type":"string","priority":1,"jsonPath":".status.labelSelector","description":"Labels of its pods"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetSpec {
    /// How many pods; 1 if absent, which the API server writes down: `kubectl scale` and autoscalers read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 1))]
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
    /// How the number of pods changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// How pods get another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// How many unused revisions are kept; 10 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// A pod is available once it has been Ready for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// What others do to a pod before it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// A rollout that gets on with nothing for so many seconds is reported as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: Option<i32>,
}

/// Which version of the API an object was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It has fields of v1alpha1, or none that tell.
    V1Alpha1,
    /// It has fields that only v1beta1 has.
    V1Beta1,
}

impl CloneSetSpec {
    /// The version that its fields are of. Where none tells it is the stored one, v1alpha1.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let update = self.update_strategy.as_ref();
        let scale = self.scale_strategy.as_ref();
        if update.is_some_and(UpdateStrategy::is_beta) || scale.is_some_and(ScaleStrategy::is_beta) {
            Shape::V1Beta1
        } else {
            Shape::V1Alpha1
        }
    }

    /// Whether it has fields of both: the schema refuses that, a file may have it.
    #[must_use]
    pub fn is_of_both(&self) -> bool {
        let update = self.update_strategy.as_ref();
        let scale = self.scale_strategy.as_ref();
        let is_alpha = update.is_some_and(UpdateStrategy::is_alpha) || scale.is_some_and(ScaleStrategy::is_alpha);
        is_alpha && self.shape() == Shape::V1Beta1
    }
}

/// A report. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneSetStatus {
    /// Generation that this is of.
    pub observed_generation: i64,
    /// Pods that are there.
    pub replicas: i32,
    /// Of these, those that are Ready.
    pub ready_replicas: i32,
    /// Of these, those that are available.
    pub available_replicas: i32,
    /// Of these, those of the update revision.
    pub updated_replicas: i32,
    /// Those that are also Ready.
    pub updated_ready_replicas: i32,
    /// Those that are also available.
    pub updated_available_replicas: i32,
    /// How many are to be of the update revision: `replicas` less the partition.
    pub expected_updated_replicas: i32,
    /// The revision of the template.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// The revision that all pods had last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// How often the name of a revision was taken by another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What became of scaling and of the update.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CloneSetCondition>,
    /// `spec.selector` as text, for the subresource `scale`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

/// What became of something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetCondition {
    /// `FailedScale`, `FailedUpdate` or `Progressing`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the rollout got on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When `status` changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// In CamelCase, for machines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
