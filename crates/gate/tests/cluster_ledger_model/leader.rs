//! What a leader does: the controller's rounds and the order of their writes, around the gate's own functions.

use hitless_api::names;
use hitless_gate::Budget;

use crate::draft::Draft;
use crate::gate::{Gate, Question, facts};
use crate::objects::View;
use crate::world::{CLUSTER, Fence, LEDGERS, Leader, NAMESPACE_OF, Node, PODS, Plan, Pod, World};

/// Which protections are on.
#[derive(Clone, Copy)]
pub(crate) struct Protections {
    /// Writes of the cluster's ledger carry the resourceVersion.
    pub(crate) cluster_cas: bool,
    /// Writes of a namespace's ledger carry the resourceVersion.
    pub(crate) namespace_cas: bool,
    /// A namespace's ledger is written only once the cluster's was, and a NodeTransition only once the namespace's was.
    pub(crate) in_order: bool,
    /// A namespace's ledger is rewritten before a place is freed that only the cluster's has.
    pub(crate) fence_before_free: bool,
    /// A lost grant is written after all only if the place is in the cluster's ledger too.
    pub(crate) regrant_with_both: bool,
}

impl Protections {
    pub(crate) const ALL: Self = Self {
        cluster_cas: true,
        namespace_cas: true,
        in_order: true,
        fence_before_free: true,
        regrant_with_both: true,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It is killed and starts again with empty hands.
    Crash,
    /// Its cache of this ledger catches up.
    See(usize),
    /// It decides everything anew.
    Round(Look),
    /// A write of the last round arrives.
    WriteLedger(usize),
    WriteNode(usize),
}

/// How the world looks to a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    /// Which pods and nodes are still shown as before everything began.
    pub(crate) untouched: [bool; PODS],
    /// Which pod goes first.
    pub(crate) urgent: usize,
    /// Whether places without a grant are too old to be granted after all.
    pub(crate) late: bool,
}

pub(crate) struct Controller {
    pub(crate) protections: Protections,
    gate: Gate<PODS>,
}

impl Controller {
    pub(crate) fn new(protections: Protections) -> Self {
        let spec = serde_json::from_value(serde_json::json!({
            "selector": {"matchLabels": {"app": "web"}}, "scope": "Cluster", "maxUnavailable": 1,
        }));
        let (name, namespace) = ("one".into(), names::system_namespace().into());
        let budgets = vec![Budget { uid: "one".into(), name, namespace, spec: spec.unwrap(), unreadable: None }];
        let pods = std::array::from_fn(|pod| facts(pod, format!("namespace-{}", NAMESPACE_OF[pod]), None));
        Self { protections, gate: Gate::new(pods, Vec::new(), budgets) }
    }

    /// One step of leader `who`; `None` if it can't be taken now.
    pub(crate) fn step(&self, world: &mut World, who: usize, step: Step) -> Option<()> {
        let me = world.leaders[who];
        let idle = me.plan.ledgers == [None; LEDGERS] && me.plan.nodes == [None; PODS];
        match step {
            _ if me.epoch == 0 => return None,
            Step::See(which) if idle => {
                let deposed = hitless_gate::refuse_if_deposed(&world.ledgers[which].into(), me.epoch).is_err();
                let me = &mut world.leaders[who];
                me.views[which] = View { seen: world.ledgers[which], current: true };
                if deposed {
                    *me = Leader::DEPOSED;
                }
            }
            Step::Crash => {
                world.crashes_left = world.crashes_left.checked_sub(1)?;
                world.leaders[who] = Leader::new(me.epoch, world.ledgers);
            }
            Step::Round(look) if idle => {
                let next = self.round(world, &me, look)?;
                world.leaders[who] = next;
            }
            Step::WriteLedger(which) => self.write_ledger(world, who, which)?,
            Step::WriteNode(pod) => self.write_node(world, who, pod)?,
            Step::See(_) | Step::Round(_) => return None,
        }
        Some(())
    }

