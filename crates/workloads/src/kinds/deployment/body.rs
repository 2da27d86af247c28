//! What only Deployments and ReplicaSets have.

use serde::Deserialize;
use serde_json::Value;

use super::progressing::{Progressing, RawCondition};
use crate::surge;
use crate::template::Template;

/// What only a Deployment has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw<RawDeploymentSpec>")]
pub struct DeploymentBody {
    /// `spec.replicas`, 1 if absent.
    pub replicas: i32,
    /// `spec.paused`.
    pub paused: bool,
    /// `spec.revisionHistoryLimit`, 10 if absent.
    pub revision_history_limit: i32,
    /// `spec.progressDeadlineSeconds`, 600 if absent.
    pub progress_deadline_seconds: u32,
    /// `spec.strategy` lets a new pod run beside the others.
    pub surges: bool,
    /// `spec.template`.
    pub template: Template,
    /// Condition `Progressing`.
    pub progressing: Progressing,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
}

/// What only a ReplicaSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw<RawReplicaSetSpec>")]
pub struct ReplicaSetBody {
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

#[derive(Deserialize)]
#[serde(bound = "S: Default + Deserialize<'de>")]
struct Raw<S> {
    #[serde(default)]
    spec: S,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawDeploymentSpec {
    replicas: Option<i32>,
    paused: bool,
    revision_history_limit: Option<i32>,
    progress_deadline_seconds: Option<u32>,
    strategy: RawStrategy,
    template: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStrategy {
    r#type: Option<String>,
    rolling_update: Option<RawRollingUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawRollingUpdate {
    max_surge: Option<Value>,
}

impl RawStrategy {
    /// A percentage rounds up, so that any but zero is at least one pod.
    fn surges(&self) -> bool {
        let surge = self.rolling_update.as_ref().and_then(|update| update.max_surge.as_ref());
        let is_none = surge.is_some_and(surge::is_none);
        self.r#type.as_deref().is_none_or(|name| name == "RollingUpdate") && !is_none
    }
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

impl From<Raw<RawDeploymentSpec>> for DeploymentBody {
    fn from(Raw { spec, status }: Raw<RawDeploymentSpec>) -> Self {
        Self {
            replicas: spec.replicas.unwrap_or(1),
            paused: spec.paused,
            revision_history_limit: spec.revision_history_limit.unwrap_or(10),
            progress_deadline_seconds: spec.progress_deadline_seconds.unwrap_or(600),
            surges: spec.strategy.surges(),
            template: Template::new(spec.template),
            progressing: Progressing::of(status.conditions.unwrap_or_default()),
            observed_generation: status.observed_generation,
        }
    }
}

impl From<Raw<RawReplicaSetSpec>> for ReplicaSetBody {
    fn from(Raw { spec, status }: Raw<RawReplicaSetSpec>) -> Self {
        let mut conditions = status.conditions.into_iter().flatten();
        Self {
            replicas: spec.replicas.unwrap_or(1),
            selector: spec.selector,
            template: Template::new(spec.template),
            observed_generation: status.observed_generation,
            status_replicas: status.replicas,
            failing: conditions.any(|condition| condition.r#type == "ReplicaFailure" && condition.status == "True"),
        }
    }
}
