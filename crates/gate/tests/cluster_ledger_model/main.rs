//! Model check of the ledger of the whole cluster: pods in two namespaces, a ledger each, under one budget of one; two leaders with
//! views of any age of every ledger, killed between any two writes.
//!
//! As in `ledger_model`, deciding and the ledgers' arithmetic are the crate's own functions, and each protection is taken away in
//! turn, upon which the checker has to find two pods gone.

#![allow(clippy::unwrap_used, clippy::struct_excessive_bools, reason = "a test; protections are switches")]

mod draft;
#[path = "../model/gate.rs"]
mod gate;
mod leader;
#[path = "../model/liveness.rs"]
mod liveness;
#[path = "../model/objects.rs"]
mod objects;
mod world;

use leader::{Controller, Look, Protections, Step};
use stateright::{Checker, HasDiscoveries, Model, Property};
use world::{CLUSTER, LEADERS, LEDGERS, Node, PODS, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    /// The second leader has the later epoch; when it begins, and whether the first one notices, is open.
    Lead(usize, Step),
    /// The agent takes the pod out of service.
    Begin(usize),
    /// The agent reports that the pod has the new image.
    Done(usize),
    /// The agent reports that it has not: refused, or rolled back.
    Refused(usize),
    /// The pod is ready again.
    Ready(usize),
}

struct Rollout {
    controller: Controller,
    crashes: u8,
    refusals: u8,
}

impl Model for Rollout {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.crashes, self.refusals)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        // What can't be done or changes nothing is sorted out by next_state.
        let looks = looks(world);
        for who in 0..LEADERS {
            let steps = (0..LEDGERS).flat_map(|which| [Step::See(which), Step::WriteLedger(which)]);
            let steps = steps.chain((0..PODS).map(Step::WriteNode)).chain([Step::Crash]);
            let steps = steps.chain(looks.iter().map(|look| Step::Round(*look)));
            actions.extend(steps.map(|step| Act::Lead(who, step)));
        }
        for pod in 0..PODS {
            actions.extend([Act::Begin(pod), Act::Done(pod), Act::Refused(pod), Act::Ready(pod)]);
        }
    }

    fn next_state(&self, last: &World, action: Act) -> Option<World> {
        let mut world = last.clone();
        match action {
            Act::Lead(who, step) => self.controller.step(&mut world, who, step)?,
            Act::Begin(pod) | Act::Done(pod) | Act::Refused(pod) | Act::Ready(pod) => {
                operate(&mut world, pod, action)?;
            }
        }
        self.controller.drop_doomed(&mut world);
        let world = world.canonical();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BUDGET, |_, world: &World| {
                let gone = |pod: &usize| world.pods[*pod].down || world.nodes[*pod].is_running();
                (0..PODS).filter(gone).count() <= 1
            }),
            Property::sometimes("all updated by two leaders", |_, world: &World| {
                world.at_rest() && world.ledgers[CLUSTER].epoch == 2
            }),
        ]
    }
}

const BUDGET: &str = "no more than one granted or out of service";

impl Rollout {
    /// One with a crash, one with a refusal: both at once would take minutes.
    fn each(protections: Protections) -> [Self; 2] {
        [(1, 0), (0, 1)].map(|(crashes, refusals)| Self { controller: Controller::new(protections), crashes, refusals })
    }
}

fn operate(world: &mut World, pod: usize, action: Act) -> Option<()> {
    let node = world.nodes[pod];
    let open = node.is_running();
    let state = &mut world.pods[pod];
    match action {
        Act::Begin(_) if open && !state.updated && !state.down => state.down = true,
        Act::Done(_) if open && (state.down || state.updated) => {
            state.updated = true;
            world.store_node(pod, Node { result: true, ..node });
        }
        Act::Refused(_) if open && !state.updated => {
            world.refusals_left = world.refusals_left.checked_sub(1)?;
            world.store_node(pod, Node { result: true, ..node });
        }
        // The agent raises InService before it reports a result.
        Act::Ready(_) if state.down && !open => state.down = false,
        _ => return None,
    }
    Some(())
}

/// Every combination of what a round may see of pods and nodes, and of what it prefers.
fn looks(world: &World) -> Vec<Look> {
    let touched = |pod: usize| world.pods[pod].updated || world.pods[pod].down || world.nodes[pod].granted.is_some();
    let mut looks = Vec::new();
    for bits in 0..1_usize << PODS {
        let untouched = std::array::from_fn(|pod| bits & 1 << pod != 0);
        if (0..PODS).all(|pod| touched(pod) || !untouched[pod]) {
            let each = |urgent| [true, false].map(|late| Look { untouched, urgent, late });
            looks.extend((0..PODS).flat_map(each));
        }
    }
    looks
}

fn overspends(protections: Protections) -> bool {
    Rollout::each(protections).into_iter().any(|model| {
        let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
        checker.spawn_bfs().join().discovery(BUDGET).is_some()
    })
}

#[test]
fn the_budget_holds_whatever_leaders_see_and_whenever_they_die() {
    for model in Rollout::each(Protections::ALL) {
        let checker = model.checker().threads(2).spawn_bfs().join();
        println!("{} states", checker.unique_state_count());
        checker.assert_properties();
    }
}

#[test]
fn without_compare_and_swap_on_the_clusters_ledger_two_leaders_overspend() {
    assert!(overspends(Protections { cluster_cas: false, ..Protections::ALL }));
}

#[test]
fn without_compare_and_swap_on_the_namespaces_ledger_a_fence_is_none() {
    assert!(overspends(Protections { namespace_cas: false, ..Protections::ALL }));
}

#[test]
fn a_namespaces_ledger_that_is_written_although_the_clusters_was_not_overspends() {
    assert!(overspends(Protections { in_order: false, ..Protections::ALL }));
}

#[test]
fn without_a_fence_a_place_arrives_after_it_was_freed_for_the_cluster() {
    assert!(overspends(Protections { fence_before_free: false, ..Protections::ALL }));
}

#[test]
fn a_lost_grant_whose_place_in_the_cluster_was_given_back_must_not_be_written_after_all() {
    assert!(overspends(Protections { regrant_with_both: false, ..Protections::ALL }));
}

/// From every state that can be reached there is a way to the end: no reservation is held for ever.
#[test]
fn from_everywhere_the_rollout_can_still_end() {
    for model in Rollout::each(Protections::ALL) {
        let stuck = liveness::stuck(&model, World::at_rest);
        assert!(stuck.is_none(), "no way on from {stuck:?}");
    }
}
