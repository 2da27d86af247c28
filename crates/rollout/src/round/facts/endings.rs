//! Which operations have ended, and on what evidence a pod's reservation is freed (docs/contract.md#end-of-a-reservation).

mod orphans;
mod without_reservation;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Cancel, Grant, GrantOp, MicroTime, Outcome, PodRef, TransitionResult, lifecycle};
use hitless_workloads::Stage;
use jiff::{SignedDuration, Timestamp};

use crate::round::change::Change;
use crate::round::facts::chance::Chance;
use crate::round::facts::dependency::Beside;
use crate::round::facts::desired::DesiredState;
use crate::snapshot::{Evidence, OperationKey, Snapshot};

/// Reason of a result `Done` whose pod the agent has not seen Ready: it was put back into service, and something that its readiness
/// probe asks has gone since. All others were seen Ready.
const READY_PENDING: &str = "ReadyPending";

/// How long a node is left alone that has not done its part in time: after that its pod is tried again. A kubelet that has not ended the
/// old containers may replace them at any moment until then, and then the pod is away, with a version that nobody may have seen.
const NODE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// A pod to be read afresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The operation that the answer is evidence for.
    pub operation: OperationKey,
    /// The pod.
    pub pod: PodRef,
}

/// A result that halts its workload on the way to its target, or that speaks for one pod.
pub(crate) struct Failure<'a> {
    pub(crate) grant: &'a Grant,
    pub(crate) result: &'a TransitionResult,
    pub(crate) message: &'a str,
    /// When it was reported.
    pub(crate) since: Timestamp,
    /// Index of the workload.
    pub(crate) workload: Option<usize>,
    /// Pods of the version before were not Ready either: it says nothing of the version.
    pub(crate) outside: bool,
}

impl Failure<'_> {
    /// When the operation is tried again by itself: where the pod's node was at fault, after [`NODE_PATIENCE`].
    pub(crate) fn again_at(&self) -> Option<Timestamp> {
        self.result.is_of_node().then(|| self.since.saturating_add(NODE_PATIENCE).unwrap_or(Timestamp::MAX))
    }

    /// Outcome and reason, for people.
    pub(crate) fn reason(&self) -> String {
        format!("{:?}/{}", self.result.outcome, self.result.reason)
    }
}

#[derive(Default)]
pub(crate) struct Ended<'a> {
    pub(crate) reads: Vec<Read>,
    pub(crate) failures: Vec<Failure<'a>>,
    /// Pods with a grant, or with a reservation that is not free yet.
    pub(crate) busy: BTreeSet<&'a str>,
    /// Of these, those that are back from an operation that has failed and halts them: they serve.
    pub(crate) failed_but_serving: BTreeSet<&'a str>,
    /// Reservations without a grant whose operation is still wanted: ids by pod uid.
    pub(crate) regrant: BTreeMap<&'a str, OperationKey>,
    /// Pods that are not Ready after an operation that has ended, and want one: their reservations are transferred to that, and are
    /// never free in between. Without it a pod whose old image is as bad as the new one could never be mended. With the
    /// grants that have ended.
    pub(crate) transfers: BTreeMap<&'a str, (&'a str, &'a Grant)>,
    /// Operations that are over and speak for nothing else, on pods that are not Ready: their reservations stay, or go to what the pods want
    /// ([`Self::transfers`]).
    pub(crate) not_ready_after_end: Vec<Failure<'a>>,
    /// Pods with containers that the kubelet is still to replace, though their operation has ended.
    pub(crate) late: BTreeSet<&'a str>,
    /// Pods whose operation was cancelled, or refused for a moment, and is over: they go first.
    pub(crate) retry_first: BTreeSet<&'a str>,
    /// When such a reservation gets too old for that.
    pub(crate) wake_at: Option<Timestamp>,
}

