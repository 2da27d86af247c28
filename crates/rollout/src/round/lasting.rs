//! Whether waiting alone helps. What does not pass by itself needs somebody who does something.

use std::collections::HashMap;

use hitless_gate::{Lasting, RuleVerdict};
use hitless_workloads::Obstacle;

use crate::round::companions::wants_all;
use crate::round::pod_verdict::PodVerdict;
use crate::round::wait_reason::{NotFetched, WaitReason};
use crate::snapshot::Unread;

/// So many pods may wait for each other's turn one after the other.
const MOST_TURNS: usize = 8;

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
            | Self::PullSecretsChanged(_)
            | Self::NamespaceUnread(Unread::TooMuch)
            | Self::Paused { .. } => Lasting::ByChange,
            Self::Obstacle(
                Obstacle::UnknownRevision { .. } | Obstacle::NotStarted { .. } | Obstacle::NotReplaced { .. },
            )
            // Also where the node's agent can't hold it: a newer one may.
            | Self::NoReadinessGate(_)
            | Self::HooksUnsupported { .. }
            | Self::NotScheduled
            | Self::NodeGone(_)
            | Self::Behind { .. }
            | Self::AgentNotReady { .. }
            | Self::OwnerUnreadable(_)
            | Self::AgentTooOld { .. }
            | Self::NotDrained(_)
            | Self::ApplicationRefused(_)
            | Self::LeftToForeignManager(_)
            | Self::Halted { .. } => Lasting::BySomebody,
            Self::ImageNotFetched { why, .. } => of_image(why),
            Self::Obstacle(Obstacle::NotItsTurn { .. } | Obstacle::NewPodsUnavailable { .. } | Obstacle::RestartNotRecorded)
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
pub(crate) struct Roots<'v>(HashMap<(&'v str, &'v str), &'v PodVerdict>);

impl<'v> Roots<'v> {
    pub(crate) fn of(verdicts: impl IntoIterator<Item = &'v PodVerdict>) -> Self {
        let key = |verdict: &'v PodVerdict| {
            Some(((verdict.owner.as_ref()?.uid.as_str(), verdict.pod.name.as_str()), verdict))
        };
        Self(verdicts.into_iter().filter_map(key).collect())
    }

    /// The verdict that speaks for this one.
    pub(crate) fn root(&self, verdict: &'v PodVerdict) -> &'v PodVerdict {
        let next = |verdict: &&'v PodVerdict| match &verdict.waiting {
            Some(WaitReason::Obstacle(Obstacle::NotItsTurn { first, .. } | Obstacle::NewPodsUnavailable { first })) => {
                self.0.get(&(verdict.owner.as_ref()?.uid.as_str(), first.as_str())).copied()
            }
            _ => None,
        };
        // Nobody's turn comes before his own; a bound keeps it so whatever is said.
        std::iter::successors(Some(verdict), next).take(MOST_TURNS).last().unwrap_or(verdict)
    }
}

/// What it takes until the rule is in the way no more. `beside_companion`: as in [`PodVerdict`].
fn rule_lasting(rule: &RuleVerdict, beside_companion: bool) -> Lasting {
    if beside_companion && wants_all(rule) { Lasting::ByItself } else { rule.lasting() }
}

#[cfg(test)]
mod tests {
    use hitless_gate::Denies;

    use super::*;

    /// An obstacle that stays as long as the pod is as it is takes a change of what is written.
    #[test]
    fn what_is_for_ever_needs_a_change() {
        let (container, revision) = (String::new(), String::new());
        let all = [
            Obstacle::DigestUnknown { container: container.clone() },
            Obstacle::NotStarted { container: container.clone() },
            Obstacle::NotReplaced { container: container.clone() },
            Obstacle::UnknownContainer { container },
            Obstacle::RestartNotRecorded,
            Obstacle::NotItsTurn { kind: "statefulsets", first: String::new() },
            Obstacle::NewPodsUnavailable { first: String::new() },
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
    fn a_companion_pod_makes_room_where_all_have_to_stay() {
        let denied = |because: Denies| RuleVerdict {
            rule: "r".into(),
            because: because.into(),
            since: None,
            holders: std::sync::Arc::default(),
        };
        let min = |quota| denied(Denies::MinAvailable { quota, available: 3, total: 3 });
        assert_eq!(rule_lasting(&min(3), false), Lasting::ByChange);
        assert_eq!(rule_lasting(&min(3), true), Lasting::ByItself);
        assert_eq!(rule_lasting(&min(4), true), Lasting::ByChange, "one more is not enough");
        let budget = denied(Denies::MaxUnavailable { quota: 0, unavailable: 1, missing: 0, total: 3 });
        assert_eq!(rule_lasting(&budget, true), Lasting::ByChange, "it is no PodDisruptionBudget");
    }

    #[test]
    fn what_nobody_but_its_author_can_change_is_told_from_what_others_may() {
        assert_eq!(WaitReason::HostNetwork.lasting(), Lasting::ByChange);
        assert_eq!(WaitReason::AgentNotReady { node: "n".into(), why: String::new() }.lasting(), Lasting::BySomebody);
    }
}
