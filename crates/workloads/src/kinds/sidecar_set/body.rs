//! What only SidecarSets have.

use hitless_api::{SidecarSetSpec, SidecarSetStatus};
use serde::Deserialize;

use super::fault;
use super::names::{BASE, CANARY, OLD_CUSTOM_VERSION};

/// What only a SidecarSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct SidecarSetBody {
    /// `spec`.
    pub spec: SidecarSetSpec,
    /// `status`.
    pub status: SidecarSetStatus,
    /// It is a canary, which comes in the place of the SidecarSet with this name.
    pub base: Option<String>,
    /// Why it makes no sense, whatever the cluster is like: a clause for people.
    pub fault: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: RawMeta,
    spec: SidecarSetSpec,
    #[serde(default)]
    status: SidecarSetStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMeta {
    name: String,
    annotations: std::collections::BTreeMap<String, String>,
    labels: std::collections::BTreeMap<String, String>,
}

impl From<Raw> for SidecarSetBody {
    fn from(Raw { metadata, mut spec, status }: Raw) -> Self {
        let RawMeta { name, annotations, labels } = metadata;
        // v1alpha1 has it as a label.
        spec.custom_version = spec.custom_version.or_else(|| labels.get(OLD_CUSTOM_VERSION).cloned());
        let is_canary = annotations.get(CANARY).is_some_and(|value| value == "true");
        let base = annotations.get(BASE).filter(|_| is_canary).cloned();
        let fault = fault::of(&name, &spec, is_canary, base.as_deref());
        Self { spec, status, base, fault }
    }
}
