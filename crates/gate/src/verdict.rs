//! What the gate answers: one verdict per candidate, one reason per rule, as data.

mod text;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

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
    /// Its answer, given all candidates that were decided earlier in this round.
    pub verdict: Decision,
    /// Why, and the numbers of it.
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
    /// It is not available.
    Unavailable,
    /// It is Ready, but not for as long as its workload wants (`minReadySeconds`).
    RecentlyReady,
    /// It was let go a moment ago, in the same round.
    GoesNow,
}

/// What a rule says without any circumstances.
pub(crate) fn says(rule: &Arc<str>, verdict: Decision, because: Reason) -> RuleVerdict {
    RuleVerdict { rule: rule.clone(), verdict, because, since: None, holders: Arc::default() }
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
#[serde(tag = "because", content = "numbers", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The pod is reserved already.
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
    /// The rule applies only to pods with one of these conditions, and this one has none of them.
    ConditionsUnmet {
        /// Their types.
        conditions: Vec<String>,
    },
    /// The pod's annotation excuses it from the rule.
    Skipped,
    /// Rules of this kind are switched off for the whole cluster.
    KindSkipped {
        /// Kind, e.g. `webhook`.
        kind: String,
    },
    /// The rule asks for nothing.
    Empty,
    /// The budget is paused.
    Paused,
    /// Operations may begin now.
    InWindow,
    /// No window is open.
    OutsideWindow {
        /// When the next one opens.
        opens: Option<Timestamp>,
    },
    /// Nothing may begin for some time.
    Blackout {
        /// First instant after it.
        until: Timestamp,
        /// In the words of its author.
        reason: String,
    },
    /// The last wave has soaked, or there was none.
    Soaked,
    /// A wave is under way; the next one begins when all of it is back and has soaked.
    WaveRunning {
        /// Pods being operated.
        running: u64,
    },
    /// The last wave is back and has to prove itself.
    Soaking {
        /// When the next one may begin.
        until: Timestamp,
    },
    /// Fewer operations have failed than the budget bears.
    FewFailures,
    /// So many operations have failed that nobody goes any more.
    TooManyFailures {
        /// So many are too many.
        most: u64,
        /// Failed, and not superseded.
        failed: u64,
    },
    /// Few nodes have an unavailable pod, or the pod's own already has one.
    WithinNodes {
        /// Most nodes.
        quota: u64,
        /// Nodes with an unavailable pod.
        unavailable: u64,
        /// Nodes with a pod.
        total: u64,
    },
    /// One more node would be too many.
    MaxUnavailableNodes {
        /// Most nodes.
        quota: u64,
        /// Nodes with an unavailable pod.
        unavailable: u64,
        /// Nodes with a pod.
        total: u64,
    },
    /// Few domains have an unavailable pod, or the pod's own already has one.
    WithinDomains {
        /// The nodes' label.
        key: String,
    },
    /// One more domain would be too many.
    MaxUnavailableDomains {
        /// The nodes' label.
        key: String,
        /// Most domains.
        most: u64,
        /// Domains with an unavailable pod.
        unavailable: u64,
        /// Some of these.
        domains: Vec<String>,
    },
    /// Enough others serve on the pod's node.
    EnoughOnNode {
        /// The node.
        node: String,
        /// Fewest that must stay.
        fewest: u64,
        /// Available there at the moment.
        available: u64,
    },
    /// Too few others serve on the pod's node.
    PerNodeMinAvailable {
        /// The node.
        node: String,
        /// Fewest that must stay.
        fewest: u64,
        /// Available there at the moment.
        available: u64,
    },
    /// Few are being operated.
    FewRunning {
        /// Most at a time.
        most: u64,
        /// At the moment.
        running: u64,
    },
    /// One more operation would be too many.
    MaxConcurrent {
        /// Most at a time.
        most: u64,
        /// At the moment.
        running: u64,
    },
    /// The approver agrees.
    Approved,
    /// The approver has not been asked, or has not answered.
    AwaitingApproval {
        /// What it has said so far; empty if nothing.
        message: String,
    },
    /// The approver says no, for now.
    ApprovalRefused {
        /// In its words.
        message: String,
    },
    /// The approver can't be asked.
    ApproverUnreachable {
        /// What went wrong.
        message: String,
    },
    /// The approver can't be asked, and the rule says to go on then.
    ApproverIgnored {
        /// What went wrong.
        message: String,
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
        match &self.because {
            Reason::OutsideWindow { opens } => *opens,
            Reason::Blackout { until, .. } | Reason::Soaking { until } => Some(*until),
            _ => None,
        }
    }

    /// Whether the rule was really asked and agreed.
    fn agreed(&self) -> bool {
        self.verdict == Decision::Allowed
            && match self.because {
                Reason::AlreadyReserved
                | Reason::AlreadyUnavailable
                | Reason::WithinBudget { .. }
                | Reason::LabelsMatch
                | Reason::InWindow
                | Reason::Soaked
                | Reason::FewFailures
                | Reason::WithinNodes { .. }
                | Reason::WithinDomains { .. }
                | Reason::EnoughOnNode { .. }
                | Reason::FewRunning { .. }
                | Reason::Approved
                | Reason::ApproverIgnored { .. } => true,
                Reason::Disabled
                | Reason::OtherStage { .. }
                | Reason::FilteredOut
                | Reason::ConditionsUnmet { .. }
                | Reason::Skipped
                | Reason::KindSkipped { .. }
                | Reason::Empty
                | Reason::MaxUnavailable { .. }
                | Reason::MinAvailable { .. }
                | Reason::LabelsDiffer { .. }
                | Reason::Paused
                | Reason::OutsideWindow { .. }
                | Reason::Blackout { .. }
                | Reason::WaveRunning { .. }
                | Reason::Soaking { .. }
                | Reason::TooManyFailures { .. }
                | Reason::MaxUnavailableNodes { .. }
                | Reason::MaxUnavailableDomains { .. }
                | Reason::PerNodeMinAvailable { .. }
                | Reason::MaxConcurrent { .. }
                | Reason::AwaitingApproval { .. }
                | Reason::ApprovalRefused { .. }
                | Reason::ApproverUnreachable { .. }
                | Reason::Misconfigured { .. }
                | Reason::NoSuchPod => false,
            }
    }
}

