//! What only Deployments and ReplicaSets have.

use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use serde::Deserialize;
use serde_json::Value;

use super::halt_report::{Progressing, RawCondition};
use crate::object::{Body, Object, Typed};
use crate::template::Template;

/// A Deployment.
pub type Deployment<'a> = Typed<'a, DeploymentBody>;
/// A ReplicaSet.
pub type ReplicaSet<'a> = Typed<'a, ReplicaSetBody>;

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

impl Object {
    /// As a Deployment, if it is one.
    #[must_use]
    pub fn deployment(&self) -> Option<Deployment<'_>> {
        match &self.body {
            Body::Deployment(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a ReplicaSet, if it is one.
    #[must_use]
    pub fn replica_set(&self) -> Option<ReplicaSet<'_>> {
        match &self.body {
            Body::ReplicaSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}

impl Deployment<'_> {
    /// Whether Reloader has paused it to collect changes, and nobody else holds it.
    pub(crate) fn is_paused_by_reloader(&self) -> bool {
        let since = self.object.annotations.get(annotations::RELOADER_PAUSED_AT);
        self.body.paused && !self.object.held_by_guard() && since.is_some_and(|since| !since.is_empty())
    }

    /// Value of the label [`labels::SETTLED`] for this generation.
    #[must_use]
    pub(super) fn settled_mark(&self) -> String {
        format!("{}.{}", self.id.uid, self.generation)
    }
}

impl<'a> ReplicaSet<'a> {
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

    /// Digest of the annotations of the template that its pods were made from before the rollout began. Its pods that were brought
    /// to no revision and carry no mark are of that one: a rollout that changes annotations ends only when it has reached every pod.
    /// `None`: the rollout was begun by a version that did not keep it.
    pub(super) fn left(&self) -> Option<&'a str> {
        let ReplicaSet { object, body } = *self;
        if !body.template.is_mixed() {
            return Some(body.template.shape().annotations.digest());
        }
        object.labels.get(labels::LIVE).map(String::as_str).filter(|left| *left != "true")
    }

    /// Digest of the annotations of the template that one of its pods was made from; of one that was brought to no revision since.
    pub(super) fn annotations_of<'p>(&self, pod: &'p PodView) -> Option<&'p str>
    where
        'a: 'p,
    {
        // A version before this one wrote 1 there.
        let mark = pod.annotations.get(annotations::MIXED).map(|mark| mark.split('.').next().unwrap_or(mark));
        mark.filter(|digest| *digest != "1").or_else(|| self.left())
    }

    /// Number of its revision, as the Deployment controller counts.
    pub(super) fn number(&self) -> Option<u64> {
        self.object.annotations.get(annotations::DEPLOYMENT_REVISION)?.parse().ok()
    }

    /// Those of our labels that are on it.
    #[must_use]
    pub fn own_labels(&self) -> Vec<&'static str> {
        let names = [labels::HISTORY, labels::LIVE, labels::SETTLED];
        names.into_iter().filter(|name| self.labels.contains_key(*name)).collect()
    }

    /// The generation of its Deployment at which a rollout was last brought to its end.
    #[must_use]
    pub fn settled_at(&self, deployment: Deployment<'_>) -> Option<i64> {
        let (uid, generation) = self.labels.get(labels::SETTLED)?.rsplit_once('.')?;
        generation.parse().ok().filter(|_| uid == deployment.id.uid)
    }
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
        let is_none = surge.is_some_and(|surge| *surge == 0 || *surge == "0%" || *surge == "0");
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
