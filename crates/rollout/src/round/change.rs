//! What the phases of a round decide, as data. Nothing is written but by a change: [`super::write_plan::WritePlan`] makes the writes of them.

use std::collections::BTreeSet;

use hitless_api::{Cancel, Grant, MicroTime, PodRef, Reservation, VerifySpec, WaitPoint};
use hitless_workloads::Write;

use crate::mode::ServiceView;
use crate::snapshot::OperationKey;

/// One change to what stands in the API server.
#[derive(Clone, Debug)]
pub(crate) enum Change<'a> {
    /// This leader's epoch is written into the ledger of an earlier one.
    TakeOver(Write),
    /// The operation's reservation ends, in the ledger of its namespace and in the cluster's. That of another operation stays.
    /// Whoever decides it has the evidence.
    Release { namespace: &'a str, pod_uid: &'a str, operation: OperationKey },
    /// The pod is reserved in the ledger of its namespace and, where `in_cluster`, in that of the whole cluster, which is written
    /// first. [`super::write_plan::WritePlan::reserve`] makes it, and says whether there is room.
    Reserve { pod: &'a PodRef, reservation: Reservation, in_cluster: bool },
    /// The ledger is rewritten, so that nothing that was prepared on an older version of it arrives any more.
    FenceLedger { namespace: &'a str, fence: String },
    /// The node's agent is to operate a pod.
    Grant { node: &'a str, grant: Box<Grant> },
    /// The operation is over. What it has taught goes into the same write, so that it counts once.
    RemoveGrant { node: &'a str, grant: &'a Grant },
    /// The operation is to be ended.
    Cancel { node: &'a str, grant: &'a Grant, cancel: Cancel },
    /// The clock by which the operation is judged stands since then, or goes on.
    Clock { node: &'a str, grant: &'a Grant, stands: Option<MicroTime>, verify: VerifySpec },
    /// The rules of stage PostCheck let the operated pod return.
    PassPostCheck { node: &'a str, grant: &'a Grant },
    /// A wait of the operation is over, or what is missing has changed.
    Wait {
        node: &'a str,
        grant: &'a Grant,
        name: &'a str,
        before: WaitPoint,
        /// What is missing; `None`: it is over.
        message: Option<String>,
    },
    /// The NodeTransition is rewritten, so that nothing that was prepared on an older version of it arrives any more.
    FenceNode { node: &'a str, fence: String },
    /// The operation holds its pod, or is about to, and needs these Services open.
    Hold { operation: String, services: Vec<&'a ServiceView> },
    /// Anything else is written, on which nothing else in the round rests.
    Write(Write),
}

impl Change<'_> {
    /// The namespace in which something begins or ends by it. `None`: nothing does, or not in one namespace. An epoch, and a fence in a
    /// NodeTransition, only make older writes fail.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::TakeOver(_) | Self::FenceNode { .. } => None,
            Self::Release { namespace, .. } | Self::FenceLedger { namespace, .. } => Some(namespace),
            Self::Reserve { pod, .. } => Some(&pod.namespace),
            Self::Grant { grant, .. } => Some(&grant.pod.namespace),
            Self::RemoveGrant { grant, .. }
            | Self::Cancel { grant, .. }
            | Self::Clock { grant, .. }
            | Self::PassPostCheck { grant, .. }
            | Self::Wait { grant, .. } => Some(&grant.pod.namespace),
            Self::Hold { services, .. } => services.first().map(|service| service.namespace.as_str()),
            Self::Write(write) => write.namespace(),
        }
    }
}

/// uids of the objects that these write.
pub(crate) fn written(changes: &[Change<'_>]) -> BTreeSet<String> {
    let uid = |change: &Change<'_>| match change {
        Change::Write(write) => Some(write.on.uid.clone()),
        _ => None,
    };
    changes.iter().filter_map(uid).collect()
}