impl Ended<'_> {
    /// Whether an operation of this workload was judged bad on the way to its target.
    pub(crate) fn is_halted(&self, workload: usize) -> bool {
        self.halting().any(|failure| failure.workload == Some(workload))
    }

    /// Those that speak against more than their own pod. What an application says of its pod does not: a pod that has been broken
    /// into would stop the replacement of all others. Nor does a node that does not end what it is to replace.
    pub(crate) fn halting(&self) -> impl Iterator<Item = &Failure<'_>> {
        self.failures.iter().filter(|failure| !failure.result.is_of_pod_only())
    }

    /// Operations that are over and brought their pods' desired operations no further.
    pub(crate) fn over(&self) -> impl Iterator<Item = &Failure<'_>> {
        self.failures.iter().chain(&self.not_ready_after_end)
    }

    /// Whether the pod is being operated, or has its reservation still.
    pub(crate) fn is_taken(&self, uid: &str) -> bool {
        self.busy.contains(uid) && !self.failed_but_serving.contains(uid)
    }
}

/// What has ended, and the changes that follow from that.
#[derive(Default)]
pub(crate) struct Endings<'a> {
    pub(crate) ended: Ended<'a>,
    pub(crate) changes: Vec<Change<'a>>,
}

/// An operation that an agent was ordered to do.
#[derive(Clone, Copy)]
struct Granted<'a> {
    node: &'a str,
    grant: &'a Grant,
}

impl<'a> Granted<'a> {
    fn remove(self) -> Change<'a> {
        Change::RemoveGrant { node: self.node, grant: self.grant }
    }

    /// Frees its reservation.
    fn release(self) -> Change<'a> {
        let Grant { pod, .. } = self.grant;
        Change::Release { namespace: &pod.namespace, pod_uid: &pod.uid, operation: OperationKey::granted(self.grant) }
    }

    fn read(self) -> Read {
        Read { operation: OperationKey::granted(self.grant), pod: self.grant.pod.clone() }
    }
}

/// Which operations have ended, and what follows.
pub(crate) fn derive<'a>(
    desired: &DesiredState<'a>,
    beside: &Beside<'a>,
    snapshot: &'a Snapshot,
    now: Timestamp,
) -> Endings<'a> {
    let mut endings = Endings::default();
    for (node, view) in &snapshot.node_transitions {
        for grant in &view.spec.grants {
            let (granted, transition) = (Granted { node, grant }, view.transition(grant));
            match transition.and_then(|transition| Some((transition, transition.result.as_ref()?))) {
                None => running(granted, desired, snapshot, now, &mut endings),
                Some((transition, result)) => {
                    let is_away = beside.is_away(grant, desired);
                    let workload = desired.workload_of_target(grant);
                    let chance = Chance::of(workload, grant, desired);
                    let failure = Failure {
                        grant,
                        result,
                        message: &transition.message,
                        since: transition.since.0,
                        workload,
                        outside: (is_away || grant.stands.is_some()) && chance != Chance::Had,
                    };
                    // What was away is there again, and that it is tried once more is written down.
                    let has_passed = failure.outside && !is_away && chance == Chance::Taken;
                    let pod = desired.pods.get(grant.pod.uid.as_str());
                    let is_due = failure.again_at().is_some_and(|at| at <= now);
                    let overruled = has_passed || is_due || pod.is_some_and(|pod| transition.is_overruled(pod));
                    let late = Late::of(&failure, pod, now);
                    over(granted, failure, overruled, late, desired, snapshot, &mut endings);
                }
            }
        }
    }
    orphans::in_namespaces(desired, snapshot, now, &mut endings);
    orphans::in_cluster(snapshot, &mut endings);
    endings
}

/// No result yet.
fn running<'a>(
    granted: Granted<'a>,
    desired: &DesiredState<'a>,
    snapshot: &'a Snapshot,
    now: Timestamp,
    endings: &mut Endings<'a>,
) {
    let Granted { node, grant } = granted;
    let Endings { ended, changes } = endings;
    if snapshot.evidence.get(&OperationKey::granted(grant)) == Some(&Evidence::Gone) {
        changes.extend([granted.remove(), granted.release()]);
        return;
    }
    ended.busy.insert(&grant.pod.uid);
    let Some(pod) = desired.pods.get(grant.pod.uid.as_str()) else {
        ended.reads.push(granted.read());
        return;
    };
    if !grant.cancel.as_ref().is_some_and(Cancel::undoes) && is_given_up(grant, desired, snapshot) {
        let cancel = Cancel { reason: "WishGone".to_owned(), since: MicroTime(now) };
        changes.push(Change::Cancel { node, grant, cancel });
        return;
    }
    changes.extend(without_reservation::take_back(node, grant, pod, snapshot, now));
}

