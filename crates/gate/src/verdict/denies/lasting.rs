//! Whether waiting alone helps. What does not pass by itself needs somebody who does something.

use super::Denies;
use crate::verdict::{BudgetConsumer, Consumption, RuleVerdict};

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

impl RuleVerdict {
    /// What it takes until the rule is in the way no more.
    #[must_use]
    pub fn lasting(&self) -> Lasting {
        self.denies().map_or(Lasting::ByItself, |denies| denies.lasting(&self.holders))
    }
}

impl Denies {
    fn lasting(&self, holders: &[BudgetConsumer]) -> Lasting {
        match self {
            Self::MinAvailable { quota, total, .. } if quota >= total => Lasting::ByChange,
            Self::MaxUnavailable { quota: 0, .. }
            | Self::MaxUnavailableNodes { quota: 0, .. }
            | Self::MaxUnavailableDomains { most: 0, .. }
            | Self::MaxConcurrent { most: 0, .. }
            | Self::Paused
            | Self::OutsideWindow { opens: None }
            | Self::NoNodeHasLabel { .. }
            | Self::Misconfigured { .. } => Lasting::ByChange,
            Self::LabelsDiffer { .. }
            | Self::TooManyFailures { .. }
            | Self::ApprovalRefused { .. }
            | Self::ApproverUnreachable { .. } => Lasting::BySomebody,
            // Pods that are not there yet are being made.
            Self::MaxUnavailable { missing, .. } if *missing > 0 => Lasting::ByItself,
            Self::MaxUnavailable { .. }
            | Self::MinAvailable { .. }
            | Self::MaxUnverified { .. }
            | Self::MaxUnavailableNodes { .. }
            | Self::MaxUnavailableDomains { .. }
            | Self::PerNodeMinAvailable { .. } => {
                if holders.iter().any(|holder| comes_back(holder.why)) {
                    Lasting::ByItself
                } else {
                    Lasting::BySomebody
                }
            }
            Self::OutsideWindow { opens: Some(_) }
            | Self::Blackout { .. }
            | Self::WaveRunning { .. }
            | Self::Soaking { .. }
            | Self::MaxConcurrent { .. }
            | Self::AwaitingApproval { .. }
            | Self::NoSuchPod => Lasting::ByItself,
        }
    }
}

/// A pod that is being operated comes back by itself, and one that is being deleted is made anew. One that is unavailable for another
/// reason may not.
fn comes_back(why: Consumption) -> bool {
    match why {
        Consumption::Reserved | Consumption::RecentlyReady | Consumption::GoesNow | Consumption::Leaving => true,
        Consumption::NotBack | Consumption::Unavailable | Consumption::Lost => false,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn lasting(because: &Denies, holders: &[Consumption]) -> Lasting {
        let holder = |why: &Consumption| BudgetConsumer { pod: "p".to_owned(), why: *why, since: None };
        because.lasting(&holders.iter().map(holder).collect::<Vec<_>>())
    }

    fn budget(quota: u64) -> Denies {
        Denies::MaxUnavailable { quota, unavailable: 1, missing: 0, total: 3 }
    }

    #[test]
    fn a_budget_that_operations_hold_passes_and_one_that_is_never_open_stays() {
        let stays = |because: &Denies, holders: &[Consumption]| lasting(because, holders) != Lasting::ByItself;
        assert!(!stays(&budget(1), &[Consumption::Reserved]), "the operation ends");
        assert!(!stays(&budget(1), &[Consumption::Unavailable, Consumption::RecentlyReady]));
        assert!(stays(&budget(1), &[Consumption::Unavailable]), "a pod is down, and nobody operates it");
        assert!(!stays(&budget(1), &[Consumption::Leaving]), "it ends by itself, and is made anew");
        assert!(stays(&budget(1), &[Consumption::NotBack]), "its operation has ended");
        assert!(stays(&budget(1), &[Consumption::Lost]), "nothing ends there before somebody mends the node");
        assert!(stays(&budget(0), &[Consumption::Reserved]), "nobody ever goes");
        let nodes = Denies::MaxUnavailableNodes { quota: 0, unavailable: 1, total: 3 };
        assert!(stays(&nodes, &[Consumption::Reserved]), "10% of 3 nodes are none");
        assert!(stays(&Denies::MinAvailable { quota: 3, available: 3, total: 3 }, &[]));
    }

    #[test]
    fn what_time_changes_passes() {
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(lasting(&Denies::OutsideWindow { opens: Some(at) }, &[]), Lasting::ByItself);
        assert_eq!(lasting(&Denies::Soaking { until: at }, &[]), Lasting::ByItself);
        assert_eq!(lasting(&Denies::OutsideWindow { opens: None }, &[]), Lasting::ByChange);
        assert_eq!(lasting(&Denies::Paused, &[]), Lasting::ByChange);
    }

    #[test]
    fn what_nobody_but_its_author_can_change_is_told_from_what_others_may() {
        let of = |because| lasting(&because, &[]);
        assert_eq!(of(budget(0)), Lasting::ByChange);
        assert_eq!(
            of(Denies::MinAvailable { quota: 3, available: 3, total: 3 }),
            Lasting::ByChange,
            "nobody stands in"
        );
        assert_eq!(of(Denies::Misconfigured { text: String::new() }), Lasting::ByChange);
        assert_eq!(of(budget(1)), Lasting::BySomebody, "the pod that is down may come back");
        assert_eq!(of(Denies::ApprovalRefused { message: String::new() }), Lasting::BySomebody, "for now");
        assert_eq!(of(Denies::AwaitingApproval { message: String::new() }), Lasting::ByItself);
    }
}