    /// A compare-and-swap on a ledger; on a conflict what relies on it is dropped.
    fn write_ledger(&self, world: &mut World, who: usize, which: usize) -> Option<()> {
        let me = world.leaders[who];
        let next = me.plan.ledgers[which]?;
        let relies = which != CLUSTER && me.plan.wide[which] && me.plan.ledgers[CLUSTER].is_some();
        if relies && self.protections.in_order {
            return None;
        }
        let cas = if which == CLUSTER { self.protections.cluster_cas } else { self.protections.namespace_cas };
        let stored = me.views[which].current || !cas;
        world.leaders[who].plan.ledgers[which] = None;
        if stored {
            world.store_ledger(which, next);
            world.leaders[who].views[which] = View { seen: next, current: true };
        }
        tidy(&mut world.leaders[who]);
        Some(())
    }

    /// Writes that will only meet a conflict, with what relies on them, change nothing but the number of states.
    pub(crate) fn drop_doomed(&self, world: &mut World) {
        for me in &mut world.leaders {
            for which in [CLUSTER, 0, 1] {
                let cas = if which == CLUSTER { self.protections.cluster_cas } else { self.protections.namespace_cas };
                if me.plan.ledgers[which].is_some() && !me.views[which].current && cas {
                    me.plan.ledgers[which] = None;
                    self.drop_reliant(me, which);
                }
            }
            for write in &mut me.plan.nodes {
                *write = write.filter(|write| write.current);
            }
            tidy(me);
        }
    }

    fn drop_reliant(&self, me: &mut Leader, which: usize) {
        for (pod, namespace) in NAMESPACE_OF.into_iter().enumerate() {
            let relies = which == namespace || which == CLUSTER && me.plan.wide[namespace];
            if relies && self.protections.in_order {
                me.plan.ledgers[namespace] = None;
                me.plan.nodes[pod] = None;
            }
        }
    }

    fn write_node(&self, world: &mut World, who: usize, pod: usize) -> Option<()> {
        let me = world.leaders[who];
        let write = me.plan.nodes[pod]?;
        if me.plan.ledgers[NAMESPACE_OF[pod]].is_some() && self.protections.in_order {
            return None;
        }
        world.leaders[who].plan.nodes[pod] = None;
        tidy(&mut world.leaders[who]);
        if write.current {
            world.store_node(pod, write.seen);
        }
        Some(())
    }

    fn round(&self, world: &mut World, me: &Leader, look: Look) -> Option<Leader> {
        let views = me.views.map(|view| view.seen);
        let seen: [(Pod, Node); PODS] = std::array::from_fn(|pod| {
            let old = Node { epoch: 0, granted: None, result: false, fence: None };
            let now = (world.pods[pod], world.nodes[pod]);
            if look.untouched[pod] { (Pod { updated: false, down: false }, old) } else { now }
        });
        if seen.iter().any(|(_, node)| node.epoch > me.epoch) {
            return Some(Leader::DEPOSED);
        }
        let taken = views.map(|ledger| Some(ledger.after(&hitless_gate::take_over(&ledger.into(), me.epoch, "")?)));
        if taken.iter().any(Option::is_some) {
            return Some(Leader { plan: Plan { ledgers: taken, ..Plan::default() }, ..*me });
        }
        let (nodes, busy) = (seen.map(|(_, node)| node), [false; PODS]);
        let mut draft = Draft {
            epoch: me.epoch,
            seen,
            views,
            ledgers: views,
            fence: [None; CLUSTER],
            wide: [false; CLUSTER],
            nodes,
            busy,
        };
        grants(&mut draft, world);
        let regrant = self.orphans(&mut draft, look.late);
        self.cluster_orphans(&mut draft);
        for pod in (0..PODS).filter(|&pod| regrant[pod] && !draft.busy[pod]) {
            draft.nodes[pod] = Node { granted: draft.views[NAMESPACE_OF[pod]].reserved[pod], ..draft.nodes[pod] };
        }
        let is_held = |pod: usize| {
            draft.ledgers.iter().any(|ledger| ledger.reserved[pod].is_some()) || draft.seen[pod].1.is_running()
        };
        let desired = |pod: usize| !draft.busy[pod] && !regrant[pod] && !draft.seen[pod].0.updated;
        let allowed = self.gate.answer(Question {
            down: draft.seen.map(|(state, _)| state.down),
            held: std::array::from_fn(is_held),
            wanting: std::array::from_fn(desired),
            urgent: look.urgent,
        });
        for (pod, allowed) in allowed.into_iter().enumerate() {
            let attempt = world.new_attempt(pod);
            if allowed.is_some() && draft.reserve(pod, attempt).is_some() {
                draft.nodes[pod] = Node { granted: Some(attempt), result: false, ..draft.nodes[pod] };
            }
        }
        let plan = draft.plan(world);
        (plan.ledgers != [None; LEDGERS] || plan.nodes != [None; PODS]).then_some(Leader { plan, ..*me })
    }

