//! Why a rule says no, in words, what would unblock, and what it takes until it is in the way no more.

mod lasting;
mod text;
mod unblock;

use jiff::Timestamp;
use serde::Serialize;

pub use lasting::Lasting;

/// Why a rule does not let a pod go. Counts are pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", content = "numbers", rename_all_fields = "camelCase")]
pub enum Denies {
    /// The pod is unavailable, and may come back by itself; the new version would be on too many that nobody has verified.
    MaxUnverified {
        /// Most at a time: as many as may be unavailable, but one at least.
        most: u64,
        /// At the moment.
        unverified: u64,
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
    /// The pod lacks labels that the rule asks for.
    LabelsDiffer {
        /// The selector that does not match, in the form of kubectl's `-l`.
        requires: String,
    },
    /// The budget is paused.
    Paused,
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
    /// So many operations have failed that nobody goes any more.
    TooManyFailures {
        /// So many are too many.
        most: u64,
        /// Failed, and not superseded.
        failed: u64,
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
    /// Too few others serve on the pod's node.
    PerNodeMinAvailable {
        /// The node.
        node: String,
        /// Fewest that must stay.
        fewest: u64,
        /// Available there at the moment.
        available: u64,
    },
    /// One more operation would be too many.
    MaxConcurrent {
        /// Most at a time.
        most: u64,
        /// At the moment.
        running: u64,
    },
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
    /// No node has the label by which domains are told from each other, so all nodes would be one, and nobody passes.
    NoNodeHasLabel {
        /// The label.
        key: String,
    },
    /// The rule can't be understood, so nobody passes.
    Misconfigured {
        /// What is wrong and what to do.
        text: String,
    },
    /// The pod is not there (any more).
    NoSuchPod,
}

impl Denies {
    /// Whether it counts pods that are away, or would be by an operation.
    #[must_use]
    pub fn counts_who_is_away(&self) -> bool {
        matches!(self.who(), Some(Who::Down | Who::DownOnNode | Who::InTrial))
    }

    /// It is an approver who is waited for.
    #[must_use]
    pub fn is_about_approval(&self) -> bool {
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
            Self::MaxUnverified { .. } => Some(Who::InTrial),
            Self::LabelsDiffer { .. }
            | Self::Paused
            | Self::OutsideWindow { .. }
            | Self::Blackout { .. }
            | Self::Soaking { .. }
            | Self::TooManyFailures { .. }
            | Self::AwaitingApproval { .. }
            | Self::ApprovalRefused { .. }
            | Self::ApproverUnreachable { .. }
            | Self::NoNodeHasLabel { .. }
            | Self::Misconfigured { .. }
            | Self::NoSuchPod => None,
        }
    }

    /// When it changes by itself.
    pub(crate) fn changes_at(&self) -> Option<Timestamp> {
        match self {
            Self::OutsideWindow { opens } => *opens,
            Self::Blackout { until, .. } | Self::Soaking { until } => Some(*until),
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
    /// Those that are operated, and those that have the new version and are not available.
    InTrial,
}
