//! What only a ResourceContext has.

use hitless_api::resource_context::{ContextDetail, ResourceContextSpec};
use serde::Deserialize;

/// What only a ResourceContext has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Raw")]
pub struct ContextBody {
    /// The ids that are taken.
    pub contexts: Vec<ContextDetail>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    spec: ResourceContextSpec,
}

impl From<Raw> for ContextBody {
    fn from(Raw { spec }: Raw) -> Self {
        Self { contexts: spec.contexts }
    }
}
