//! What a round is about to write.

use hitless_api::TransitionLedgerSpec;

use crate::objects::{View, leader, reservation, uid};
use crate::world::{CLUSTER, Fence, LEDGERS, Ledger, NAMESPACE_OF, Node, PODS, Plan, Pod, World};

/// A round while it works.
pub(crate) struct Draft {
    pub(crate) epoch: i64,
    pub(crate) seen: [(Pod, Node); PODS],
    pub(crate) views: [Ledger; LEDGERS],
    pub(crate) ledgers: [Ledger; LEDGERS],
    pub(crate) fence: [Option<Fence>; CLUSTER],
    pub(crate) wide: [bool; CLUSTER],
    pub(crate) nodes: [Node; PODS],
    pub(crate) busy: [bool; PODS],
}

impl Draft {
    pub(crate) fn release_in(&mut self, which: usize, pod: usize) {
        let mut released: TransitionLedgerSpec = self.ledgers[which].into();
        hitless_gate::release(&mut released, [uid(pod)]);
        released.leader = leader(self.epoch);
        self.ledgers[which] = self.ledgers[which].after(&released);
    }

    /// Gives the place back, in the cluster's ledger too if it is the same there.
    pub(crate) fn release(&mut self, pod: usize) {
        let own = self.ledgers[NAMESPACE_OF[pod]].reserved[pod];
        if own.is_some() && self.ledgers[CLUSTER].reserved[pod] == own {
            self.release_in(CLUSTER, pod);
        }
        self.release_in(NAMESPACE_OF[pod], pod);
    }

    pub(crate) fn reserve(&mut self, pod: usize, attempt: u8) -> Option<()> {
        let place = |ledger: Ledger| {
            let batch = vec![(uid(pod), reservation(&uid(pod), attempt, false))];
            let mut next = ledger.into();
            hitless_gate::reserve(&mut next, batch, &leader(self.epoch)).ok()?;
            Some(ledger.after(&next))
        };
        let (cluster, own) = (place(self.ledgers[CLUSTER])?, place(self.ledgers[NAMESPACE_OF[pod]])?);
        self.ledgers[CLUSTER] = cluster;
        self.ledgers[NAMESPACE_OF[pod]] = own;
        self.wide[NAMESPACE_OF[pod]] = true;
        Some(())
    }

    pub(crate) fn plan(&self, world: &World) -> Plan {
        let ledger = |which: usize| {
            let (next, fence) = (self.ledgers[which], self.fence.get(which).copied().flatten());
            let changed = next.reserved != self.views[which].reserved;
            // Reserving takes the fence out again, but it is a write all the same.
            let fence = fence.filter(|_| !self.wide.get(which).is_some_and(|wide| *wide));
            (changed || fence.is_some()).then_some(Ledger { epoch: self.epoch, fence, ..next })
        };
        let node = |pod: usize| {
            let (seen, next) = (self.seen[pod].1, self.nodes[pod]);
            let write = View { seen: Node { epoch: self.epoch, ..next }, current: seen == world.nodes[pod] };
            (next != seen).then_some(write)
        };
        Plan { ledgers: std::array::from_fn(ledger), wide: self.wide, nodes: std::array::from_fn(node) }
    }
}
