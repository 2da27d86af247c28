//! Whether waiting alone helps. What does not pass by itself needs somebody who does something.

use hitless_gate::{Consumption, Decision, Reason, RuleVerdict};
use hitless_workloads::Obstacle;

use super::PodVerdict;
use super::wait_reason::WaitReason;

/// What it takes until something is in the way no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lasting {
    /// Time, or the end of what is under way.
    ByItself,
    /// Somebody or something beside what is under way, which may well act without being told: an approver, a pod that is down for
    /// another reason, a node, a registry.
    BySomebody,
    /// A change of what was written: of the rule, of the workload or of its pod. Nobody waits for anything until then.
    ByChange,
}

impl WaitReason {
    /// What it takes. Of rules their own verdicts tell, see [`PodVerdict::lasting`].
    #[must_use]
    pub fn lasting(&self) -> Lasting {
        match self {
            Self::Drain(_)
            | Self::Obstacle(Obstacle::UnknownContainer { .. })
            | Self::HostNetwork
            | Self::StaticPod
            | Self::Job
            | Self::PrefetchOnly
            | Self::Paused { .. } => Lasting::ByChange,
            Self::Obstacle(Obstacle::DigestUnknown { .. } | Obstacle::UnknownRevision { .. })
            // Also where the node's agent can't hold it: a newer one may.
            | Self::NoReadinessGate(_)
            | Self::HooksUnsupported { .. }
            | Self::Terminating
            | Self::NotScheduled
            | Self::NodeGone(_)
            | Self::AgentNotReady(_)
            | Self::ImageNotFetched { .. }
            | Self::OwnerUnreadable(_)
            | Self::AgentTooOld { .. }
            | Self::NotDrained(_)
            | Self::ApplicationRefused(_)
            | Self::LeftToKuperator(_)
            | Self::Halted { .. } => Lasting::BySomebody,
            Self::Obstacle(Obstacle::NotItsTurn { .. } | Obstacle::RestartNotRecorded)
            | Self::InProgress
            | Self::ReleasePending
            | Self::PodNotCached
            | Self::Rules
            | Self::ServicePublishing(_)
            | Self::ServiceOpen(_)
            | Self::ServiceBusy { .. }
            | Self::NodeFull(_)
            | Self::ImagePulling { .. }
            | Self::Learning(_)
            | Self::Companion { .. }
            | Self::Reload
            | Self::Pool { .. }
            | Self::LedgerFull => Lasting::ByItself,
        }
    }

    /// Whether it stays in the way until somebody does something.
    #[must_use]
    pub fn stays(&self) -> bool {
        self.lasting() != Lasting::ByItself
    }
}

impl PodVerdict {
    /// What it takes until the pod goes on.
    #[must_use]
    pub fn lasting(&self) -> Lasting {
        match (&self.waiting, &self.gate) {
            (Some(WaitReason::Rules), Some(gate)) => gate.denied().map(rule_lasting).max().unwrap_or(Lasting::ByItself),
            (Some(waiting), _) => waiting.lasting(),
            (None, _) => Lasting::ByItself,
        }
    }

    /// Whether the pod waits until somebody does something.
    #[must_use]
    pub fn stays(&self) -> bool {
        self.lasting() != Lasting::ByItself
    }
}

/// Whether the rule is in the way until somebody does something: no time and no operation that is under way changes its answer.
#[must_use]
pub fn rule_stays(rule: &RuleVerdict) -> bool {
    rule_lasting(rule) != Lasting::ByItself
}

