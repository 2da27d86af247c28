//! Deployments and ReplicaSets as the adapter sees them. Lenient: an absent field has its default, an unknown one is ignored
//! (but survives inside a template).

use std::collections::BTreeMap;

use hitless_api::names::{self, annotations, labels};
use hitless_api::pod::Owner;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::template::Template;

/// How a workload opted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptIn {
    /// Not at all.
    No,
    /// In place where possible, else the native way.
    InPlace,
    /// In place or not at all.
    InPlaceOnly,
}

/// A Deployment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw<RawDeploymentSpec>")]
pub struct DeploymentView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `spec.replicas`, 1 if absent.
    pub replicas: i32,
    /// `spec.paused`.
    pub paused: bool,
    /// `spec.revisionHistoryLimit`, 10 if absent.
    pub revision_history_limit: i32,
    /// `spec.progressDeadlineSeconds`, 600 if absent.
    pub progress_deadline_seconds: u32,
    /// `spec.template`.
    pub template: Template,
}

impl DeploymentView {
    /// How it opted in.
    #[must_use]
    pub fn opt_in(&self) -> OptIn {
        match self.annotations.get(annotations::UPDATE).map(String::as_str) {
            Some(names::UPDATE_IN_PLACE) => OptIn::InPlace,
            Some(names::UPDATE_IN_PLACE_ONLY) => OptIn::InPlaceOnly,
            _ => OptIn::No,
        }
    }

    /// Value of the label [`labels::SETTLED`] for this generation.
    #[must_use]
    pub(super) fn settled_mark(&self) -> String {
        format!("{}.{}", self.uid, self.generation)
    }

    /// Whether the guard policy's mark is on it (CONTRACT 20).
    #[must_use]
    pub fn marked(&self) -> bool {
        self.annotations.contains_key(annotations::ROLLOUT)
    }
}

/// A ReplicaSet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw<RawReplicaSetSpec>")]
pub struct ReplicaSetView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Controller owner.
    pub owner: Option<Owner>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `spec.replicas`, 1 if absent.
    pub replicas: i32,
    /// `spec.selector` as it is.
    pub selector: Value,
    /// `spec.template`.
    pub template: Template,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `status.replicas`.
    pub status_replicas: i32,
    /// Condition `ReplicaFailure` is True: pods can't be created or deleted, e.g. because of a quota.
    pub failing: bool,
}

impl ReplicaSetView {
    /// Whether it is one of ours that only keeps a template for `kubectl rollout undo`.
    #[must_use]
    pub fn is_history(&self) -> bool {
        self.labels.contains_key(labels::HISTORY)
    }

    /// Whether it is marked as the one behind the pods of a held Deployment.
    #[must_use]
    pub fn is_marked_live(&self) -> bool {
        self.labels.contains_key(labels::LIVE)
    }

    /// Whether it carries any label of ours.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        [labels::HISTORY, labels::LIVE, labels::SETTLED].iter().any(|name| self.labels.contains_key(*name))
    }

    /// The generation of its Deployment at which a rollout was last brought to its end.
    #[must_use]
    pub fn settled_at(&self, deployment: &DeploymentView) -> Option<i64> {
        let (uid, generation) = self.labels.get(labels::SETTLED)?.rsplit_once('.')?;
        generation.parse().ok().filter(|_| uid == deployment.uid)
    }
}

/// An object of the API as far as it is read here.
#[derive(Deserialize)]
#[serde(bound = "S: Default + Deserialize<'de>")]
struct Raw<S> {
    #[serde(default)]
    metadata: RawMeta,
    #[serde(default)]
    spec: S,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<RawOwner>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawOwner {
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawDeploymentSpec {
    replicas: Option<i32>,
    paused: bool,
    revision_history_limit: Option<i32>,
    progress_deadline_seconds: Option<u32>,
    template: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawReplicaSetSpec {
    replicas: Option<i32>,
    selector: Value,
    template: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    observed_generation: i64,
    replicas: i32,
    conditions: Option<Vec<RawCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    r#type: String,
    status: String,
}

impl From<Raw<RawDeploymentSpec>> for DeploymentView {
    fn from(raw: Raw<RawDeploymentSpec>) -> Self {
        let Raw { metadata: meta, spec, .. } = raw;
        Self {
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            annotations: meta.annotations.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            replicas: spec.replicas.unwrap_or(1),
            paused: spec.paused,
            revision_history_limit: spec.revision_history_limit.unwrap_or(10),
            progress_deadline_seconds: spec.progress_deadline_seconds.unwrap_or(600),
            template: Template::new(spec.template),
        }
    }
}

impl From<Raw<RawReplicaSetSpec>> for ReplicaSetView {
    fn from(raw: Raw<RawReplicaSetSpec>) -> Self {
        let Raw { metadata: meta, spec, status } = raw;
        Self {
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            created: meta.creation_timestamp,
            labels: meta.labels.unwrap_or_default(),
            annotations: meta.annotations.unwrap_or_default(),
            owner: meta
                .owner_references
                .into_iter()
                .flatten()
                .find(|owner| owner.controller == Some(true))
                .map(|owner| Owner { kind: owner.kind, name: owner.name, uid: owner.uid }),
            deleting: meta.deletion_timestamp.is_some(),
            replicas: spec.replicas.unwrap_or(1),
            selector: spec.selector,
            template: Template::new(spec.template),
            observed_generation: status.observed_generation,
            status_replicas: status.replicas,
            failing: status
                .conditions
                .into_iter()
                .flatten()
                .any(|condition| condition.r#type == "ReplicaFailure" && condition.status == "True"),
        }
    }
}
