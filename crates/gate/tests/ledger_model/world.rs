//! The state: what the API server stores, what the pods are, and what each leader knows.
//!
//! A leader's view of the ledger is part of the state. Its views of pods and nodes are not: whenever it decides, it may see any
//! state that they have been in, which is more than real watches allow.

use hitless_api::{Reservation, TransitionLedgerSpec};

use crate::objects::{Attempt, View, leader, reservation, uid};

pub(crate) const PODS: usize = 3;
pub(crate) const LEADERS: usize = 2;

/// A reservation, or the grant that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) since: Attempt,
    pub(crate) while_unavailable: bool,
}

impl Place {
    pub(crate) fn reservation(self, pod: usize) -> Reservation {
        reservation(&uid(pod), self.since, self.while_unavailable)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pod {
    pub(crate) updated: bool,
    pub(crate) down: bool,
    /// It was out of service before: an old cache may still say so.
    pub(crate) was_down: bool,
    /// It was refused before: an old cache may still show the result.
    pub(crate) was_refused: bool,
}

/// NodeTransition of the pod's node; each pod has a node of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) epoch: i64,
    pub(crate) granted: Option<Place>,
    pub(crate) result: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    pub(crate) epoch: i64,
    pub(crate) reserved: [Option<Place>; PODS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    /// 0 while it does not lead.
    pub(crate) epoch: i64,
    pub(crate) ledger: Option<View<Ledger>>,
    /// Grants that go out next, and whether the node is still as it was when they were decided.
    pub(crate) pending: [Option<View<Place>>; PODS],
    /// Nodes that it has rewritten in order to free the reservation.
    pub(crate) fenced: [bool; PODS],
}

impl Leader {
    pub(crate) const IDLE: Self = Self { epoch: 0, ledger: None, pending: [None; PODS], fenced: [false; PODS] };

    /// Whether it is between two writes that belong together.
    pub(crate) fn is_writing(&self) -> bool {
        self.pending.iter().any(Option::is_some) || self.fenced.contains(&true)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) pods: [Pod; PODS],
    pub(crate) nodes: [Node; PODS],
    pub(crate) ledger: Ledger,
    pub(crate) leaders: [Leader; LEADERS],
    pub(crate) crashes_left: u8,
    pub(crate) refusals_left: u8,
    /// How often a pod that is available may still be taken for unavailable.
    pub(crate) mistakes_left: u8,
}

impl World {
    pub(crate) fn new(crashes_left: u8, refusals_left: u8, mistakes_left: u8) -> Self {
        Self {
            pods: [Pod { updated: false, down: false, was_down: false, was_refused: false }; PODS],
            nodes: [Node { epoch: 0, granted: None, result: false }; PODS],
            ledger: Ledger { epoch: 0, reserved: [None; PODS] },
            leaders: [Leader { epoch: 1, ..Leader::IDLE }, Leader::IDLE],
            crashes_left,
            refusals_left,
            mistakes_left,
        }
    }

    /// Stores a NodeTransition: nobody's view of it is current any more.
    pub(crate) fn store_node(&mut self, pod: usize, next: Node) {
        self.nodes[pod] = next;
        for grant in self.leaders.iter_mut().filter_map(|leader| leader.pending[pod].as_mut()) {
            grant.current = false;
        }
    }

    /// Stores the ledger: nobody's view of it is current any more.
    pub(crate) fn store_ledger(&mut self, next: Ledger) {
        self.ledger = next;
        for view in self.leaders.iter_mut().filter_map(|leader| leader.ledger.as_mut()) {
            view.current = false;
        }
    }

    pub(crate) fn at_rest(&self) -> bool {
        self.pods.iter().all(|pod| pod.updated && !pod.down)
            && self.nodes.iter().all(|node| node.granted.is_none())
            && self.ledger.reserved == [None; PODS]
    }

    /// The same world with the pods in a fixed order, since they differ in nothing but their number, and with the smallest
    /// attempt numbers.
    pub(crate) fn canonical(mut self) -> Self {
        for pod in 0..PODS {
            let mut used: u64 = 0;
            self.each_attempt(pod, |attempt| used |= 1 << *attempt);
            self.each_attempt(pod, |attempt| {
                let older = used & ((1 << *attempt) - 1);
                *attempt = older.count_ones().try_into().unwrap_or(Attempt::MAX);
            });
        }
        let mut order: [usize; PODS] = std::array::from_fn(|pod| pod);
        order.sort_by_key(|&pod| {
            let seen = self.leaders.map(|leader| {
                (leader.ledger.map(|view| view.seen.reserved[pod]), leader.pending[pod], leader.fenced[pod])
            });
            (self.pods[pod], self.nodes[pod], self.ledger.reserved[pod], seen)
        });
        if order.is_sorted() {
            return self;
        }
        let arrange = |ledger: Ledger| Ledger { reserved: order.map(|pod| ledger.reserved[pod]), ..ledger };
        Self {
            pods: order.map(|pod| self.pods[pod]),
            nodes: order.map(|pod| self.nodes[pod]),
            ledger: arrange(self.ledger),
            leaders: self.leaders.map(|leader| Leader {
                epoch: leader.epoch,
                ledger: leader.ledger.map(|view| View { seen: arrange(view.seen), ..view }),
                pending: order.map(|pod| leader.pending[pod]),
                fenced: order.map(|pod| leader.fenced[pod]),
            }),
            ..self
        }
    }

    /// A number that nothing in sight has for this pod.
    pub(crate) fn new_attempt(&mut self, pod: usize) -> Attempt {
        let mut next = 0;
        self.each_attempt(pod, |attempt| next = next.max(*attempt + 1));
        next
    }

    fn each_attempt(&mut self, pod: usize, mut visit: impl FnMut(&mut Attempt)) {
        let mut visit = |place: &mut Place| visit(&mut place.since);
        self.ledger.reserved[pod].iter_mut().for_each(&mut visit);
        self.nodes[pod].granted.iter_mut().for_each(&mut visit);
        for leader in &mut self.leaders {
            leader.ledger.iter_mut().filter_map(|view| view.seen.reserved[pod].as_mut()).for_each(&mut visit);
            leader.pending[pod].iter_mut().map(|grant| &mut grant.seen).for_each(&mut visit);
        }
    }
}

impl From<Ledger> for TransitionLedgerSpec {
    fn from(ledger: Ledger) -> Self {
        let reserved = ledger.reserved.iter().enumerate();
        Self {
            leader: leader(ledger.epoch),
            fence: None,
            reservations: reserved.filter_map(|(pod, place)| Some((uid(pod), (*place)?.reservation(pod)))).collect(),
        }
    }
}

impl From<TransitionLedgerSpec> for Ledger {
    fn from(spec: TransitionLedgerSpec) -> Self {
        let place = |pod| {
            let held = spec.reservations.get(&uid(pod))?;
            let since = held.since.0.as_second().try_into().unwrap();
            Some(Place { since, while_unavailable: held.while_unavailable })
        };
        Self { epoch: spec.leader.epoch, reserved: std::array::from_fn(place) }
    }
}
