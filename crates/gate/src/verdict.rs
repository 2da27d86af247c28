//! What the gate answers: one verdict per candidate, one reason per rule, as data.

use serde::Serialize;

/// Name in [`RuleVerdict::rule`] of the budget for pods that no PodTransitionRule selects.
pub const IMPLICIT: &str = "implicit";

/// The answer for one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// uid of the pod.
    pub pod_uid: String,
    /// Name of the pod; empty if no such pod was listed.
    pub pod: String,
    /// Its namespace; empty if no such pod was listed.
    pub namespace: String,
    /// Whether every rule allows it. Its place in all budgets is then taken for the rest of this round.
    pub allowed: bool,
    /// What each rule that concerns the pod says, in the order of the rules' names.
    pub rules: Vec<RuleVerdict>,
}

/// What one rule says of one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleVerdict {
    /// `<PodTransitionRule>/<rule>`, or [`IMPLICIT`].
    pub rule: String,
    /// Its answer, given all candidates that were decided earlier in this round.
    pub verdict: Decision,
    /// Why.
    pub because: Because,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Decision {
    /// The rule has no objection.
    Allowed,
    /// The pod has to wait.
    Denied,
}

/// Why a rule says what it says. Counts are pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Because {
    /// The pod has its place already.
    AlreadyReserved,
    /// The pod is unavailable anyway, so operating it takes nothing from the budget.
    AlreadyUnavailable,
    /// There is room, seen before this pod takes its place.
    WithinBudget {
        /// Base of percentages.
        total: u64,
        /// Unavailable at the moment: reserved, not available, or wanted by the owner and not there.
        unavailable: u64,
        /// Most that may be unavailable, if that is limited.
        max_unavailable: Option<u64>,
        /// Available and not reserved at the moment.
        available: u64,
        /// Fewest that must stay available, if that is limited.
        min_available: Option<u64>,
    },
    /// One more would be too many unavailable ones.
    MaxUnavailable {
        /// Most that may be unavailable.
        quota: u64,
        /// Unavailable at the moment.
        unavailable: u64,
        /// How many of these the owners want but are not there.
        missing: u64,
        /// Base of percentages.
        total: u64,
    },
    /// One fewer would be too few available ones.
    MinAvailable {
        /// Fewest that must stay available.
        quota: u64,
        /// Available at the moment.
        available: u64,
        /// Base of percentages.
        total: u64,
    },
    /// The pod has the labels that the rule asks for.
    LabelsMatch,
    /// The pod lacks labels that the rule asks for.
    LabelsDiffer {
        /// The selector that does not match, in the form of kubectl's `-l`.
        requires: String,
    },
    /// The rule is switched off.
    Disabled,
    /// The rule is for another stage than PreCheck, so it does not gate the start.
    OtherStage {
        /// Its stage.
        stage: String,
    },
    /// The rule's filter leaves this pod out.
    FilteredOut,
    /// The rule applies only to pods that meet one of these conditions, and none of them is known: it applies to nobody.
    UnknownConditions {
        /// Their names.
        conditions: Vec<String>,
    },
    /// The rule asks for nothing.
    Empty,
    /// The rule is of a kind that this build can't evaluate, so nobody passes.
    NotEvaluated {
        /// Kind, e.g. `webhook`.
        kind: String,
    },
    /// The rule can't be understood, so nobody passes.
    Misconfigured {
        /// What is wrong and what to do.
        text: String,
    },
    /// The pod is not there (any more).
    NoSuchPod,
}

impl RuleVerdict {
    /// Name of the rule without that of its PodTransitionRule, as upstream's status has it.
    #[must_use]
    pub fn rule_name(&self) -> &str {
        // The name of an object can't contain a slash, the name of a rule can.
        self.rule.split_once('/').map_or(self.rule.as_str(), |(_, rule)| rule)
    }

    /// Name of the PodTransitionRule, if it is one.
    #[must_use]
    pub fn rule_set(&self) -> Option<&str> {
        self.rule.split_once('/').map(|(set, _)| set)
    }
}
