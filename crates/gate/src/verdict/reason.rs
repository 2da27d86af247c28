//! Why a rule says yes or no.

use jiff::Timestamp;
use serde::Serialize;

/// Why a rule says what it says. Counts are pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", content = "numbers", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The pod is reserved already.
    AlreadyReserved,
    /// The pod is unavailable anyway, so operating it takes nothing from the budget.
    AlreadyUnavailable,
    /// The pod is unavailable, and few others are in trial: being operated, or with the new version and not available.
    FewUnverified {
        /// Most at a time: as many as may be unavailable, but one at least.
        most: u64,
        /// At the moment.
        unverified: u64,
    },
    /// The pod is unavailable, and may come back by itself; the new version would be on too many that nobody has verified.
    MaxUnverified {
        /// Most at a time: as many as may be unavailable, but one at least.
        most: u64,
        /// At the moment.
        unverified: u64,
    },
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
            Self::MaxUnverified { .. } => Some(Who::InTrial),
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
