//! What only DaemonSets have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::placement::Placement;
use crate::kinds::on_delete;
use crate::object::{Body, Object, Typed};
use crate::template::Template;

/// A DaemonSet.
pub type DaemonSet<'a> = Typed<'a, DaemonSetBody>;

/// What only a DaemonSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct DaemonSetBody {
    /// `spec.updateStrategy` as it is.
    pub strategy: Value,
    /// `spec.selector`: the DaemonSet controller takes on every pod without a controller that it selects.
    pub selector: LabelSelector,
    /// `spec.template`.
    pub template: Template,
    /// On which nodes it may have pods.
    pub placement: Placement,
    /// `status`.
    pub status: DaemonSetStatus,
}

/// What the DaemonSet controller says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `desiredNumberScheduled`: nodes that are to have a pod.
    pub desired_number_scheduled: i32,
    /// `updatedNumberScheduled`: nodes whose pod is up to date.
    pub updated_number_scheduled: i32,
}

impl DaemonSetStatus {
    pub(super) fn desired(&self) -> u32 {
        u32::try_from(self.desired_number_scheduled).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: DaemonSetStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    update_strategy: Value,
    selector: LabelSelector,
    template: Value,
}

impl From<Raw> for DaemonSetBody {
    fn from(Raw { spec, status }: Raw) -> Self {
        let placement = Placement::of(&spec.template);
        let RawSpec { update_strategy, selector, template } = spec;
        Self { strategy: update_strategy, selector, template: Template::new(template), placement, status }
    }
}

impl Object {
    /// As a DaemonSet, if it is one.
    #[must_use]
    pub fn daemon_set(&self) -> Option<DaemonSet<'_>> {
        match &self.body {
            Body::DaemonSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}

impl DaemonSet<'_> {
    /// How many nodes may be without an available pod: `maxUnavailable` of the owner's strategy, a percentage rounded up, as the
    /// DaemonSet controller has it, else one. An owner who wants a surge instead gets one at a time.
    pub(super) fn max_unavailable(&self) -> u32 {
        let wanted = on_delete::wanted(self.object, &self.body.strategy);
        let limit = match &wanted["rollingUpdate"]["maxUnavailable"] {
            Value::String(text) => {
                let percent =
                    text.strip_suffix('%').and_then(|percent| percent.parse::<u32>().ok()).unwrap_or_default();
                self.body.status.desired().saturating_mul(percent).div_ceil(100)
            }
            other => other.as_u64().and_then(|count| count.try_into().ok()).unwrap_or(1),
        };
        limit.max(1)
    }
}
