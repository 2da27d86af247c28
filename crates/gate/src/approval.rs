//! What external approvers have said: the gate asks nobody itself, it says who is to be asked.

use std::collections::BTreeMap;

use jiff::Timestamp;

pub mod target;

/// What one approver says of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// It may go.
    Approved,
    /// Asked, and not answered yet.
    Pending,
    /// It may not go, for now.
    Refused,
    /// The approver could not be asked, or its answer not be understood.
    Unreachable,
}

/// An approval with its circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What was said.
    pub approval: Approval,
    /// In the approver's words, or what went wrong; at most 512 bytes.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// Who was asked about what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Namespace of the pod and the PodTransitionRule.
    pub namespace: String,
    /// `<PodTransitionRule>/<rule>`.
    pub rule: String,
    /// Id of the operation (that of its grant), so that an approval holds for no other one.
    pub operation: String,
}

/// All answers that are known. A question that is missing has not been asked.
pub type Approvals = BTreeMap<Question, Answer>;
