//! What a leader does: the controller's order of reads and writes around the gate's own functions.

use hitless_api::GroupKind;
use hitless_gate::{ObjectRef, RuleSet};

use crate::gate::{Gate, Question, facts};
use crate::objects::{View, leader, uid};
use crate::world::{Leader, Ledger, Node, PODS, Place, Pod, World};

/// Which protections are on.
#[derive(Clone, Copy)]
pub(crate) struct Protections {
    /// Ledger writes carry the resourceVersion.
    pub(crate) ledger_cas: bool,
    /// A NodeTransition is rewritten before a reservation without a grant is freed.
    pub(crate) fence_before_free: bool,
    /// A leader does not write a NodeTransition with a later epoch than its own.
    pub(crate) node_epoch: bool,
    /// A reservation ends only when a fresh read shows that the pod is ready, also if there is no grant (any more).
    pub(crate) ready_before_release: bool,
    /// A result is that of the reserved attempt only if the grant's `granted` is the reservation's `since`.
    pub(crate) same_attempt: bool,
    /// A pod that is unavailable in the cache, and so costs nothing, is granted as such: its agent refuses if it is available.
    pub(crate) agent_refuses_available: bool,
}

impl Protections {
    pub(crate) const ALL: Self = Self {
        ledger_cas: true,
        fence_before_free: true,
        node_epoch: true,
        ready_before_release: true,
        same_attempt: true,
        agent_refuses_available: true,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It is killed and starts again with empty hands.
    Crash,
    SeeLedger,
    TakeOver,
    /// Release what has ended and reserve what may go, in one ledger write; this pod has the highest priority.
    Round(usize, [Sight; PODS]),
    WriteGrant(usize),
    /// A reservation without a grant: the grant is written after all, ...
    Regrant(usize),
    /// ... or the node is rewritten ...
    Fence(usize),
    /// ... and then the reservation freed.
    Free(usize),
    RemoveGrant(usize),
}

/// How a leader's caches show a pod and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sight {
    /// As they are.
    Now,
    /// As before everything began.
    Untouched,
    /// As while the pod was out of service, before its node's cache showed a grant.
    Down,
    /// With the result of an attempt that was refused.
    Refused,
}

impl Sight {
    pub(crate) const OLD: [Self; 3] = [Self::Untouched, Self::Down, Self::Refused];

    /// Whether it differs from now, and ever was so.
    pub(crate) fn is_possible(self, world: &World, pod: usize) -> bool {
        let (state, node) = (world.pods[pod], world.nodes[pod]);
        match self {
            Self::Now => true,
            Self::Untouched => state.updated || state.down || node.granted.is_some(),
            Self::Down => state.was_down,
            Self::Refused => state.was_refused,
        }
    }
}

pub(crate) struct Controller {
    pub(crate) max_unavailable: u32,
    pub(crate) protections: Protections,
    gate: Gate<PODS>,
}

impl Controller {
    pub(crate) fn new(max_unavailable: u32, protections: Protections) -> Self {
        let spec = serde_json::from_value(serde_json::json!({
            "selector": {"matchLabels": {"app": "web"}},
            "rules": [{"name": "max", "availablePolicy": {"maxUnavailableValue": max_unavailable}}],
        }))
        .unwrap();
        let rule_sets = vec![RuleSet { name: "web".into(), namespace: "default".into(), spec, unreadable: None }];
        let pods = std::array::from_fn(|pod| facts(pod, "default".into(), Some(owner())));
        Self { max_unavailable, protections, gate: Gate::new(pods, rule_sets, Vec::new()) }
    }

    /// One step of leader `who`; `None` if it can't be taken now.
    pub(crate) fn step(&self, world: &mut World, who: usize, step: Step) -> Option<()> {
        let me = world.leaders[who];
        match step {
            _ if me.epoch == 0 => return None,
            Step::Crash => {
                world.crashes_left = world.crashes_left.checked_sub(1)?;
                world.leaders[who] = Leader { epoch: me.epoch, ..Leader::IDLE };
            }
            Step::SeeLedger => {
                let deposed = hitless_gate::refuse_if_deposed(&world.ledger.into(), me.epoch).is_err();
                let ledger = Some(View { seen: world.ledger, current: true });
                world.leaders[who] = if deposed { Leader::IDLE } else { Leader { ledger, ..me } };
            }
            Step::TakeOver => {
                let spec = hitless_gate::take_over(&me.ledger?.seen.into(), me.epoch, &leader(me.epoch).holder)?;
                self.write_ledger(world, who, spec.into());
            }
            Step::WriteGrant(pod) => {
                let grant = me.pending[pod]?;
                world.leaders[who].pending[pod] = None;
                let next = Node { epoch: me.epoch, granted: Some(grant.seen), result: false };
                if grant.current {
                    self.write_node(world, who, pod, next);
                }
            }
            Step::Round(..) | Step::Regrant(_) | Step::Fence(_) | Step::Free(_) | Step::RemoveGrant(_) => {
                let ledger = me.ledger?.seen;
                if hitless_gate::take_over(&ledger.into(), me.epoch, "").is_some() {
                    return None;
                }
                self.decide(world, who, step, ledger)?;
            }
        }
        Some(())
    }