/// Nobody wants it any more. Of a kind that is left alone what is under way ends, but no pod leaves service for good.
pub(crate) fn is_given_up(grant: &Grant, desired: &DesiredState<'_>, snapshot: &Snapshot) -> bool {
    if snapshot.is_of_left(grant) {
        return grant.op == GrantOp::Drain;
    }
    !desired.wants(grant) && !snapshot.is_of_unreadable(grant)
}

/// Whether the kubelet is still to replace the containers of an operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// It was in time, or is waited for no longer.
    No,
    /// It may replace them at any moment, until then.
    Until(Timestamp),
    /// It has replaced them since.
    Replaced,
}

impl Late {
    fn of(failure: &Failure<'_>, pod: Option<&&PodView>, now: Timestamp) -> Self {
        if failure.result.reason != TransitionResult::NOT_REPLACED {
            return Self::No;
        }
        let until = failure.again_at().unwrap_or(now);
        match pod {
            Some(pod) if shows(failure.grant, pod) => Self::Replaced,
            Some(_) | None if now < until => Self::Until(until),
            Some(_) | None => Self::No,
        }
    }
}

/// The agent has reported a result. `overruled`: a refusal that counts no longer.
fn over<'a>(
    granted: Granted<'a>,
    failure: Failure<'a>,
    overruled: bool,
    late: Late,
    desired: &DesiredState<'a>,
    snapshot: &'a Snapshot,
    endings: &mut Endings<'a>,
) {
    let Failure { grant, result, .. } = failure;
    let Endings { ended, changes } = endings;
    if was_transferred(grant, snapshot) {
        changes.push(granted.remove());
        return;
    }
    if matches!(late, Late::Until(_)) {
        ended.late.insert(&grant.pod.uid);
    }
    let pod = desired.pods.get(grant.pod.uid.as_str());
    let evidence = snapshot.evidence.get(&OperationKey::granted(grant));
    if grant.op == GrantOp::Drain && result.outcome == Outcome::Done {
        // It is deleted now, and out of service until it is gone. Where nobody deletes it, its agent puts it back; so does one that was
        // stopped before its report had arrived, and has begun anew.
        let is_back = pod.is_some_and(|pod| pod.gated && pod.ready());
        let is_over = match evidence {
            Some(Evidence::Gone) => true,
            Some(Evidence::Ready) => is_back,
            Some(Evidence::NotReady) | None => false,
        };
        if is_over || snapshot.is_of_left(grant) {
            changes.extend([granted.release(), granted.remove()]);
            return;
        }
        ended.busy.insert(&grant.pod.uid);
        ended.reads.extend((pod.is_none() || is_back).then(|| granted.read()));
        return;
    }
    // What is derived from the pod must know of it, or it would be wanted again.
    let was_ready = result.outcome == Outcome::Done && result.reason != READY_PENDING;
    let proven = match evidence {
        Some(Evidence::Gone) => true,
        // Its old containers are, or were when it was read.
        Some(Evidence::Ready) => match late {
            Late::No => true,
            Late::Until(_) => false,
            Late::Replaced => pod.is_none_or(|pod| pod.ready()),
        },
        // What others have made of the pod, nobody has verified.
        Some(Evidence::NotReady) => was_ready && grant.op != GrantOp::Foreign,
        None => was_ready && pod.is_some_and(|pod| shows(grant, pod)),
    };
    let still_speaks = desired.is_desired(grant) || is_halting(&failure, desired) || snapshot.is_of_unreadable(grant);
    let lasting = result.is_lasting() && grant.cancel.is_none() && still_speaks && !overruled;
    // The same operation too, where it may be tried again: the pod may need it to become Ready.
    let may_repeat = result.outcome != Outcome::Done || grant.op == GrantOp::Foreign;
    let tried_again = !lasting && may_repeat && desired.is_desired(grant);
    let may_be_transferred = tried_again || desired.wants_another(grant);
    if proven {
        changes.push(granted.release());
        if !lasting {
            changes.push(granted.remove());
        }
        if result.outcome != Outcome::Done {
            ended.retry_first.insert(&grant.pod.uid);
        }
    } else if let Late::Until(at) = late
        && evidence == Some(&Evidence::Ready)
    {
        ended.wake_at = ended.wake_at.into_iter().chain([at]).min();
    } else if pod.is_none_or(|pod| (was_ready && evidence.is_none()) || pod.ready())
        || (evidence.is_none() && may_be_transferred)
    {
        // The cache may be behind or ahead: ask.
        ended.reads.push(granted.read());
    }
    let is_down = match late {
        Late::No => evidence == Some(&Evidence::NotReady) && pod.is_some_and(|pod| !pod.ready()),
        // Somebody wants something else of it, which ends what the kubelet is still to do.
        Late::Until(_) => evidence.is_some(),
        Late::Replaced => evidence.is_some() && pod.is_some_and(|pod| !pod.ready()),
    };
    let is_transferred = !proven && is_down && may_be_transferred;
    if is_transferred {
        ended.transfers.insert(&grant.pod.uid, (granted.node, grant));
    } else if !proven || lasting {
        ended.busy.insert(&grant.pod.uid);
    }
    if lasting {
        ended.wake_at = ended.wake_at.into_iter().chain(failure.again_at()).min();
        if proven {
            ended.failed_but_serving.insert(&failure.grant.pod.uid);
        }
        ended.failures.push(failure);
    } else if !proven
        && pod.is_some_and(|pod| !pod.ready() && !pod.terminating)
        && (is_transferred || !may_be_transferred)
    {
        ended.not_ready_after_end.push(failure);
    }
}

