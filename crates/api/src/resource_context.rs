//! `ResourceContext` of `apps.kusionstack.io/v1alpha1`, wire-compatible with KusionStack kuperator v0.7.4: which instance ids are
//! taken, and by whom.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Instance ids. Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kusionstack.io",
    version = "v1alpha1",
    kind = "ResourceContext",
    plural = "resourcecontexts",
    namespaced,
    derive = "PartialEq"
)]
pub struct ResourceContextSpec {
    /// One entry for each id that is taken.
    #[serde(default)]
    pub contexts: Vec<ContextDetail>,
}

/// An instance id, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextDetail {
    /// The id.
    pub id: i32,
    /// Upstream's keys, and `hitless.dev/pod`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}
