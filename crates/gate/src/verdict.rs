//! What the gate answers: one verdict per candidate, one reason per rule, as data.

mod allows;
mod denies;
mod reason;
mod text;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

pub use allows::Allows;
pub(crate) use denies::Who;
pub use denies::{Denies, Lasting};
pub use reason::Reason;

/// Name in [`RuleVerdict::rule`] of the budget for pods that no PodTransitionRule selects.
pub const IMPLICIT: &str = "implicit";
/// What the workload itself says of how many of its pods may be unavailable, as it stands in verdicts.
pub const WORKLOAD: &str = "workload";
/// Name in [`RuleVerdict::rule`] of the answer for a pod that is reserved already.
pub const LEDGER: &str = "ledger";
/// Name in [`RuleVerdict::rule`] of the answer for a pod that is not there.
pub const POD: &str = "pod";

/// What [`RuleVerdict::rule`] begins with in the answer of a PodDisruptionBudget.
pub(crate) const DISRUPTION_BUDGET: &str = "pdb:";

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
    /// Rules (`<PodTransitionRule>/<rule>`) whose approvers are to be asked about the pod now, or have been: everything else lets
    /// it go. Not part of the answer to a user.
    #[serde(skip)]
    pub asks: Vec<String>,
}

/// What one rule says of one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleVerdict {
    /// `<PodTransitionRule>/<rule>`, `budget:<TransitionBudget>/<limit>` (`budget:hitless-system.<name>/…` for one of the whole
    /// cluster), `pdb:<PodDisruptionBudget>`, or [`IMPLICIT`], [`WORKLOAD`],
    /// [`LEDGER`], [`POD`].
    pub rule: Arc<str>,
    /// Its answer, given all candidates that were decided earlier in this round, why, and the numbers of it.
    #[serde(flatten)]
    pub because: Reason,
    /// Since when it has been so, as far as that is known: since when a budget has been as full, or an approver has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Some of those who hold the budget, the longest-standing first.
    #[serde(skip_serializing_if = "<[BudgetConsumer]>::is_empty")]
    pub holders: Arc<[BudgetConsumer]>,
}

impl RuleVerdict {
    /// Whether it is the answer of a PodDisruptionBudget.
    #[must_use]
    pub fn is_disruption_budget(&self) -> bool {
        self.rule.starts_with(DISRUPTION_BUDGET)
    }
}

/// A pod that takes up a place in a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetConsumer {
    /// Its name.
    pub pod: String,
    /// In which way.
    pub why: Consumption,
    /// Since when, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// How a pod takes up a place in a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Consumption {
    /// It is being operated.
    Reserved,
    /// It is not Ready, and its operation has ended.
    NotBack,
    /// It is not available.
    Unavailable,
    /// It is being deleted, and nobody has taken its place yet.
    Leaving,
    /// It is not available, and its node has not answered for so long that nobody waits for it: neither its operation nor its deletion ends
    /// before somebody mends or deletes the node.
    Lost,
    /// It is Ready, but not for as long as its workload wants (`minReadySeconds`), or its workload does not count it as available yet.
    RecentlyReady,
    /// It was let go a moment ago, in the same round.
    GoesNow,
}

/// What a rule says without any circumstances.
pub(crate) fn says(rule: &Arc<str>, because: impl Into<Reason>) -> RuleVerdict {
    RuleVerdict { rule: rule.clone(), because: because.into(), since: None, holders: Arc::default() }
}

impl RuleVerdict {
    /// Name of the rule without that of its PodTransitionRule, as upstream's status has it.
    #[must_use]
    pub fn rule_name(&self) -> &str {
        // The name of an object can't contain a slash, the name of a rule can.
        self.rule.split_once('/').map_or(&*self.rule, |(_, rule)| rule)
    }

    /// Name of the PodTransitionRule, if it is one.
    #[must_use]
    pub fn rule_set(&self) -> Option<&str> {
        // Nor can it contain a colon.
        self.rule.split_once('/').map(|(set, _)| set).filter(|set| !set.contains(':'))
    }

    /// When its answer changes by itself.
    #[must_use]
    pub fn changes_at(&self) -> Option<Timestamp> {
        self.denies().and_then(Denies::changes_at)
    }

    /// Whether the rule was really asked and agreed.
    #[must_use]
    pub fn agreed(&self) -> bool {
        match &self.because {
            Reason::Allows(because) => because.agreed(),
            Reason::Denies(_) => false,
        }
    }

    /// Whether the rule has no objection.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.denies().is_none()
    }

    /// Why the pod has to wait, if it has to.
    #[must_use]
    pub fn denies(&self) -> Option<&Denies> {
        match &self.because {
            Reason::Allows(_) => None,
            Reason::Denies(because) => Some(because),
        }
    }
}

impl Verdict {
    /// The rules that are in the way.
    pub fn denied(&self) -> impl Iterator<Item = &RuleVerdict> {
        self.rules.iter().filter(|rule| !rule.is_allowed())
    }

    /// Whether the pod may go only because it is unavailable anyway. A cache may be older than the ledger and show the pod as it was
    /// during an operation that has ended since: the caller reads such a pod again before it reserves it.
    #[must_use]
    pub fn rests_on_unavailability(&self) -> bool {
        let is_such = |because: &Reason| {
            matches!(because, Reason::Allows(Allows::AlreadyUnavailable | Allows::FewUnverified { .. }))
        };
        self.allowed && self.rules.iter().any(|rule| is_such(&rule.because))
    }

    /// Names of the rules that were really asked and agreed, for the grant and the ledger.
    #[must_use]
    pub fn agreed(&self) -> Vec<String> {
        self.rules.iter().filter(|rule| rule.agreed()).map(|rule| rule.rule.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_data_and_text() {
        let because = Denies::MaxUnavailable { quota: 0, unavailable: 0, missing: 0, total: 2 };
        let holders =
            [BudgetConsumer { pod: "p1".into(), why: Consumption::Reserved, since: Some(Timestamp::UNIX_EPOCH) }]
                .into();
        let rule = RuleVerdict { holders, ..says(&"max/r/1".into(), because) };
        assert_eq!((rule.rule_set(), rule.rule_name()), (Some("max"), "r/1"));
        assert_eq!(
            rule.unblock().unwrap(),
            "raise the maximum to at least 1 of 2: as it is, no available pod can ever be updated"
        );
        let budget = says(&"budget:b/maxConcurrent".into(), Allows::FewRunning { most: 2, running: 1 });
        assert_eq!((budget.rule_set(), budget.rule_name(), budget.unblock()), (None, "maxConcurrent", None));
        let verdict = Verdict {
            pod_uid: "u".into(),
            pod: "p0".into(),
            namespace: "default".into(),
            allowed: false,
            rules: vec![rule],
            asks: Vec::new(),
        };
        let expected = serde_json::json!({
            "podUid": "u", "pod": "p0", "namespace": "default", "allowed": false,
            "rules": [{"rule": "max/r/1", "verdict": "Denied", "because": "MaxUnavailable",
                "numbers": {"quota": 0, "unavailable": 0, "missing": 0, "total": 2},
                "holders": [{"pod": "p1", "why": "Reserved", "since": "1970-01-01T00:00:00Z"}]}],
        });
        assert_eq!(serde_json::to_value(&verdict).unwrap(), expected);
        assert!(verdict.to_string().starts_with("p0: waits\n  - max/r/1: [r/1] blocked by max unavailable policy: "));
    }
}