impl Reason {
    /// It is an approver who is waited for.
    pub(crate) fn is_about_approval(&self) -> bool {
        matches!(self, Self::AwaitingApproval { .. } | Self::ApprovalRefused { .. } | Self::ApproverUnreachable { .. })
    }

    /// Which other pods are in the way, if any are.
    pub(crate) fn who(&self) -> Option<Who> {
        match self {
            Self::MaxUnavailable { .. }
            | Self::MinAvailable { .. }
            | Self::MaxUnavailableNodes { .. }
            | Self::MaxUnavailableDomains { .. } => Some(Who::Down),
            Self::PerNodeMinAvailable { .. } => Some(Who::DownOnNode),
            Self::MaxConcurrent { .. } | Self::WaveRunning { .. } => Some(Who::Running),
            _ => None,
        }
    }
}

/// Pods that take up places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// Those that are not available or are reserved.
    Down,
    /// Those of them on the pod's node.
    DownOnNode,
    /// Those that are operated.
    Running,
}

impl Verdict {
    /// The rules that are in the way.
    pub fn denied(&self) -> impl Iterator<Item = &RuleVerdict> {
        self.rules.iter().filter(|rule| rule.verdict == Decision::Denied)
    }

    /// Whether the pod may go only because it is unavailable anyway. A cache may be older than the ledger and show the pod as it was
    /// during an operation that has ended since: the caller reads such a pod again before it reserves it.
    #[must_use]
    pub fn rests_on_unavailability(&self) -> bool {
        self.allowed && self.rules.iter().any(|rule| rule.because == Reason::AlreadyUnavailable)
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
        let because = Reason::MaxUnavailable { quota: 0, unavailable: 0, missing: 0, total: 2 };
        let holders =
            [BudgetConsumer { pod: "p1".into(), why: Consumption::Reserved, since: Some(Timestamp::UNIX_EPOCH) }]
                .into();
        let rule = RuleVerdict { holders, ..says(&"max/r/1".into(), Decision::Denied, because) };
        assert_eq!((rule.rule_set(), rule.rule_name()), (Some("max"), "r/1"));
        assert_eq!(
            rule.unblock().unwrap(),
            "raise the maximum to 1 of 2 at least: as it is no available pod ever goes"
        );
        let budget =
            says(&"budget:b/maxConcurrent".into(), Decision::Allowed, Reason::FewRunning { most: 2, running: 1 });
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