/// The ledger has a later reservation of its pod: its own was transferred, and the write that was to remove the grant has not followed.
fn was_transferred(grant: &Grant, snapshot: &Snapshot) -> bool {
    let ledger = snapshot.ledgers.get(&grant.pod.namespace);
    let reservation = ledger.and_then(|ledger| ledger.spec.reservations.get(&grant.pod.uid));
    reservation.is_some_and(|reservation| reservation.since > grant.granted)
}

/// Whether it stands for the target of a rollout that is still going on, even if the pod itself is gone.
fn is_halting(failure: &Failure<'_>, desired: &DesiredState<'_>) -> bool {
    let rolling = |index: usize| matches!(desired.plans[index].stage, Stage::Rolling | Stage::Finishing);
    failure.result.outcome != Outcome::Refused && failure.workload.is_some_and(rolling)
}

/// Whether the pod shows what the grant was to write and other containers than before, so that what is derived from it is up to
/// date: a restart names the digest that runs, and the pod may be seen with the new spec and the old status.
fn shows(grant: &Grant, pod: &PodView) -> bool {
    // The operators may be seen as they were before they finished.
    if grant.op == GrantOp::Foreign {
        return pod.ready() && !lifecycle::is_operating(&pod.labels);
    }
    // One that had crashed was started once more before the patch, and was to end by it, too.
    let to_end = pod.containers_to_end();
    let is_replaced = |(name, before): (&String, &String)| {
        let status = pod.container(name).and_then(|container| container.status.as_ref());
        status.is_some_and(|status| {
            status.container_id != *before && to_end.get(name).is_none_or(|to_end| *to_end != status.container_id)
        })
    };
    grant.before.iter().all(is_replaced)
        && [annotations::REVISION, annotations::RESTARTED]
            .iter()
            .filter_map(|name| Some((name, grant.annotations.get(*name)?)))
            .all(|(name, change)| pod.annotations.get(*name) == change.to.as_ref())
}
