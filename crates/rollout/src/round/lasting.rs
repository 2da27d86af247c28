//! Whether waiting alone helps. What does not pass by itself needs somebody who does something.

use std::collections::HashMap;

use hitless_gate::{Consumption, Decision, Reason, RuleVerdict};
use hitless_workloads::Obstacle;

use super::PodVerdict;
use super::companions::wants_all;
use super::wait_reason::{NotFetched, WaitReason};
use crate::snapshot::Unread;

/// So many pods may wait for each other's turn one after the other.
const MOST_TURNS: usize = 8;

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

/// What it takes that an image gets fetched: a change of the policies of others, of the template, or of the image where these refuse it or
/// nobody has it.
fn of_image(why: &NotFetched) -> Lasting {
    let is_refused = matches!(why, NotFetched::Refused(_)) || why.is_missing();
    if is_refused { Lasting::ByChange } else { Lasting::BySomebody }
}

impl WaitReason {
    /// What it takes. Of rules their own verdicts tell, see [`PodVerdict::lasting`].
    #[must_use]
    pub fn lasting(&self) -> Lasting {
        match self {
            Self::Drain(_)
            | Self::Obstacle(Obstacle::UnknownContainer { .. } | Obstacle::DigestUnknown { .. })
            | Self::TooLarge(_)
            | Self::HostNetwork
            | Self::StaticPod
            | Self::Job
            | Self::NoAgentPossible(_)
            | Self::PrefetchOnly
            | Self::LossExpected(_)
            | Self::NamespaceUnread(Unread::TooMuch)
            | Self::Paused { .. } => Lasting::ByChange,
            Self::Obstacle(Obstacle::UnknownRevision { .. } | Obstacle::NotStarted { .. })
            // Also where the node's agent can't hold it: a newer one may.
            | Self::NoReadinessGate(_)
            | Self::HooksUnsupported { .. }
            | Self::NotScheduled
            | Self::NodeGone(_)
            | Self::AgentNotReady { .. }
            | Self::OwnerUnreadable(_)
            | Self::AgentTooOld { .. }
            | Self::NotDrained(_)
            | Self::ApplicationRefused(_)
            | Self::LeftToKuperator(_)
            | Self::Halted { .. } => Lasting::BySomebody,
            Self::ImageNotFetched { why, .. } => of_image(why),
            Self::Obstacle(Obstacle::NotItsTurn { .. } | Obstacle::RestartNotRecorded)
            | Self::InProgress
            | Self::ReleasePending
            | Self::PodNotCached
            | Self::NamespaceUnread(Unread::Pods | Unread::Workloads | Unread::Parts)
            | Self::Rules
            | Self::ServicePublishing(_)
            | Self::ServiceOpen(_)
            | Self::ServiceBusy { .. }
            | Self::SiblingAway(_)
            | Self::NodeFull(_)
            | Self::ImagePulling { .. }
            | Self::Learning(_)
            | Self::Natively(_)
            | Self::Companion { .. }
            | Self::MadeAnew
            | Self::Terminating
            | Self::Dependency(_)
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
            (Some(WaitReason::Rules), Some(gate)) => {
                let each = gate.denied().map(|rule| rule_lasting(rule, self.beside_companion));
                each.max().unwrap_or(Lasting::ByItself)
            }
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

/// What every pod waits for in the end: where one waits for the turn of another one, what that one waits for speaks for both.
pub(super) struct Roots<'v>(HashMap<(&'v str, &'v str), &'v PodVerdict>);

impl<'v> Roots<'v> {
    pub(super) fn of(verdicts: impl IntoIterator<Item = &'v PodVerdict>) -> Self {
        let key = |verdict: &'v PodVerdict| {
            Some(((verdict.owner.as_ref()?.uid.as_str(), verdict.pod.name.as_str()), verdict))
        };
        Self(verdicts.into_iter().filter_map(key).collect())
    }

    /// The verdict that speaks for this one.
    pub(super) fn root(&self, verdict: &'v PodVerdict) -> &'v PodVerdict {
        let next = |verdict: &&'v PodVerdict| match &verdict.waiting {
            Some(WaitReason::Obstacle(Obstacle::NotItsTurn { first, .. })) => {
                self.0.get(&(verdict.owner.as_ref()?.uid.as_str(), first.as_str())).copied()
            }
            _ => None,
        };
        // Nobody's turn comes before his own; a bound keeps it so whatever is said.
        std::iter::successors(Some(verdict), next).take(MOST_TURNS).last().unwrap_or(verdict)
    }
}

/// Whether the rule is in the way until somebody does something: no time and no operation that is under way changes its answer.
#[must_use]
pub fn rule_stays(rule: &RuleVerdict) -> bool {
    rule_lasting(rule, false) != Lasting::ByItself
}

/// What it takes until the rule is in the way no more.
fn rule_lasting(rule: &RuleVerdict, beside_companion: bool) -> Lasting {
    if rule.verdict == Decision::Allowed {
        return Lasting::ByItself;
    }
    // Who is being operated comes back by himself, and who is being deleted is made anew. Who is unavailable for another reason may not.
    let comes_back = |why: Consumption| match why {
        Consumption::Reserved | Consumption::RecentlyReady | Consumption::GoesNow | Consumption::Leaving => true,
        Consumption::Unavailable => false,
    };
    match &rule.because {
        _ if beside_companion && wants_all(rule) => Lasting::ByItself,
        Reason::MinAvailable { quota, total, .. } if quota >= total => Lasting::ByChange,
        Reason::MaxUnavailable { quota: 0, .. }
        | Reason::MaxUnavailableNodes { quota: 0, .. }
        | Reason::MaxUnavailableDomains { most: 0, .. }
        | Reason::MaxConcurrent { most: 0, .. }
        | Reason::Paused
        | Reason::OutsideWindow { opens: None }
        | Reason::NoNodeHasLabel { .. }
        | Reason::Misconfigured { .. } => Lasting::ByChange,
        Reason::LabelsDiffer { .. }
        | Reason::TooManyFailures { .. }
        | Reason::ApprovalRefused { .. }
        | Reason::ApproverUnreachable { .. } => Lasting::BySomebody,
        // Pods that are not there yet are being made.
        Reason::MaxUnavailable { missing, .. } if *missing > 0 => Lasting::ByItself,
        Reason::MaxUnavailable { .. }
        | Reason::MinAvailable { .. }
        | Reason::MaxUnverified { .. }
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
        | Reason::FewUnverified { .. }
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
        assert!(!rule_stays(&denied(budget(1), &[Consumption::Leaving])), "it ends by itself, and is made anew");
        assert!(rule_stays(&denied(budget(0), &[Consumption::Reserved])), "nobody ever goes");
        let nodes = Reason::MaxUnavailableNodes { quota: 0, unavailable: 1, total: 3 };
        assert!(rule_stays(&denied(nodes, &[Consumption::Reserved])), "10% of 3 nodes are none");
        assert!(rule_stays(&denied(Reason::MinAvailable { quota: 3, available: 3, total: 3 }, &[])));
    }

    /// An obstacle that stays as long as the pod is as it is takes a change of what is written.
    #[test]
    fn what_is_for_ever_needs_a_change() {
        let (container, revision) = (String::new(), String::new());
        let all = [
            Obstacle::DigestUnknown { container: container.clone() },
            Obstacle::NotStarted { container: container.clone() },
            Obstacle::UnknownContainer { container },
            Obstacle::RestartNotRecorded,
            Obstacle::NotItsTurn { kind: "statefulsets", first: String::new() },
            Obstacle::UnknownRevision { revision },
        ];
        for obstacle in all {
            let needs_change = WaitReason::Obstacle(obstacle.clone()).lasting() == Lasting::ByChange;
            assert_eq!(obstacle.is_for_ever(), needs_change, "{obstacle}");
        }
    }

    #[test]
    fn an_image_that_no_registry_has_takes_somebody_who_pushes_or_corrects_it() {
        let of = |reason: &str, message: &str, attempt| {
            let (reason, message) = (reason.to_owned(), message.to_owned());
            let why = NotFetched::Failed { reason, message, attempt };
            WaitReason::ImageNotFetched { image: String::new(), node: String::new(), why }.lasting()
        };
        let missing = "failed to resolve reference \"r.io/web:v2\": r.io/web:v2: not found";
        assert_eq!(of("ErrImagePull", missing, 2), Lasting::BySomebody, "it may be pushed in this moment");
        assert_eq!(of("ErrImagePull", missing, 3), Lasting::ByChange);
        assert_eq!(of("ErrImagePull", "dial tcp: connection refused", 9), Lasting::BySomebody);
        assert_eq!(of("InvalidImageName", "invalid reference format", 1), Lasting::ByChange);
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
        let of = |because| rule_lasting(&denied(because, &[]), false);
        assert_eq!(of(budget(0)), Lasting::ByChange);
        let min = |quota| Reason::MinAvailable { quota, available: 3, total: 3 };
        assert_eq!(of(min(3)), Lasting::ByChange, "nobody stands in");
        assert_eq!(rule_lasting(&denied(min(3), &[]), true), Lasting::ByItself, "a companion pod makes room");
        assert_eq!(rule_lasting(&denied(min(4), &[]), true), Lasting::ByChange, "one more is not enough");
        assert_eq!(rule_lasting(&denied(budget(0), &[]), true), Lasting::ByChange, "it is no PodDisruptionBudget");
        assert_eq!(of(Reason::Misconfigured { text: String::new() }), Lasting::ByChange);
        assert_eq!(of(budget(1)), Lasting::BySomebody, "the pod that is down may come back");
        assert_eq!(of(Reason::ApprovalRefused { message: String::new() }), Lasting::BySomebody, "for now");
        assert_eq!(of(Reason::AwaitingApproval { message: String::new() }), Lasting::ByItself);
        assert_eq!(WaitReason::HostNetwork.lasting(), Lasting::ByChange);
        assert_eq!(WaitReason::AgentNotReady { node: "n".into(), why: String::new() }.lasting(), Lasting::BySomebody);
    }
}
