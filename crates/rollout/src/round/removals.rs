//! Pods that serve nobody and are to be deleted. The rules are asked as about every operation, but no agent is: there may be none that
//! answers. What they allow stands in the ledger before the pod is deleted; the plan of its workload finds it there (docs/contract.md#collaset).

use hitless_api::pod::PodView;
use hitless_api::{ObjectRef, Reservation};
use hitless_gate::{Candidate, Verdict};
use hitless_workloads::{PodIntent, Removal};

use crate::round::decided::Decided;
use crate::round::facts::Facts;
use crate::round::facts::desired::PodOperation;
use crate::round::reserve::reservation_of;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;

/// A pod that nothing but the rules can keep from being deleted.
pub(crate) struct Removable<'a> {
    pub(crate) pod: &'a PodView,
    intent: PodIntent,
    owner: Option<&'a ObjectRef>,
    removal: Removal,
}

impl<'a> Removable<'a> {
    pub(crate) fn candidate(&self, facts: &Facts<'a, '_>) -> Candidate {
        let absence = facts.absence(self.pod, Some(&self.intent.operation.op));
        Candidate { absence, ..Candidate::of(self.pod, self.intent.id()) }
    }
}

impl<'a> Facts<'a, '_> {
    /// The pod of the operation, if nothing but the rules is in the way.
    pub(crate) fn removable(
        &self,
        wanted: &PodOperation<'a>,
        removal: Removal,
        writes: &WritePlan<'a>,
    ) -> Result<Removable<'a>, WaitReason> {
        if let Some(waiting) = self.in_the_way(wanted, writes).next() {
            return Err(waiting);
        }
        if wanted.workload.is_some_and(|index| self.desired.plans[index].prefetch_only) {
            return Err(WaitReason::PrefetchOnly);
        }
        let intent = wanted.intent.clone().map_err(WaitReason::Obstacle)?;
        let owner = self.desired.owner(wanted.pod);
        // Before the rules are asked: what they allow takes room from the others in this round, and this one would not go.
        if lacks_room(wanted.pod, owner, removal, writes) {
            return Err(WaitReason::MadeAnew);
        }
        Ok(Removable { pod: wanted.pod, intent, owner, removal })
    }

    /// Reserves the removal, if the rules allow it and there is room. Once that is written the pod is deleted.
    pub(crate) fn remove(&self, removable: &Removable<'a>, answer: &Verdict, writes: &WritePlan<'a>) -> Decided<'a> {
        let Removable { pod, intent, owner, removal } = removable;
        if !answer.allowed {
            return Decided::waits(WaitReason::Rules);
        }
        // Others of its workload may have been reserved in this round.
        if lacks_room(pod, *owner, *removal, writes) {
            return Decided::waits(WaitReason::MadeAnew);
        }
        let node = pod.node.as_deref().unwrap_or_default();
        let reservation = |since| Reservation {
            rules: answer.agreed(),
            while_unavailable: answer.rests_on_unavailability(),
            removal: true,
            ..reservation_of(&pod.id, node, *owner, intent, since)
        };
        match self.reserve(&pod.id, reservation, writes) {
            Ok((_, changes)) => Decided { changes, outcome: Err(WaitReason::InProgress) },
            Err(waiting) => Decided::waits(waiting),
        }
    }
}

/// Whether as many pods of its workload are being made anew as may be.
fn lacks_room(pod: &PodView, owner: Option<&ObjectRef>, removal: Removal, writes: &WritePlan<'_>) -> bool {
    match removal {
        Removal::Anew { room } => reserved(pod, owner, writes) >= room as usize,
        Removal::Surplus => false,
    }
}

/// How many removals of pods of the same workload are reserved.
fn reserved(pod: &PodView, owner: Option<&ObjectRef>, writes: &WritePlan<'_>) -> usize {
    let owner = owner.map(ObjectRef::label).unwrap_or_default();
    let ledger = writes.ledger(&pod.id.namespace);
    let all = ledger.into_iter().flat_map(|ledger| ledger.reservations.values());
    all.filter(|reservation| reservation.removal && reservation.owner == owner).count()
}