    fn decide(&self, world: &mut World, who: usize, step: Step, ledger: Ledger) -> Option<()> {
        let me = world.leaders[who];
        let reserved = |pod: usize| ledger.reserved[pod].is_some();
        let orphan = |pod: usize| reserved(pod) && world.nodes[pod].granted.is_none();
        let ready = |pod: usize| !world.pods[pod].down || !self.protections.ready_before_release;
        // An old view of a node can't lead to a write of the node, only to one of the ledger.
        let may_free = |pod: usize| me.fenced[pod] || !self.protections.fence_before_free && !me.is_writing();
        match step {
            Step::Free(pod) if reserved(pod) && ready(pod) && may_free(pod) => {
                world.leaders[who].fenced[pod] = false;
                let mut freed = ledger.into();
                hitless_gate::release(&mut freed, [uid(pod)]);
                self.write_ledger(world, who, freed.into());
            }
            _ if me.is_writing() => return None,
            Step::Round(urgent, sight) => self.round(world, who, ledger, urgent, sight)?,
            Step::Regrant(pod) if orphan(pod) && !world.pods[pod].updated => {
                world.leaders[who].pending[pod] = Some(View { seen: ledger.reserved[pod]?, current: true });
            }
            Step::Fence(pod) if orphan(pod) => {
                let next = Node { epoch: me.epoch, ..world.nodes[pod] };
                world.leaders[who].fenced[pod] = self.write_node(world, who, pod, next);
            }
            Step::RemoveGrant(pod) if world.nodes[pod].result && ledger.reserved[pod] != world.nodes[pod].granted => {
                self.write_node(world, who, pod, Node { epoch: me.epoch, granted: None, result: false });
            }
            _ => return None,
        }
        Some(())
    }

    fn round(&self, world: &mut World, who: usize, ledger: Ledger, urgent: usize, sight: [Sight; PODS]) -> Option<()> {
        let mut seen: [(Pod, Node); PODS] = std::array::from_fn(|pod| (world.pods[pod], world.nodes[pod]));
        for (pod, (state, node)) in seen.iter_mut().enumerate() {
            let untouched = Node { granted: None, result: false, ..*node };
            match sight[pod] {
                Sight::Now => {}
                Sight::Untouched => (*state, *node) = (Pod { updated: false, down: false, ..*state }, untouched),
                // An updated pod is not taken out of service anyway.
                Sight::Down if world.mistakes_left == 0 || state.updated => *node = untouched,
                Sight::Down => (*state, *node) = (Pod { updated: false, down: true, ..*state }, untouched),
                Sight::Refused => *node = Node { granted: None, result: true, ..*node },
            }
        }
        let ended = (0..PODS).filter(|&pod| {
            let Node { granted, result, .. } = seen[pod].1;
            let same = ledger.reserved[pod] == granted || !self.protections.same_attempt;
            let ready = !world.pods[pod].down || !self.protections.ready_before_release;
            ledger.reserved[pod].is_some() && result && same && ready
        });
        let mut next = ledger.into();
        hitless_gate::release(&mut next, ended.map(uid));
        let desired = |pod: usize| {
            let (state, node) = seen[pod];
            !state.updated && node.granted.is_none() && !node.result && !next.reservations.contains_key(&uid(pod))
        };
        let allowed = self.gate.answer(Question {
            down: seen.map(|(state, _)| state.down),
            held: std::array::from_fn(|pod| next.reservations.contains_key(&uid(pod))),
            wanting: std::array::from_fn(desired),
            urgent,
        });
        let place = |pod| Some((pod, Place { while_unavailable: allowed[pod]?, since: world.new_attempt(pod) }));
        let places: Vec<(usize, Place)> = (0..PODS).filter_map(place).collect();
        let is_mistake = |(pod, place): &(usize, Place)| place.while_unavailable && !world.pods[*pod].down;
        let mistakes = places.iter().filter(|place| is_mistake(place)).count().try_into().ok()?;
        world.mistakes_left = world.mistakes_left.checked_sub(mistakes)?;
        let batch = places.iter().map(|&(pod, place)| (uid(pod), place.reservation(pod))).collect();
        let epoch = world.leaders[who].epoch;
        hitless_gate::reserve(&mut next, batch, &leader(epoch)).ok()?;
        let next = Ledger::from(next);
        if next.reserved == ledger.reserved {
            return None;
        }
        if self.write_ledger(world, who, next) {
            for (pod, place) in places {
                let current = seen[pod].1 == world.nodes[pod];
                world.leaders[who].pending[pod] = Some(View { seen: place, current });
            }
        }
        Some(())
    }

    /// A compare-and-swap on the ledger; the writer learns the result, on a conflict only that there was one.
    fn write_ledger(&self, world: &mut World, who: usize, next: Ledger) -> bool {
        let stored = world.leaders[who].ledger.is_some_and(|view| view.current) || !self.protections.ledger_cas;
        if stored {
            world.store_ledger(next);
        }
        world.leaders[who].ledger = stored.then_some(View { seen: next, current: true });
        stored
    }

    /// A write of a NodeTransition whose version is the current one.
    fn write_node(&self, world: &mut World, who: usize, pod: usize, next: Node) -> bool {
        let deposed = world.nodes[pod].epoch > next.epoch && self.protections.node_epoch;
        if deposed {
            world.leaders[who] = Leader::IDLE;
        } else {
            world.store_node(pod, next);
        }
        !deposed
    }
}

fn owner() -> ObjectRef {
    ObjectRef {
        group_kind: GroupKind::new("apps", "Deployment"),
        namespace: "default".into(),
        name: "web".into(),
        uid: "web".into(),
    }
}
