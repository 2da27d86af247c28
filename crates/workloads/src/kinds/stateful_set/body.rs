//! What only StatefulSets have.

use serde::Deserialize;
use serde_json::Value;

use crate::template::Template;

/// What only a StatefulSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct StatefulSetBody {
    /// `spec.replicas`, 1 if absent.
    pub replicas: i32,
    /// `spec.ordinals.start`, 0 if absent.
    pub start: i32,
    /// `spec.updateStrategy` as it is.
    pub strategy: Value,
    /// `spec.template`.
    pub template: Template,
    /// `status`.
    pub status: StatefulSetStatus,
}

/// What the StatefulSet controller says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `currentRevision`: name of the ControllerRevision of pods that the partition keeps back.
    pub current_revision: Option<String>,
    /// `updateRevision`: name of the ControllerRevision of the template.
    pub update_revision: Option<String>,
    /// `updatedReplicas`: pods of that revision.
    pub updated_replicas: i32,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: StatefulSetStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    replicas: Option<i32>,
    ordinals: RawOrdinals,
    update_strategy: Value,
    template: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawOrdinals {
    start: i32,
}

impl From<Raw> for StatefulSetBody {
    fn from(Raw { spec, status }: Raw) -> Self {
        Self {
            replicas: spec.replicas.unwrap_or(1),
            start: spec.ordinals.start,
            strategy: spec.update_strategy,
            template: Template::new(spec.template),
            status,
        }
    }
}
