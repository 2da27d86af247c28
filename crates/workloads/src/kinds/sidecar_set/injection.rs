//! What only the SidecarInjection has.

use hitless_api::{InjectedSet, SidecarInjectionSpec};
use serde::Deserialize;

/// What only the SidecarInjection has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct InjectionBody {
    spec: SidecarInjectionSpec,
}

impl InjectionBody {
    /// What is put into pods, in the order of names.
    #[must_use]
    pub fn sets(&self) -> &[InjectedSet] {
        &self.spec.sets
    }
}
