//! Whether waiting alone helps. What does not pass by itself needs somebody who does something.

use hitless_gate::{Consumption, Decision, Reason, RuleVerdict};
use hitless_workloads::Obstacle;

use super::PodVerdict;
use super::wait_reason::WaitReason;

impl WaitReason {
    /// Whether it stays in the way until somebody does something. Of rules their own verdicts tell, see [`PodVerdict::stays`].
    #[must_use]
    pub fn stays(&self) -> bool {
        match self {
            Self::Obstacle(
                Obstacle::DigestUnknown { .. } | Obstacle::UnknownRevision { .. } | Obstacle::UnknownContainer { .. },
            )
            | Self::Drain(_)
            | Self::NoReadinessGate(_)
            | Self::HooksUnsupported { .. }
            | Self::HostNetwork
            | Self::StaticPod
            | Self::Job
            | Self::Terminating
            | Self::NotScheduled
            | Self::NodeGone(_)
            | Self::AgentNotReady(_)
            | Self::ImageNotFetched { .. }
            | Self::PrefetchOnly
            | Self::Paused(_)
            | Self::OwnerUnreadable(_)
            | Self::AgentTooOld { .. }
            | Self::NotDrained(_)
            | Self::LeftToKuperator(_)
            | Self::Halted { .. } => true,
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
            | Self::LedgerFull => false,
        }
    }
}

impl PodVerdict {
    /// Whether the pod waits until somebody does something.
    #[must_use]
    pub fn stays(&self) -> bool {
        match (&self.waiting, &self.gate) {
            (Some(WaitReason::Rules), Some(gate)) => gate.denied().any(rule_stays),
            (Some(waiting), _) => waiting.stays(),
            (None, _) => false,
        }
    }
}

/// Whether the rule is in the way until somebody does something: no time and no operation that is under way changes its answer.
#[must_use]
pub fn rule_stays(rule: &RuleVerdict) -> bool {
    if rule.verdict == Decision::Allowed {
        return false;
    }
    // Who is being operated comes back by himself. Who is unavailable for another reason may not.
    let comes_back = |why: Consumption| match why {
        Consumption::Reserved | Consumption::RecentlyReady | Consumption::GoesNow => true,
        Consumption::Unavailable => false,
    };
    let nobody_comes_back = || !rule.holders.iter().any(|holder| comes_back(holder.why));
    match &rule.because {
        Reason::MaxUnavailable { quota: 0, .. }
        | Reason::MaxUnavailableNodes { quota: 0, .. }
        | Reason::MaxUnavailableDomains { most: 0, .. }
        | Reason::MaxConcurrent { most: 0, .. }
        | Reason::LabelsDiffer { .. }
        | Reason::Paused
        | Reason::OutsideWindow { opens: None }
        | Reason::TooManyFailures { .. }
        | Reason::ApprovalRefused { .. }
        | Reason::ApproverUnreachable { .. }
        | Reason::Misconfigured { .. } => true,
        Reason::MinAvailable { quota, total, .. } if quota >= total => true,
        // Pods that are not there yet are being made.
        Reason::MaxUnavailable { missing, .. } if *missing > 0 => false,
        Reason::MaxUnavailable { .. }
        | Reason::MinAvailable { .. }
        | Reason::MaxUnavailableNodes { .. }
        | Reason::MaxUnavailableDomains { .. }
        | Reason::PerNodeMinAvailable { .. } => nobody_comes_back(),
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
        | Reason::NoSuchPod => false,
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
}