/// What it takes until the rule is in the way no more.
fn rule_lasting(rule: &RuleVerdict) -> Lasting {
    if rule.verdict == Decision::Allowed {
        return Lasting::ByItself;
    }
    // Who is being operated comes back by himself. Who is unavailable for another reason may not.
    let comes_back = |why: Consumption| match why {
        Consumption::Reserved | Consumption::RecentlyReady | Consumption::GoesNow => true,
        Consumption::Unavailable => false,
    };
    match &rule.because {
        // A companion pod makes room for it, or more replicas do.
        Reason::MaxUnavailable { quota: 0, .. } if rule.is_disruption_budget() => Lasting::BySomebody,
        Reason::MinAvailable { quota, total, .. } if quota >= total => Lasting::BySomebody,
        Reason::MaxUnavailable { quota: 0, .. }
        | Reason::MaxUnavailableNodes { quota: 0, .. }
        | Reason::MaxUnavailableDomains { most: 0, .. }
        | Reason::MaxConcurrent { most: 0, .. }
        | Reason::Paused
        | Reason::OutsideWindow { opens: None }
        | Reason::Misconfigured { .. } => Lasting::ByChange,
        Reason::LabelsDiffer { .. }
        | Reason::TooManyFailures { .. }
        | Reason::ApprovalRefused { .. }
        | Reason::ApproverUnreachable { .. } => Lasting::BySomebody,
        // Pods that are not there yet are being made.
        Reason::MaxUnavailable { missing, .. } if *missing > 0 => Lasting::ByItself,
        Reason::MaxUnavailable { .. }
        | Reason::MinAvailable { .. }
        | Reason::MaxUnavailableNodes { .. }
        | Reason::MaxUnavailableDomains { .. }
        | Reason::PerNodeMinAvailable { .. } => {
            if rule.holders.iter().any(|holder| comes_back(holder.why)) {
                Lasting::ByItself
            } else {
                Lasting::BySomebody
            }
        }
        Reason::OutsideWindow { opens: Some(_) }
        | Reason::Blackout { .. }
        | Reason::WaveRunning { .. }
        | Reason::Soaking { .. }
        | Reason::MaxConcurrent { .. }
        | Reason::AwaitingApproval { .. }
        | Reason::AlreadyReserved
        | Reason::AlreadyUnavailable
        | Reason::WithinBudget { .. }
        | Reason::LabelsMatch
        | Reason::Disabled
        | Reason::OtherStage { .. }
        | Reason::FilteredOut
        | Reason::ConditionsUnmet { .. }
        | Reason::Skipped
        | Reason::KindSkipped { .. }
        | Reason::Empty
        | Reason::InWindow
        | Reason::Soaked
        | Reason::FewFailures
        | Reason::WithinNodes { .. }
        | Reason::WithinDomains { .. }
        | Reason::EnoughOnNode { .. }
        | Reason::FewRunning { .. }
        | Reason::Approved
        | Reason::ApproverIgnored { .. }
        | Reason::NoSuchPod => Lasting::ByItself,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_gate::BudgetConsumer;
    use jiff::Timestamp;

    fn denied(because: Reason, holders: &[Consumption]) -> RuleVerdict {
        let holder = |why: &Consumption| BudgetConsumer { pod: "p".to_owned(), why: *why, since: None };
        let holders = holders.iter().map(holder).collect();
        RuleVerdict { rule: "r".into(), verdict: Decision::Denied, because, since: None, holders }
    }

    fn budget(quota: u64) -> Reason {
        Reason::MaxUnavailable { quota, unavailable: 1, missing: 0, total: 3 }
    }

    #[test]
    fn a_budget_that_operations_hold_passes_and_one_that_is_never_open_stays() {
        assert!(!rule_stays(&denied(budget(1), &[Consumption::Reserved])), "the operation ends");
        assert!(!rule_stays(&denied(budget(1), &[Consumption::Unavailable, Consumption::RecentlyReady])));
        assert!(rule_stays(&denied(budget(1), &[Consumption::Unavailable])), "a pod is down, and nobody operates it");
        assert!(rule_stays(&denied(budget(0), &[Consumption::Reserved])), "nobody ever goes");
        let nodes = Reason::MaxUnavailableNodes { quota: 0, unavailable: 1, total: 3 };
        assert!(rule_stays(&denied(nodes, &[Consumption::Reserved])), "10% of 3 nodes are none");
        assert!(rule_stays(&denied(Reason::MinAvailable { quota: 3, available: 3, total: 3 }, &[])));
    }

    #[test]
    fn what_time_changes_passes() {
        let at = Timestamp::UNIX_EPOCH;
        assert!(!rule_stays(&denied(Reason::OutsideWindow { opens: Some(at) }, &[])));
        assert!(!rule_stays(&denied(Reason::Soaking { until: at }, &[])));
        assert!(rule_stays(&denied(Reason::OutsideWindow { opens: None }, &[])));
        assert!(rule_stays(&denied(Reason::Paused, &[])));
    }

    #[test]
    fn what_nobody_but_its_author_can_change_is_told_from_what_others_may() {
        let of = |because| rule_lasting(&denied(because, &[]));
        assert_eq!(of(budget(0)), Lasting::ByChange);
        let all = Reason::MinAvailable { quota: 3, available: 3, total: 3 };
        assert_eq!(of(all), Lasting::BySomebody, "a companion pod may make room");
        assert_eq!(of(Reason::Misconfigured { text: String::new() }), Lasting::ByChange);
        assert_eq!(of(budget(1)), Lasting::BySomebody, "the pod that is down may come back");
        assert_eq!(of(Reason::ApprovalRefused { message: String::new() }), Lasting::BySomebody, "for now");
        assert_eq!(of(Reason::AwaitingApproval { message: String::new() }), Lasting::ByItself);
        assert_eq!(WaitReason::HostNetwork.lasting(), Lasting::ByChange);
        assert_eq!(WaitReason::AgentNotReady("n".into()).lasting(), Lasting::BySomebody);
    }
}
