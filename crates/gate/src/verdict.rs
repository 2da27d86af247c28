//! What the gate answers: one verdict per candidate, one reason per rule, as data.

use std::fmt;

use serde::Serialize;

/// Name in [`RuleVerdict::rule`] of the budget for pods that no PodTransitionRule selects.
pub const IMPLICIT: &str = "implicit";
/// Name in [`RuleVerdict::rule`] of the answer for a pod that has its place already.
pub const LEDGER: &str = "ledger";
/// Name in [`RuleVerdict::rule`] of the answer for a pod that is not there.
pub const POD: &str = "pod";

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
    /// `<PodTransitionRule>/<rule>`, or [`IMPLICIT`], [`LEDGER`], [`POD`].
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

    /// Why, in words and numbers. Where upstream has a text that operators look for, it begins with exactly that text.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.because {
            because @ Because::MaxUnavailable { .. } => format!("[{}] {because}", self.rule_name()),
            because => because.to_string(),
        }
    }

    fn agreed(&self) -> bool {
        match self.because {
            Because::AlreadyReserved
            | Because::AlreadyUnavailable
            | Because::WithinBudget { .. }
            | Because::LabelsMatch => self.verdict == Decision::Allowed,
            Because::MaxUnavailable { .. }
            | Because::MinAvailable { .. }
            | Because::LabelsDiffer { .. }
            | Because::Disabled
            | Because::OtherStage { .. }
            | Because::FilteredOut
            | Because::UnknownConditions { .. }
            | Because::Empty
            | Because::NotEvaluated { .. }
            | Because::Misconfigured { .. }
            | Because::NoSuchPod => false,
        }
    }
}

impl Verdict {
    /// The rules that are in the way.
    pub fn denied(&self) -> impl Iterator<Item = &RuleVerdict> {
        self.rules.iter().filter(|rule| rule.verdict == Decision::Denied)
    }

    /// Whether the pod may go only because it is unavailable anyway. A cache may be older than the ledger and show the pod as it was
    /// during an operation that has ended since: the caller reads such a pod again before it reserves a place for it.
    #[must_use]
    pub fn rests_on_unavailability(&self) -> bool {
        self.allowed && self.rules.iter().any(|rule| rule.because == Because::AlreadyUnavailable)
    }

    /// Names of the rules that were really asked and agreed, for the grant and the ledger.
    #[must_use]
    pub fn agreed(&self) -> Vec<String> {
        self.rules.iter().filter(|rule| rule.agreed()).map(|rule| rule.rule.clone()).collect()
    }
}

impl fmt::Display for RuleVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.reason())
    }
}

impl fmt::Display for Verdict {
    /// One line for the pod, one for each rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.pod.is_empty() { &self.pod_uid } else { &self.pod };
        write!(f, "{name}: {}", if self.allowed { "may go" } else { "waits" })?;
        for rule in &self.rules {
            let mark = if rule.verdict == Decision::Allowed { "+" } else { "-" };
            write!(f, "\n  {mark} {rule}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyReserved => write!(f, "the pod has its place already"),
            Self::AlreadyUnavailable => write!(f, "the pod is unavailable anyway, operating it costs nothing"),
            Self::WithinBudget { total, unavailable, max_unavailable, available, min_available } => {
                write!(f, "there is room: of {total} pods {unavailable} unavailable")?;
                if let Some(max) = max_unavailable {
                    write!(f, " (at most {max})")?;
                }
                write!(f, ", {available} available")?;
                min_available.map_or(Ok(()), |min| write!(f, " (at least {min})"))
            }
            Self::MaxUnavailable { quota, unavailable, missing, total } => {
                write!(
                    f,
                    "blocked by max unavailable policy: [max unavailable]={quota}/{total}, [current unavailable]={unavailable}/{total}"
                )?;
                if *missing > 0 {
                    write!(f, " ({missing} of them not created yet)")?;
                }
                if *quota == 0 && *total > 0 {
                    write!(f, "; this rule never lets an available pod go, raise its maximum")?;
                }
                Ok(())
            }
            Self::MinAvailable { quota, available, total } => {
                write!(
                    f,
                    "blocked by min available policy: [min available]={quota}/{total}, [current keep available]={available}/{total}"
                )?;
                if quota >= total {
                    write!(f, "; this rule never lets an available pod go, lower its minimum")?;
                }
                Ok(())
            }
            Self::LabelsMatch => write!(f, "the pod has the labels asked for"),
            Self::LabelsDiffer { requires } => write!(f, "the pod's labels do not match {requires}"),
            Self::Disabled => write!(f, "the rule is disabled"),
            Self::OtherStage { stage } => write!(f, "the rule is for stage {stage:?}, not for PreCheck"),
            Self::FilteredOut => write!(f, "the rule's filter leaves this pod out"),
            Self::UnknownConditions { conditions } => {
                write!(f, "none of the rule's conditions is known ({}), so it applies to nobody", conditions.join(", "))
            }
            Self::Empty => write!(f, "the rule asks for nothing"),
            Self::NotEvaluated { kind } => {
                write!(f, "rules of kind {kind} can't be evaluated yet, so nobody passes; disable or replace the rule")
            }
            Self::Misconfigured { text } => write!(f, "the rule can't be understood: {text}"),
            Self::NoSuchPod => write!(f, "there is no such pod (any more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_data_and_text() {
        let because = Because::MaxUnavailable { quota: 0, unavailable: 0, missing: 0, total: 2 };
        let rule = RuleVerdict { rule: "max/r/1".into(), verdict: Decision::Denied, because };
        assert_eq!((rule.rule_set(), rule.rule_name()), (Some("max"), "r/1"));
        let verdict = Verdict {
            pod_uid: "u".into(),
            pod: "p0".into(),
            namespace: "default".into(),
            allowed: false,
            rules: vec![rule],
        };
        let expected = serde_json::json!({
            "podUid": "u", "pod": "p0", "namespace": "default", "allowed": false,
            "rules": [{"rule": "max/r/1", "verdict": "Denied", "because":
                {"reason": "MaxUnavailable", "quota": 0, "unavailable": 0, "missing": 0, "total": 2}}],
        });
        assert_eq!(serde_json::to_value(&verdict).unwrap(), expected);
        assert!(verdict.to_string().starts_with("p0: waits\n  - max/r/1: [r/1] blocked by max unavailable policy: "));
    }
}
