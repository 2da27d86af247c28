//! What the phases of a round decide, as data. Nothing is written but by a change: [`super::draft::Draft`] makes the writes of them.

use hitless_api::{Cancel, Grant, PodRef, Reservation, WaitPoint};

use super::write::{
    CompanionWrite, EndedHold, InServiceFallback, LedgerWrite, PrefetchWrite, ProviderStatusWrite, RuleStatusWrite,
};
use crate::mode::ServiceView;
use crate::snapshot::OperationKey;

/// One change to what stands in the API server.
#[derive(Clone, Debug)]
pub(super) enum Change<'a> {
    /// This leader's epoch is written into the ledger of an earlier one.
    TakeOver(LedgerWrite),
    /// The operation's reservation ends, in the ledger of its namespace and in the cluster's. That of another operation stays.
    /// Whoever decides it has the evidence.
    Release { namespace: &'a str, pod_uid: &'a str, operation: OperationKey },
    /// The pod is reserved in the ledger of its namespace and, where `in_cluster`, in that of the whole cluster, which is written
    /// first. [`super::draft::Draft::reserve`] makes it, and says whether there is room.
    Reserve { pod: &'a PodRef, reservation: Reservation, in_cluster: bool },
    /// The ledger is rewritten, so that nothing that was prepared on an older version of it arrives any more.
    FenceLedger { namespace: &'a str, fence: String },
    /// The node's agent is to operate a pod.
    Grant { node: &'a str, grant: Grant },
    /// The operation is over. What it has taught goes into the same write, so that it counts once.
    RemoveGrant { node: &'a str, grant: &'a Grant },
    /// The operation is to be ended.
    Cancel { node: &'a str, grant: &'a Grant, cancel: Cancel },
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
    /// No operation needs the Service open any more.
    CloseService { service: &'a ServiceView, ended: EndedHold },
    /// A workload's object is written.
    Workload(hitless_workloads::Write),
    /// A pod that fetches an image is made or deleted.
    Prefetch(PrefetchWrite),
    /// A companion pod is made or deleted.
    Companion(CompanionWrite),
    /// InService is added where no agent is.
    InServiceFallback(InServiceFallback),
    /// A PodTransitionRule's status is not what it should be.
    RuleStatus(RuleStatusWrite),
    /// A TrafficProvider's status is not what it should be.
    ProviderStatus(ProviderStatusWrite),
}
