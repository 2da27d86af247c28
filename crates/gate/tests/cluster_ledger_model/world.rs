//! The state: what the API server stores, what the pods are, and what each leader knows and is about to write.

use hitless_api::{Reservation, TransitionLedgerSpec};

use crate::objects::{Attempt, View, leader, reservation, uid};

pub(crate) const PODS: usize = 2;
pub(crate) const LEADERS: usize = 2;
/// One for each namespace, and that of the whole cluster.
pub(crate) const LEDGERS: usize = 3;
pub(crate) const CLUSTER: usize = 2;
/// Index of each pod's namespace, and of its ledger.
pub(crate) const NAMESPACE_OF: [usize; PODS] = [0, 1];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pod {
    pub(crate) updated: bool,
    pub(crate) down: bool,
}

/// What a fence is for: the leader's epoch and the places that are to be freed behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fence {
    pub(crate) epoch: i64,
    pub(crate) places: [Option<Attempt>; PODS],
}

/// NodeTransition of the pod's node; each pod has a node of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) epoch: i64,
    /// `granted` of its grant.
    pub(crate) granted: Option<Attempt>,
    pub(crate) result: bool,
    pub(crate) fence: Option<Fence>,
}

impl Node {
    pub(crate) fn is_running(self) -> bool {
        self.granted.is_some() && !self.result
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ledger {
    pub(crate) epoch: i64,
    pub(crate) fence: Option<Fence>,
    /// `since` of each reservation.
    pub(crate) reserved: [Option<Attempt>; PODS],
}

/// The writes of a round that are still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Plan {
    pub(crate) ledgers: [Option<Ledger>; LEDGERS],
    /// Namespaces whose ledger relies on the write of the cluster's.
    pub(crate) wide: [bool; CLUSTER],
    pub(crate) nodes: [Option<View<Node>>; PODS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Leader {
    /// 0 once it knows that it was deposed.
    pub(crate) epoch: i64,
    pub(crate) views: [View<Ledger>; LEDGERS],
    pub(crate) plan: Plan,
}

impl Leader {
    /// A process that knows only what is stored now. One that lists the ledgers one after the other sees no more than one that
    /// lists them at once and then looks again at some.
    pub(crate) fn new(epoch: i64, ledgers: [Ledger; LEDGERS]) -> Self {
        let deposed = ledgers.iter().any(|ledger| hitless_gate::refuse_if_deposed(&(*ledger).into(), epoch).is_err());
        let views = ledgers.map(|seen| View { seen, current: true });
        if deposed { Self::DEPOSED } else { Self { epoch, views, plan: Plan::default() } }
    }

    pub(crate) const DEPOSED: Self = Self {
        epoch: 0,
        views: [View { seen: Ledger::EMPTY, current: false }; LEDGERS],
        plan: Plan { ledgers: [None; LEDGERS], wide: [false; CLUSTER], nodes: [None; PODS] },
    };
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct World {
    pub(crate) pods: [Pod; PODS],
    pub(crate) nodes: [Node; PODS],
    pub(crate) ledgers: [Ledger; LEDGERS],
    pub(crate) leaders: [Leader; LEADERS],
    pub(crate) crashes_left: u8,
    pub(crate) refusals_left: u8,
}

impl World {
    pub(crate) fn new(crashes_left: u8, refusals_left: u8) -> Self {
        Self {
            pods: [Pod { updated: false, down: false }; PODS],
            nodes: [Node { epoch: 0, granted: None, result: false, fence: None }; PODS],
            ledgers: [Ledger::EMPTY; LEDGERS],
            leaders: [1, 2].map(|epoch| Leader::new(epoch, [Ledger::EMPTY; LEDGERS])),
            crashes_left,
            refusals_left,
        }
    }

    /// Stores a NodeTransition: nobody's view of it is current any more.
    pub(crate) fn store_node(&mut self, pod: usize, next: Node) {
        self.nodes[pod] = next;
        for write in self.leaders.iter_mut().filter_map(|leader| leader.plan.nodes[pod].as_mut()) {
            write.current = false;
        }
    }

    /// Stores a ledger: nobody's view of it is current any more.
    pub(crate) fn store_ledger(&mut self, which: usize, next: Ledger) {
        self.ledgers[which] = next;
        for view in self.leaders.iter_mut().map(|leader| &mut leader.views[which]) {
            view.current = false;
        }
    }

    pub(crate) fn at_rest(&self) -> bool {
        self.pods.iter().all(|pod| pod.updated && !pod.down)
            && self.nodes.iter().all(|node| node.granted.is_none())
            && self.ledgers.iter().all(|ledger| ledger.reserved == [None; PODS])
    }

    /// The same world without fences that nothing can match any more, with the smallest attempt numbers and with the pods in
    /// a fixed order, since they and their namespaces differ in nothing but their number.
    pub(crate) fn canonical(mut self) -> Self {
        self.drop_fences();
        for pod in 0..PODS {
            let mut used: u64 = 0;
            self.each_attempt(pod, &mut |attempt| used |= 1 << *attempt);
            self.each_attempt(pod, &mut |attempt| {
                let older = used & ((1 << *attempt) - 1);
                *attempt = older.count_ones().try_into().unwrap_or(Attempt::MAX);
            });
        }
        self.clone().swapped().min(self)
    }

    fn swapped(mut self) -> Self {
        self.pods.reverse();
        self.nodes.reverse();
        self.ledgers[..CLUSTER].reverse();
        for leader in &mut self.leaders {
            leader.views[..CLUSTER].reverse();
            leader.plan.ledgers[..CLUSTER].reverse();
            leader.plan.wide.reverse();
            leader.plan.nodes.reverse();
        }
        let (ledgers, nodes) = self.parts();
        let fences = nodes.into_iter().filter_map(|node| node.fence.as_mut());
        let fences = fences.map(|fence| &mut fence.places).collect::<Vec<_>>();
        for ledger in ledgers {
            ledger.reserved.reverse();
            ledger.fence.iter_mut().for_each(|fence| fence.places.reverse());
        }
        for places in fences {
            places.reverse();
        }
        self
    }

    /// A fence is looked for by somebody who sees the place in a ledger.
    fn drop_fences(&mut self) {
        let (ledgers, nodes) = self.parts();
        let reserved: Vec<[Option<Attempt>; PODS]> = ledgers.iter().map(|ledger| ledger.reserved).collect();
        let fences = ledgers.into_iter().map(|ledger| &mut ledger.fence);
        for slot in fences.chain(nodes.into_iter().map(|node| &mut node.fence)) {
            let seen = |pod: usize, place: Attempt| reserved.iter().any(|reserved| reserved[pod] == Some(place));
            let places = slot.map_or([None; PODS], |fence| fence.places).into_iter().enumerate();
            if !places.into_iter().all(|(pod, place)| place.is_none_or(|place| seen(pod, place))) {
                *slot = None;
            }
        }
    }

    /// All ledgers and NodeTransitions, those that somebody sees or is about to write included.
    fn parts(&mut self) -> (Vec<&mut Ledger>, Vec<&mut Node>) {
        let mut ledgers: Vec<&mut Ledger> = self.ledgers.iter_mut().collect();
        let mut nodes: Vec<&mut Node> = self.nodes.iter_mut().collect();
        for leader in &mut self.leaders {
            ledgers.extend(leader.views.iter_mut().map(|view| &mut view.seen));
            ledgers.extend(leader.plan.ledgers.iter_mut().flatten());
            nodes.extend(leader.plan.nodes.iter_mut().flatten().map(|write| &mut write.seen));
        }
        (ledgers, nodes)
    }

    /// A number that nothing in sight has for this pod.
    pub(crate) fn new_attempt(&mut self, pod: usize) -> Attempt {
        let mut next = 0;
        self.each_attempt(pod, &mut |attempt| next = next.max(*attempt + 1));
        next
    }

    fn each_attempt(&mut self, pod: usize, visit: &mut impl FnMut(&mut Attempt)) {
        let mut granted: Vec<&mut Node> = Vec::new();
        granted.push(&mut self.nodes[pod]);
        let mut ledgers: Vec<&mut Ledger> = self.ledgers.iter_mut().collect();
        for leader in &mut self.leaders {
            ledgers.extend(leader.views.iter_mut().map(|view| &mut view.seen));
            ledgers.extend(leader.plan.ledgers.iter_mut().flatten());
            granted.extend(leader.plan.nodes[pod].iter_mut().map(|write| &mut write.seen));
        }
        for ledger in ledgers {
            ledger.reserved[pod].iter_mut().for_each(&mut *visit);
            ledger.fence.iter_mut().filter_map(|fence| fence.places[pod].as_mut()).for_each(&mut *visit);
        }
        for node in granted {
            node.granted.iter_mut().for_each(&mut *visit);
            node.fence.iter_mut().filter_map(|fence| fence.places[pod].as_mut()).for_each(&mut *visit);
        }
    }
}

impl Ledger {
    pub(crate) const EMPTY: Self = Self { epoch: 0, fence: None, reserved: [None; PODS] };

    /// The ledger that the crate's functions have made of this one.
    pub(crate) fn after(self, spec: &TransitionLedgerSpec) -> Self {
        let since = |place: &Reservation| place.since.0.as_second().try_into().unwrap();
        Self {
            epoch: spec.leader.epoch,
            fence: spec.fence.as_ref().and(self.fence),
            reserved: std::array::from_fn(|pod| spec.reservations.get(&uid(pod)).map(since)),
        }
    }
}

impl From<Ledger> for TransitionLedgerSpec {
    fn from(ledger: Ledger) -> Self {
        let reserved = ledger.reserved.iter().enumerate();
        Self {
            leader: leader(ledger.epoch),
            fence: ledger.fence.map(|_| "state".to_owned()),
            reservations: reserved
                .filter_map(|(pod, attempt)| Some((uid(pod), reservation(&uid(pod), (*attempt)?, false))))
                .collect(),
        }
    }
}
