//! What only StatefulSets have.

use serde::Deserialize;
use serde_json::Value;

use crate::kinds::on_delete;
use crate::object::{Body, Object, Typed};
use crate::template::Template;

/// A StatefulSet.
pub type StatefulSet<'a> = Typed<'a, StatefulSetBody>;

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

impl Object {
    /// As a StatefulSet, if it is one.
    #[must_use]
    pub fn stateful_set(&self) -> Option<StatefulSet<'_>> {
        match &self.body {
            Body::StatefulSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}

impl StatefulSet<'_> {
    fn rolling_update(&self) -> Value {
        on_delete::wanted(self.object, &self.body.strategy)["rollingUpdate"].take()
    }

    /// `partition` of the owner's strategy: so many pods, the first ones, keep their version.
    pub(super) fn partition(&self) -> i32 {
        self.rolling_update()["partition"].as_i64().and_then(|count| count.try_into().ok()).unwrap_or_default()
    }

    /// How many pods may be away at a time: `maxUnavailable` of the owner's strategy, a percentage rounded down, at least one, as
    /// the StatefulSet controller has it; else one.
    pub(super) fn at_a_time(&self) -> usize {
        let replicas = u64::try_from(self.body.replicas).unwrap_or_default();
        let limit = match &self.rolling_update()["maxUnavailable"] {
            Value::String(text) => {
                let percent =
                    text.strip_suffix('%').and_then(|percent| percent.parse::<u64>().ok()).unwrap_or_default();
                replicas.saturating_mul(percent) / 100
            }
            other => other.as_u64().unwrap_or(1),
        };
        usize::try_from(limit.max(1)).unwrap_or(usize::MAX)
    }
}

/// The number at the end of a pod's name.
pub(super) fn ordinal(pod: &str) -> Option<i32> {
    pod.rsplit_once('-')?.1.parse().ok()
}
