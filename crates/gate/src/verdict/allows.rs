//! Why a rule says yes.

use std::fmt;

use serde::Serialize;

use super::text::{others, said};

/// Why a rule lets a pod go. Counts are pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", content = "numbers", rename_all_fields = "camelCase")]
pub enum Allows {
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
    /// The pod has the labels that the rule asks for.
    LabelsMatch,
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
    /// Operations may begin now.
    InWindow,
    /// The last wave has soaked, or there was none.
    Soaked,
    /// Fewer operations have failed than the budget bears.
    FewFailures,
    /// Few nodes have an unavailable pod, or the pod's own already has one.
    WithinNodes {
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
    /// Enough others serve on the pod's node.
    EnoughOnNode {
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
    /// The approver agrees.
    Approved,
    /// The approver can't be asked, and the rule says to go on then.
    ApproverIgnored {
        /// What went wrong.
        message: String,
    },
}

impl Allows {
    /// Whether the rule was really asked and agreed; otherwise it has no say about the pod.
    #[must_use]
    pub fn agreed(&self) -> bool {
        match self {
            Self::AlreadyReserved
            | Self::AlreadyUnavailable
            | Self::FewUnverified { .. }
            | Self::WithinBudget { .. }
            | Self::LabelsMatch
            | Self::InWindow
            | Self::Soaked
            | Self::FewFailures
            | Self::WithinNodes { .. }
            | Self::WithinDomains { .. }
            | Self::EnoughOnNode { .. }
            | Self::FewRunning { .. }
            | Self::Approved
            | Self::ApproverIgnored { .. } => true,
            Self::Disabled
            | Self::OtherStage { .. }
            | Self::FilteredOut
            | Self::ConditionsUnmet { .. }
            | Self::Skipped
            | Self::KindSkipped { .. }
            | Self::Empty => false,
        }
    }
}

impl fmt::Display for Allows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyReserved => write!(f, "the pod is reserved already"),
            Self::AlreadyUnavailable => write!(f, "the pod is unavailable anyway, operating it costs nothing"),
            Self::FewUnverified { most, unverified } => {
                write!(f, "the pod is unavailable, and {} being tried (at most {most})", others(*unverified))
            }
            Self::WithinBudget { total, unavailable, max_unavailable, available, min_available } => {
                write!(f, "there is room: of {total} pods {unavailable} unavailable")?;
                if let Some(max) = max_unavailable {
                    write!(f, " (at most {max})")?;
                }
                write!(f, ", {available} available")?;
                min_available.map_or(Ok(()), |min| write!(f, " (at least {min})"))
            }
            Self::LabelsMatch => write!(f, "the pod has the labels asked for"),
            Self::Disabled => write!(f, "the rule is disabled"),
            Self::OtherStage { stage } => write!(f, "the rule is for stage {stage:?}, not for PreCheck"),
            Self::FilteredOut => write!(f, "the rule's filter leaves this pod out"),
            Self::ConditionsUnmet { conditions } => {
                write!(f, "the rule is for pods with condition {}", conditions.join(" or "))
            }
            Self::Skipped => write!(f, "the pod's annotation excuses it from the rule"),
            Self::KindSkipped { kind } => write!(f, "rules of kind {kind} are switched off for the whole cluster"),
            Self::Empty => write!(f, "the rule asks for nothing"),
            Self::InWindow => write!(f, "operations may begin now"),
            Self::Soaked => write!(f, "the last wave has soaked"),
            Self::FewFailures => write!(f, "few operations have failed"),
            Self::WithinNodes { quota, unavailable, total } => {
                write!(f, "of {total} nodes {unavailable} have an unavailable pod (at most {quota})")
            }
            Self::WithinDomains { key } => write!(f, "there is room by {key}"),
            Self::EnoughOnNode { node, fewest, available } => {
                write!(f, "{available} are available on node {node} (at least {fewest} must stay)")
            }
            Self::FewRunning { most, running } => write!(f, "{running} are being operated (at most {most})"),
            Self::Approved => write!(f, "the approver agrees"),
            Self::ApproverIgnored { message } => {
                write!(f, "the approver can't be asked, and the rule's failurePolicy is Ignore{}", said(message))
            }
        }
    }
}
