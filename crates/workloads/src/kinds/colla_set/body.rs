//! What only CollaSets have.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::colla_set::{CollaSetSpec, CollaSetStatus};
use hitless_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::names::UPDATE_INCLUDED;
use crate::kinds::pod_decoration::names::mark_among;
use crate::opt_in::OptIn;
use crate::pod_set::claim;
use crate::pod_set::policy::{KeepsClaims, Scope, UpgradePolicy};
use crate::template::{self, Template};

/// How many unused revisions are kept where the CollaSet does not say.
const HISTORY: usize = 20;

/// What only a CollaSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct CollaSetBody {
    /// `spec.replicas`, 0 if absent.
    pub replicas: usize,
    /// `spec.paused`: no pod is updated.
    pub paused: bool,
    /// `spec.selector`, as text.
    pub selector: String,
    /// `spec.selector` as it is.
    pub label_selector: LabelSelector,
    /// `spec.template`.
    pub template: Template,
    /// `spec.updateStrategy.podUpgradePolicy`.
    pub policy: UpgradePolicy,
    /// Which pods are updated.
    pub scope: Scope,
    /// Pods are named by their instance id.
    pub in_sequence: bool,
    /// Name of its ResourceContext, if it is not its own.
    pub context: Option<String>,
    /// How many unused revisions are kept.
    pub history_limit: usize,
    /// Names of pods that are removed first.
    pub pods_to_delete: BTreeSet<String>,
    /// Names of pods that it lets go.
    pub pods_to_exclude: BTreeSet<String>,
    /// Names of pods that it takes on.
    pub pods_to_include: BTreeSet<String>,
    /// `spec.volumeClaimTemplates`.
    pub claims: Vec<Value>,
    /// What becomes of claims.
    pub keeps_claims: KeepsClaims,
    /// Shortest time between leaving service and an update, in seconds.
    pub update_delay_seconds: u32,
    /// Shortest time between leaving service and a deletion, in seconds.
    pub scale_delay_seconds: u32,
    /// Why nothing is done for it, as a clause for people.
    pub fault: Option<String>,
    /// `status`.
    pub status: CollaSetStatus,
}

/// What `podUpgradePolicy` may say.
const POLICIES: &str = "InPlaceIfPossible, InPlaceOnly, ReCreate or Replace";

fn policy_named(name: &str) -> Option<UpgradePolicy> {
    match name {
        "" | "InPlaceIfPossible" => Some(UpgradePolicy::InPlaceIfPossible),
        "InPlaceOnly" => Some(UpgradePolicy::InPlaceOnly),
        "ReCreate" | "Recreate" => Some(UpgradePolicy::Recreate),
        "Replace" => Some(UpgradePolicy::Replace),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Raw {
    spec: CollaSetSpec,
    #[serde(default)]
    status: CollaSetStatus,
}

impl From<Raw> for CollaSetBody {
    fn from(Raw { spec, status }: Raw) -> Self {
        let fault = fault(&spec);
        let update = spec.update_strategy.unwrap_or_default();
        let rolling = update.rolling_update.unwrap_or_default();
        let partition = rolling.by_partition.and_then(|by| by.partition).unwrap_or_default();
        let scale = spec.scale_strategy.unwrap_or_default();
        let naming = spec.naming_strategy.and_then(|naming| naming.pod_naming_suffix_policy);
        let seconds =
            |seconds: Option<i32>| seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or_default();
        let retention = scale.persistent_volume_claim_retention_policy.unwrap_or_default();
        let retains = |policy: Option<String>| policy.as_deref() == Some("Retain");
        Self {
            replicas: spec.replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
            paused: spec.paused,
            selector: selector::text(&spec.selector),
            label_selector: spec.selector,
            template: Template::new(spec.template),
            policy: update.pod_update_policy.as_deref().and_then(policy_named).unwrap_or_default(),
            scope: match rolling.by_label {
                Some(_) => Scope::ByLabel(UPDATE_INCLUDED),
                None => Scope::Partition(usize::try_from(partition).unwrap_or_default()),
            },
            in_sequence: naming.as_deref() == Some("PersistentSequence"),
            context: scale.context.filter(|name| !name.is_empty()),
            history_limit: spec.history_limit.and_then(|count| usize::try_from(count).ok()).unwrap_or(HISTORY),
            pods_to_delete: scale.pod_to_delete.into_iter().collect(),
            pods_to_exclude: scale.pod_to_exclude.into_iter().collect(),
            pods_to_include: scale.pod_to_include.into_iter().collect(),
            claims: spec.volume_claim_templates,
            keeps_claims: KeepsClaims {
                when_deleted: retains(retention.when_deleted),
                when_scaled: retains(retention.when_scaled),
            },
            update_delay_seconds: seconds(update.operation_delay_seconds),
            scale_delay_seconds: seconds(scale.operation_delay_seconds),
            fault,
            status,
        }
    }
}

/// What makes no sense in it, whatever the cluster is like.
fn fault(spec: &CollaSetSpec) -> Option<String> {
    let labels = spec.template["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: BTreeMap<String, String> =
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    if spec.replicas.is_some_and(|count| count < 0) {
        return Some("spec.replicas is negative; give 0 or more".to_owned());
    }
    let update = spec.update_strategy.as_ref();
    let policy = update.and_then(|update| update.pod_update_policy.as_deref());
    if let Some(unknown) = policy.filter(|policy| policy_named(policy).is_none()) {
        return Some(format!("spec.updateStrategy.podUpgradePolicy {unknown} is not known; use {POLICIES}"));
    }
    let rolling = update.and_then(|update| update.rolling_update.as_ref());
    let partition = rolling.and_then(|rolling| rolling.by_partition.as_ref()?.partition);
    if partition.is_some_and(|kept| kept < 0) {
        return Some("spec.updateStrategy.rollingUpdate.byPartition.partition is negative; give 0 or more".to_owned());
    }
    if let Some(fault) = template::not_selected(&spec.selector, &labels) {
        return Some(fault);
    }
    if let Some(mark) = mark_among(labels.keys()) {
        return Some(format!(
            "spec.template has the label {mark}, which tells what decorations a pod has; take it off"
        ));
    }
    let names: Vec<&str> = spec
        .volume_claim_templates
        .iter()
        .map(|claim| claim["metadata"]["name"].as_str().unwrap_or_default())
        .collect();
    if names.contains(&"") {
        return Some("an entry of spec.volumeClaimTemplates has no metadata.name".to_owned());
    }
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name))?;
    Some(format!("spec.volumeClaimTemplates has two entries with the name {}", twice.1))
}

impl CollaSetBody {
    /// Names of its claim templates.
    #[must_use]
    pub fn claim_names(&self) -> Vec<String> {
        self.claims.iter().map(|template| claim::name_of(template).to_owned()).collect()
    }

    /// Names of its claim templates that `other` has not, or not as they are.
    #[must_use]
    pub fn claims_not_in(&self, other: &Self) -> Vec<String> {
        let known = claim::normal(&other.claims);
        let own = claim::normal(&self.claims).into_iter().filter(|template| !known.contains(template));
        own.map(|template| claim::name_of(&template).to_owned()).collect()
    }

    /// Nobody else is there to do it.
    pub(crate) fn opt_in(&self) -> OptIn {
        match self.policy {
            UpgradePolicy::InPlaceOnly => OptIn::InPlaceOnly,
            UpgradePolicy::InPlaceIfPossible | UpgradePolicy::Recreate | UpgradePolicy::Replace => OptIn::InPlace,
        }
    }
}
