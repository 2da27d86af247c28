//! How a CloneSet is scaled and updated.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the number of pods changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// Pods that are removed first, and made anew where the number of pods stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000), inner(length(max = 253)))]
    pub pods_to_delete: Vec<String>,
    /// While so many pods are unavailable, none is made; absent: no limit. A percentage rounds up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// v1alpha1. A pod that others delete gets another id, and its claims go; false if absent.
    #[serde(default, rename = "disablePVCReuse", skip_serializing_if = "Option::is_none")]
    pub disable_pvc_reuse: Option<bool>,
    /// v1beta1. A pod that others delete is made anew with its id and its claims; false if absent.
    #[serde(default, rename = "enablePVCReuse", skip_serializing_if = "Option::is_none")]
    pub enable_pvc_reuse: Option<bool>,
    /// v1beta1. Pods that wait for their hook before they are deleted do not count as there; in v1alpha1 a label of the CloneSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_preparing_delete: Option<bool>,
}

impl ScaleStrategy {
    pub(super) const fn is_alpha(&self) -> bool {
        self.disable_pvc_reuse.is_some()
    }

    pub(super) const fn is_beta(&self) -> bool {
        self.enable_pvc_reuse.is_some() || self.exclude_preparing_delete.is_some()
    }
}

/// How pods get another version. In v1alpha1 the limits stand here, in v1beta1 in `rollingUpdate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.type) || self.type != 'InPlaceOnly' || !has(self.maxSurge) || (type(self.maxSurge) == int ? self.maxSurge == 0 : self.maxSurge == '0%')",
     "message": "maxSurge can't be used with type InPlaceOnly: pods that are there for a while are made and deleted"},
    {"rule": "!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable > 0 : self.maxUnavailable != '0%') || (has(self.maxSurge) && (type(self.maxSurge) == int ? self.maxSurge > 0 : self.maxSurge != '0%'))",
     "message": "maxUnavailable and maxSurge can't both be 0: no pod could be updated"}
]))]
pub struct UpdateStrategy {
    /// v1alpha1: `ReCreate` (default), `InPlaceIfPossible` or `InPlaceOnly`; v1beta1: `RollingUpdate` (default). Both: `OnDelete`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "strategy_type")]
    pub type_: Option<String>,
    /// v1beta1. How pods are updated one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<Rolling>,
    /// v1alpha1. The same.
    #[serde(flatten)]
    pub pace: Pace,
}

impl UpdateStrategy {
    pub(super) fn is_alpha(&self) -> bool {
        let names_policy = matches!(self.type_.as_deref(), Some("ReCreate" | "InPlaceIfPossible" | "InPlaceOnly"));
        names_policy || self.pace != Pace::default()
    }

    pub(super) fn is_beta(&self) -> bool {
        self.rolling_update.is_some() || self.type_.as_deref() == Some("RollingUpdate")
    }
}

/// v1beta1: how pods are updated one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.podUpdatePolicy) || self.podUpdatePolicy != 'InPlaceOnly' || !has(self.maxSurge) || (type(self.maxSurge) == int ? self.maxSurge == 0 : self.maxSurge == '0%')",
     "message": "maxSurge can't be used with podUpdatePolicy InPlaceOnly: pods that are there for a while are made and deleted"},
    {"rule": "!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable > 0 : self.maxUnavailable != '0%') || (has(self.maxSurge) && (type(self.maxSurge) == int ? self.maxSurge > 0 : self.maxSurge != '0%'))",
     "message": "maxUnavailable and maxSurge can't both be 0: no pod could be updated"}
]))]
pub struct Rolling {
    /// `ReCreate` (default), `InPlaceIfPossible` or `InPlaceOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "policy")]
    pub pod_update_policy: Option<String>,
    /// Limits and order.
    #[serde(flatten)]
    pub pace: Pace,
}

/// How many pods are updated at a time, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// So many pods keep their version: a count, or a percentage that rounds up; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_fraction")]
    pub partition: Option<IntOrString>,
    /// Most pods that may be unavailable: a count, or a percentage that rounds up, or down where `maxSurge` is more than 0; 20% if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// Most pods beyond `replicas` during an update: a count, or a percentage that rounds up; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_surge: Option<IntOrString>,
    /// No pod is updated. Pods are still made and removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Which pods are updated first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<PriorityStrategy>,
    /// Pods with these labels are spread over the update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub scatter_strategy: Vec<ScatterTerm>,
    /// How a pod is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

/// How a pod is updated in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateStrategy {
    /// Seconds at least between leaving service and the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub grace_period_seconds: Option<i32>,
    /// Accepted and of no effect: images are always fetched before a pod leaves service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub image_pre_download_parallelism: Option<IntOrString>,
    /// Accepted and of no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pre_download_timeout_seconds: Option<i32>,
    /// Accepted and of no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pre_download_min_updated_ready_pods: Option<i32>,
}

/// Which pods are updated first: one of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(self.weightPriority) && size(self.weightPriority) > 0) != (has(self.orderPriority) && size(self.orderPriority) > 0)",
     "message": "give exactly one of weightPriority and orderPriority"}
]))]
pub struct PriorityStrategy {
    /// The sum of the weights of terms that match counts; larger first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub weight_priority: Vec<WeightTerm>,
    /// The first label that a pod has counts, and the number at the end of its value; larger first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub order_priority: Vec<OrderTerm>,
}

/// A weight of pods with some labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightTerm {
    /// From 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub weight: i32,
    /// Which pods.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub match_selector: LabelSelector,
}

/// A label whose value ends in a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderTerm {
    /// Key of the label.
    #[schemars(length(max = 317))]
    pub ordered_key: String,
}

/// A label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScatterTerm {
    /// Its key.
    #[schemars(length(max = 317))]
    pub key: String,
    /// Its value.
    #[schemars(length(max = 63))]
    pub value: String,
}

/// What others do to a pod before it goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Before a new pod counts as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_normal: Option<LifecycleHook>,
    /// Before a pod is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_delete: Option<LifecycleHook>,
    /// Before and after a pod is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<LifecycleHook>,
}

/// Labels and finalizers on a pod by which others say that they have done their part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHook {
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_handler: BTreeMap<String, String>,
    /// Finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub finalizers_handler: Vec<String>,
    /// The pod is out of service while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_pod_not_ready: Option<bool>,
}

/// A text without a percent sign is refused, as by upstream.
fn count_or_percent(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true, "pattern": "^[0-9]{1,4}%$", "minimum": 0, "maxLength": 5})
}

/// The same with fractions of a percent.
fn count_or_fraction(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true, "pattern": "^(100(\\.0+)?|[0-9]{1,2}(\\.[0-9]+)?)%$", "minimum": 0, "maxLength": 16})
}

fn strategy_type(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": ["", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "RollingUpdate", "OnDelete"]})
}

fn policy(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": ["", "ReCreate", "InPlaceIfPossible", "InPlaceOnly"]})
}
