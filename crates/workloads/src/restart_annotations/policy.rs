//! What its owner wants a workload's restarts to be: `hitless.dev/restarts`.

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::annotations::RESTARTS;
use hitless_api::names::{RESTARTS_AUTO, RESTARTS_CONTAINERS, RESTARTS_PODS};

use crate::kind::Resource;
use crate::object::Object;
use crate::plan::note;

/// What a change of a restart annotation means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartsPolicy {
    /// The containers, in place; new pods where that can't bring what the restart is for.
    #[default]
    Auto,
    /// Always the containers.
    Containers,
    /// Always new pods.
    Pods,
}

impl RestartsPolicy {
    /// Of this workload. What is not understood is as good as absent.
    #[must_use]
    pub fn of(workload: &Object) -> Self {
        let value = workload.annotations.get(RESTARTS);
        value.and_then(|value| Self::parse(value).ok()).unwrap_or_default()
    }

    /// Reads the annotation's value.
    ///
    /// # Errors
    /// What is wrong with it, as a clause.
    pub fn parse(value: &str) -> Result<Self, String> {
        match value {
            RESTARTS_AUTO => Ok(Self::Auto),
            RESTARTS_CONTAINERS => Ok(Self::Containers),
            RESTARTS_PODS => Ok(Self::Pods),
            other => Err(format!(
                "{RESTARTS} is {other:?}, which means nothing, so it counts as {RESTARTS_AUTO}; write {RESTARTS_AUTO}, \
                 {RESTARTS_CONTAINERS} or {RESTARTS_PODS}"
            )),
        }
    }

    /// What the workload's owner is told of it, for as long as it holds.
    pub(super) fn note(workload: &Object, resource: &Resource) -> Option<EventNote> {
        let fault = Self::parse(workload.annotations.get(RESTARTS)?).err()?;
        Some(note(&workload.id, resource.version, Severity::Warning, "RestartsInvalid", fault))
    }
}
