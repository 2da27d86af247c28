//! What only CloneSets have: the fields of both versions of the API as one thing, with their defaults, and percentages as numbers.

mod fault;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::clone_set::{
    CloneSetSpec, CloneSetStatus, Lifecycle, Pace, PriorityStrategy, Rolling, ScatterTerm, Shape,
};
use hitless_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::names::EXCLUDES_PREPARING_DELETE;
use super::rounding;
use crate::opt_in::OptIn;
use crate::pod_set::policy::UpgradePolicy;
use crate::template::Template;

/// How many unused revisions are kept where the CloneSet does not say.
const HISTORY: usize = 10;

/// What only a CloneSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in the spec")]
pub struct CloneSetBody {
    /// `spec.replicas`, 1 if absent.
    pub replicas: usize,
    /// `spec.selector`, as text.
    pub selector: String,
    /// `spec.selector` as it is.
    pub label_selector: LabelSelector,
    /// `spec.template`.
    pub template: Template,
    /// `spec.volumeClaimTemplates`.
    pub claims: Vec<Value>,
    /// How a pod gets another version.
    pub policy: UpgradePolicy,
    /// No pod is updated before somebody deletes it.
    pub on_delete: bool,
    /// No pod is updated.
    pub paused: bool,
    /// So many pods keep their version.
    pub partition: usize,
    /// Whether its owner has written a partition.
    pub has_partition: bool,
    /// Most pods beyond the wanted ones; 0 while no pod is updated.
    pub max_surge: usize,
    /// Most pods that may be unavailable.
    pub max_unavailable: usize,
    /// While so many pods are unavailable, none is made; `None`: no limit.
    pub scale_max_unavailable: Option<usize>,
    /// Names of pods that are removed first.
    pub pods_to_delete: BTreeSet<String>,
    /// A pod that others delete is made anew with its id and its claims.
    pub reuses_claims: bool,
    /// How many unused revisions are kept.
    pub history_limit: usize,
    /// Seconds at least between leaving service and a change in place.
    pub grace_seconds: u32,
    /// Which pods are updated first.
    pub priority: Option<PriorityStrategy>,
    /// Pods with these labels are spread over the update.
    pub scatter: Vec<ScatterTerm>,
    /// A rollout that gets on with nothing for so many seconds is reported as failed.
    pub progress_deadline_seconds: Option<u32>,
    /// What others do to its pods.
    pub hooks: Lifecycle,
    /// Pods that wait for a hook before they are deleted do not count as there.
    pub excludes_preparing_delete: bool,
    /// Why nothing is done for it, as a clause for people.
    pub fault: Option<String>,
    /// `status`.
    pub status: CloneSetStatus,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: Metadata,
    spec: CloneSetSpec,
    #[serde(default)]
    status: CloneSetStatus,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// The strategy of both versions.
struct Update {
    policy: String,
    on_delete: bool,
    pace: Pace,
}

impl Update {
    fn of(spec: &CloneSetSpec) -> Self {
        let update = spec.update_strategy.clone().unwrap_or_default();
        let type_ = update.type_.unwrap_or_default();
        let on_delete = type_ == "OnDelete";
        match spec.shape() {
            Shape::V1Alpha1 => {
                Self { policy: if on_delete { String::new() } else { type_ }, on_delete, pace: update.pace }
            }
            Shape::V1Beta1 => {
                let Rolling { pod_update_policy, pace } = update.rolling_update.unwrap_or_default();
                Self { policy: pod_update_policy.unwrap_or_default(), on_delete, pace }
            }
        }
    }

    fn policy(&self) -> Option<UpgradePolicy> {
        match self.policy.as_str() {
            "" | "ReCreate" => Some(UpgradePolicy::Recreate),
            "InPlaceIfPossible" => Some(UpgradePolicy::InPlaceIfPossible),
            "InPlaceOnly" => Some(UpgradePolicy::InPlaceOnly),
            _ => None,
        }
    }
}

impl From<Raw> for CloneSetBody {
    fn from(Raw { metadata, spec, status }: Raw) -> Self {
        let update = Update::of(&spec);
        let fault = fault::of(&spec, &update);
        let shape = spec.shape();
        let replicas = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
        let scale = spec.scale_strategy.unwrap_or_default();
        let pace = &update.pace;
        let paused = pace.paused.unwrap_or_default();
        // What can't be read is a fault, and nothing is done then.
        let max_surge = rounding::max_surge(replicas, pace.max_surge.as_ref(), paused || update.on_delete);
        let max_surge = max_surge.unwrap_or_default();
        let max_unavailable = rounding::max_unavailable(replicas, pace.max_unavailable.as_ref(), max_surge);
        let seconds = |seconds: Option<i32>| seconds.and_then(|seconds| u32::try_from(seconds).ok());
        let grace = pace.in_place_update_strategy.as_ref().and_then(|strategy| strategy.grace_period_seconds);
        Self {
            replicas,
            selector: selector::text(&spec.selector),
            label_selector: spec.selector,
            template: Template::new(spec.template),
            claims: spec.volume_claim_templates,
            policy: update.policy().unwrap_or(UpgradePolicy::Recreate),
            on_delete: update.on_delete,
            paused,
            partition: rounding::partition(replicas, pace.partition.as_ref()).unwrap_or_default(),
            has_partition: pace.partition.is_some(),
            max_surge,
            max_unavailable: max_unavailable.unwrap_or_default(),
            scale_max_unavailable: rounding::scale_max_unavailable(replicas, scale.max_unavailable.as_ref())
                .unwrap_or_default(),
            pods_to_delete: scale.pods_to_delete.into_iter().collect(),
            // The two versions have opposite defaults. One that shows no version keeps data.
            reuses_claims: match shape {
                Shape::V1Alpha1 => !scale.disable_pvc_reuse.unwrap_or_default(),
                Shape::V1Beta1 => scale.enable_pvc_reuse.unwrap_or_default(),
            },
            history_limit: spec.revision_history_limit.and_then(|count| usize::try_from(count).ok()).unwrap_or(HISTORY),
            grace_seconds: seconds(grace).unwrap_or_default(),
            priority: update.pace.priority_strategy,
            scatter: update.pace.scatter_strategy,
            // Upstream's word for "none".
            progress_deadline_seconds: seconds(spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)),
            hooks: spec.lifecycle.unwrap_or_default(),
            excludes_preparing_delete: scale.exclude_preparing_delete.unwrap_or_default()
                || metadata.labels.get(EXCLUDES_PREPARING_DELETE).is_some_and(|value| value == "true"),
            fault,
            status,
        }
    }
}

impl CloneSetBody {
    /// Nobody else is there to do it.
    pub(crate) fn opt_in(&self) -> OptIn {
        match self.policy {
            UpgradePolicy::InPlaceOnly => OptIn::InPlaceOnly,
            UpgradePolicy::InPlaceIfPossible | UpgradePolicy::Recreate | UpgradePolicy::Replace => OptIn::InPlace,
        }
    }
}
