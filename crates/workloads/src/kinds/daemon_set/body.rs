//! What only DaemonSets have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::placement::Placement;
use crate::template::Template;

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
    /// `numberMisscheduled`: nodes that are to have no pod, as they have been tainted since, and have one that runs on.
    pub number_misscheduled: i32,
    /// `updatedNumberScheduled`: nodes that are to have a pod, and whose pod is up to date.
    pub updated_number_scheduled: i32,
}

impl DaemonSetStatus {
    pub(crate) fn desired(&self) -> u32 {
        u32::try_from(self.desired_number_scheduled).unwrap_or_default()
    }

    pub(crate) fn misscheduled(&self) -> u32 {
        u32::try_from(self.number_misscheduled).unwrap_or_default()
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