    /// Places without a grant. Returns the pods that get it after all.
    fn orphans(&self, draft: &mut Draft, late: bool) -> [bool; PODS] {
        let mut regrant = [false; PODS];
        for (pod, namespace) in NAMESPACE_OF.into_iter().enumerate() {
            let place = draft.views[namespace].reserved[pod];
            let (state, node) = draft.seen[pod];
            if place.is_none() || node.granted.is_some() {
                draft.busy[pod] |= place.is_some();
                continue;
            }
            let in_both = draft.views[CLUSTER].reserved[pod] == place || !self.protections.regrant_with_both;
            if !state.updated && !late {
                regrant[pod] = in_both;
                draft.busy[pod] |= !in_both;
                continue;
            }
            draft.busy[pod] = true;
            let fence = Some(fence(draft.epoch, |other| (other == pod).then_some(place)?));
            if node.fence == fence {
                draft.release(pod);
                draft.busy[pod] = false;
            } else {
                draft.nodes[pod].fence = fence;
            }
        }
        regrant
    }

    /// Places in the cluster's ledger that the namespace's does not have.
    fn cluster_orphans(&self, draft: &mut Draft) {
        for namespace in 0..CLUSTER {
            let orphan = |pod: usize| {
                let place = draft.views[CLUSTER].reserved[pod].filter(|_| NAMESPACE_OF[pod] == namespace);
                let own = draft.views[namespace].reserved[pod];
                place.filter(|_| own != place)
            };
            let orphans: [Option<u8>; PODS] = std::array::from_fn(orphan);
            for pod in (0..PODS).filter(|&pod| orphans[pod].is_some()) {
                draft.busy[pod] = true;
            }
            let free = |pod: usize| orphans[pod].filter(|_| draft.seen[pod].1.granted.is_none());
            let wanted = fence(draft.epoch, free);
            if wanted.places == [None; PODS] {
                continue;
            }
            if draft.views[namespace].fence != Some(wanted) && self.protections.fence_before_free {
                draft.fence[namespace] = Some(wanted);
                continue;
            }
            for pod in (0..PODS).filter(|&pod| wanted.places[pod].is_some()) {
                draft.release_in(CLUSTER, pod);
                draft.busy[pod] = false;
            }
        }
    }
}

/// What the nodes' grants say: those that have ended on evidence, a fresh read of the pod, are taken away.
fn grants(draft: &mut Draft, world: &World) {
    for (pod, namespace) in NAMESPACE_OF.into_iter().enumerate() {
        let node = draft.seen[pod].1;
        let ended = node.granted.is_some() && node.result && !world.pods[pod].down;
        draft.busy[pod] = node.granted.is_some() && !ended;
        if ended {
            if draft.ledgers[namespace].reserved[pod] == node.granted {
                draft.release(pod);
            }
            draft.nodes[pod] = Node { granted: None, result: false, ..node };
        }
    }
}

fn fence(epoch: i64, place: impl Fn(usize) -> Option<u8>) -> Fence {
    Fence { epoch, places: std::array::from_fn(place) }
}

/// What relied on what counts no more once everything was written.
fn tidy(me: &mut Leader) {
    if me.plan.ledgers == [None; LEDGERS] {
        me.plan.wide = [false; CLUSTER];
    }
}
