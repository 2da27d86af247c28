//! What holds for the whole cluster, and how its environment variables are read: the controller's by itself, by others off its
//! Deployment.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Budget of the pods of one owner that neither a PodTransitionRule nor a TransitionBudget with an availability limit selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImplicitBudget {
    /// Share of the owner's desired pods that may be unavailable; rounds down, but at least one pod may go.
    pub percent: u32,
}

impl Default for ImplicitBudget {
    fn default() -> Self {
        Self { percent: 25 }
    }
}

/// What holds for the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Budget where nothing else limits; `None` lets such pods go freely.
    pub implicit: Option<ImplicitBudget>,
    /// Kinds of PodTransitionRule rules (`availablePolicy`, `labelCheck`, `webhook`) that are not evaluated at all, as upstream's
    /// environment variable `SKIP_POD_TRANSITION_RULES`.
    pub skipped_kinds: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { implicit: Some(ImplicitBudget::default()), skipped_kinds: BTreeSet::new() }
    }
}

impl Settings {
    /// Variable with the [`ImplicitPercent`].
    pub const IMPLICIT_PERCENT: &str = "HITLESS_IMPLICIT_PERCENT";
    /// Variable with the [`SkippedKinds`]; upstream's name.
    pub const SKIPPED_KINDS: &str = "SKIP_POD_TRANSITION_RULES";
}

/// [`Settings::implicit`] as text: 1 to 100, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImplicitPercent(pub Option<ImplicitBudget>);

impl Default for ImplicitPercent {
    fn default() -> Self {
        Self(Settings::default().implicit)
    }
}

impl FromStr for ImplicitPercent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self(None));
        }
        let percent = text.parse().ok().filter(|percent| (1..=100).contains(percent));
        percent.map(|percent| Self(Some(ImplicitBudget { percent }))).ok_or("give a whole number from 1 to 100, or off")
    }
}

/// [`Settings::skipped_kinds`] as text, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedKinds(pub BTreeSet<String>);

impl FromStr for SkippedKinds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kinds: BTreeSet<String> = text.split(',').map(|kind| kind.trim().to_owned()).collect();
        let known = ["availablePolicy", "labelCheck", "webhook"];
        // A kind that is misspelt would be evaluated after all.
        if kinds.iter().all(|kind| known.contains(&kind.as_str())) {
            Ok(Self(kinds))
        } else {
            Err("give availablePolicy, labelCheck or webhook, separated by commas")
        }
    }
}
