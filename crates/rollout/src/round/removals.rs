//! Pods that serve nobody and are to be deleted. The rules are asked as about every operation, but no agent is: there may be none that
//! answers. What they allow stands in the ledger before the pod is deleted; the plan of its workload finds it there (docs/contract.md#collaset).

use hitless_api::pod::PodView;
use hitless_api::{ObjectRef, Reservation};
use hitless_gate::{Candidate, Verdict};
use hitless_workloads::{PodIntent, Removal};

use crate::round::decided::Decided;
use crate::round::draft::Draft;
use crate::round::facts::Facts;
use crate::round::facts::wishes::Wish;
use crate::round::reserve::reservation_of;
use crate::round::wait_reason::WaitReason;

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
    /// The pod of the wish, if nothing but the rules is in the way.
    pub(crate) fn removable(
        &self,
        wish: &Wish<'a>,
        removal: Removal,
        draft: &Draft<'a>,
    ) -> Result<Removable<'a>, WaitReason> {
        if let Some(waiting) = self.in_the_way(wish, draft).next() {
            return Err(waiting);
        }
        if wish.workload.is_some_and(|index| self.wishes.plans[index].prefetch_only) {
            return Err(WaitReason::PrefetchOnly);
        }
        let intent = wish.intent.clone().map_err(WaitReason::Obstacle)?;
        let owner = self.wishes.owner(wish.pod);
        // Before the rules are asked: what they allow takes room from the others in this round, and this one would not go.
        if lacks_room(wish.pod, owner, removal, draft) {
            return Err(WaitReason::MadeAnew);
        }
        Ok(Removable { pod: wish.pod, intent, owner, removal })
    }

    /// Reserves the removal, if the rules allow it and there is room. Once that is written the pod is deleted.
    pub(crate) fn remove(&self, removable: &Removable<'a>, answer: &Verdict, draft: &Draft<'a>) -> Decided<'a> {
        let Removable { pod, intent, owner, removal } = removable;
        if !answer.allowed {
            return Decided::waits(WaitReason::Rules);
        }
        // Others of its workload may have been reserved in this round.
        if lacks_room(pod, *owner, *removal, draft) {
            return Decided::waits(WaitReason::MadeAnew);
        }
        let node = pod.node.as_deref().unwrap_or_default();
        let reservation = |since| Reservation {
            rules: answer.agreed(),
            while_unavailable: answer.rests_on_unavailability(),
            removal: true,
            ..reservation_of(&pod.id, node, *owner, intent, since)
        };
        match self.reserve(&pod.id, reservation, draft) {
            Ok((_, changes)) => Decided { changes, outcome: Err(WaitReason::InProgress) },
            Err(waiting) => Decided::waits(waiting),
        }
    }
}

/// Whether as many pods of its workload are being made anew as may be.
fn lacks_room(pod: &PodView, owner: Option<&ObjectRef>, removal: Removal, draft: &Draft<'_>) -> bool {
    match removal {
        Removal::Anew { room } => reserved(pod, owner, draft) >= room as usize,
        Removal::Surplus => false,
    }
}

/// How many removals of pods of the same workload are reserved.
fn reserved(pod: &PodView, owner: Option<&ObjectRef>, draft: &Draft<'_>) -> usize {
    let owner = owner.map(ObjectRef::label).unwrap_or_default();
    let ledger = draft.ledger(&pod.id.namespace);
    let all = ledger.into_iter().flat_map(|ledger| ledger.reservations.values());
    all.filter(|reservation| reservation.removal && reservation.owner == owner).count()
}
