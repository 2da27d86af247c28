//! Which of the kinds that not every cluster wants are on.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::component::{Component, named};

/// A kind of another project's that can be turned off by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Switch {
    /// CollaSets, with their ResourceContexts.
    CollaSet,
    /// OperationJobs.
    OperationJob,
    /// Labels of the PodOpsLifecycle on pods.
    PodOpsLifecycle,
    /// CloneSets.
    CloneSet,
}

impl Switch {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CollaSet, Self::OperationJob, Self::PodOpsLifecycle, Self::CloneSet];
}

/// The word in settings.
impl fmt::Display for Switch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug is the word.
        write!(formatter, "{self:?}")
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(|each| each.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|each| each.to_string().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("there is no kind {text} to switch off; known are {}", known()))
    }
}

/// Kinds as a setting names them, comma-separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchNames(pub BTreeSet<Switch>);

impl FromStr for SwitchNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        named(text).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// What is installed and switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Components beside hitless itself.
    pub components: Vec<Component>,
    /// Kinds that are off although their component is installed.
    pub off: BTreeSet<Switch>,
}

impl Installed {
    /// The setting that names components.
    pub const COMPONENTS: &str = "HITLESS_COMPONENTS";
    /// The setting that names kinds that are off.
    pub const SWITCHED_OFF: &str = "HITLESS_SWITCHED_OFF";

    /// hitless itself and these components, with every kind of theirs.
    #[must_use]
    pub fn with(components: &[Component]) -> Self {
        Self { components: components.to_vec(), off: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_kind_is_refused_with_those_that_are() {
        assert_eq!("collaset".parse(), Ok(Switch::CollaSet));
        let error = "Deployment".parse::<Switch>().unwrap_err();
        assert!(error.contains("Deployment") && error.contains("PodOpsLifecycle"), "{error}");
    }
}
