//! Model check: two leaders with caches of any age, killed between any two writes, three pods, a budget of one.
//!
//! Deciding and the ledger's arithmetic are the crate's own functions; the model adds what is around them: the API server
//! (every write is a compare-and-swap), the watches (each object is shown as old as it likes), the agents, and the order of
//! writes that docs/contract.md#grant-expiry, #end-of-a-reservation and #fencing prescribe.
//!
//! Each protection is taken away in turn, and then the checker has to find too many pods gone: a model that can't fail proves
//! nothing.

#![allow(clippy::unwrap_used, clippy::struct_excessive_bools, reason = "a test; protections are switches")]

#[path = "../model/gate.rs"]
mod gate;
mod leader;
#[path = "../model/liveness.rs"]
mod liveness;
#[path = "../model/objects.rs"]
mod objects;
mod world;

use leader::{Controller, Protections, Sight, Step};
use stateright::{Checker, HasDiscoveries, Model, Property};
use world::{LEADERS, Node, PODS, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    /// The second leader takes the lease; the first one does not notice.
    Elect,
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
    mistakes: u8,
}

impl Model for Rollout {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.crashes, self.refusals, self.mistakes)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        // What can't be done or changes nothing is sorted out by next_state.
        actions.push(Act::Elect);
        let sights = sights(world);
        for who in (0..LEADERS).filter(|&who| world.leaders[who].epoch > 0) {
            let steps = [Step::Crash, Step::SeeLedger, Step::TakeOver];
            actions.extend(steps.map(|step| Act::Lead(who, step)));
            for pod in 0..PODS {
                let steps = [Step::WriteGrant, Step::Regrant, Step::Fence, Step::Free, Step::RemoveGrant];
                actions.extend(steps.map(|step| Act::Lead(who, step(pod))));
                if world.leaders[who].ledger.is_some() && !world.leaders[who].is_writing() {
                    actions.extend(sights.iter().map(|sight| Act::Lead(who, Step::Round(pod, *sight))));
                }
            }
        }
        for pod in 0..PODS {
            actions.extend([Act::Begin(pod), Act::Done(pod), Act::Refused(pod), Act::Ready(pod)]);
        }
    }

    fn next_state(&self, last: &World, action: Act) -> Option<World> {
        let mut world = last.clone();
        match action {
            Act::Elect if world.leaders[1].epoch == 0 => world.leaders[1].epoch = 2,
            Act::Elect => return None,
            Act::Lead(who, step) => self.controller.step(&mut world, who, step)?,
            Act::Begin(pod) | Act::Done(pod) | Act::Refused(pod) | Act::Ready(pod) => {
                self.operate(&mut world, pod, action)?;
            }
        }
        let world = world.canonical();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BUDGET, |model: &Self, world: &World| {
                // A place that was taken for an unavailable pod costs nothing: its agent sees to that.
                let costs = |pod: &usize| world.ledger.reserved[*pod].is_some_and(|place| !place.while_unavailable);
                let gone = (0..PODS).filter(|pod| costs(pod) || world.pods[*pod].down);
                gone.count() <= model.controller.max_unavailable as usize
            }),
            Property::sometimes("all updated by two leaders", |_, world: &World| {
                world.at_rest() && world.ledger.epoch == 2
            }),
        ]
    }
}

const BUDGET: &str = "no more than the maximum out of service or reserved to go";

impl Rollout {
    /// One with a crash, one with a pod that is taken for unavailable: both at once would take minutes.
    fn each(protections: Protections) -> [Self; 2] {
        let of =
            |(crashes, mistakes)| Self { controller: Controller::new(1, protections), crashes, refusals: 1, mistakes };
        [(1, 0), (0, 1)].map(of)
    }

    /// What the agent and the kubelet do.
    fn operate(&self, world: &mut World, pod: usize, action: Act) -> Option<()> {
        let node = world.nodes[pod];
        let open = node.granted.is_some() && !node.result;
        let refuses = node.granted.is_some_and(|grant| grant.while_unavailable)
            && self.controller.protections.agent_refuses_available;
        let state = &mut world.pods[pod];
        match action {
            // PodAvailable.
            Act::Begin(_) if open && refuses && !state.updated && !state.down => {
                state.was_refused = true;
                world.store_node(pod, Node { result: true, ..node });
            }
            Act::Begin(_) if open && !state.updated && !state.down => {
                (state.down, state.was_down) = (true, true);
            }
            Act::Done(_) if open && (state.down || state.updated) => {
                state.updated = true;
                world.store_node(pod, Node { result: true, ..node });
            }
            Act::Refused(_) if open && !state.updated => {
                world.refusals_left = world.refusals_left.checked_sub(1)?;
                world.pods[pod].was_refused = true;
                world.store_node(pod, Node { result: true, ..node });
            }
            // The agent raises InService before it reports a result.
            Act::Ready(_) if state.down && !open => state.down = false,
            _ => return None,
        }
        Some(())
    }
}

/// Every combination of what a leader's caches may show.
fn sights(world: &World) -> Vec<[Sight; PODS]> {
    let mut combinations = vec![[Sight::Now; PODS]];
    for pod in 0..PODS {
        let old = Sight::OLD.into_iter().filter(|sight| sight.is_possible(world, pod));
        let with_old = |sight| {
            combinations.iter().map(move |seen| {
                let mut seen = *seen;
                seen[pod] = sight;
                seen
            })
        };
        let more: Vec<[Sight; PODS]> = old.flat_map(with_old).collect();
        combinations.extend(more);
    }
    combinations
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
fn without_compare_and_swap_on_the_ledger_two_leaders_overspend() {
    assert!(overspends(Protections { ledger_cas: false, ..Protections::ALL }));
}

#[test]
fn without_a_fence_an_old_grant_arrives_after_its_reservation_was_freed() {
    assert!(overspends(Protections { fence_before_free: false, ..Protections::ALL }));
}

#[test]
fn without_the_epoch_on_the_node_a_deposed_leader_grants_from_an_old_ledger() {
    assert!(overspends(Protections { node_epoch: false, ..Protections::ALL }));
}

#[test]
fn a_reservation_that_ends_before_the_pod_is_ready_lets_the_next_one_go_too_early() {
    assert!(overspends(Protections { ready_before_release: false, ..Protections::ALL }));
}

#[test]
fn the_result_of_an_earlier_attempt_is_no_evidence() {
    assert!(overspends(Protections { same_attempt: false, ..Protections::ALL }));
}

#[test]
fn an_agent_that_takes_an_available_pod_on_a_grant_for_an_unavailable_one_overspends() {
    assert!(overspends(Protections { agent_refuses_available: false, ..Protections::ALL }));
}

/// From every state that can be reached there is a way to the end: no reservation is held for ever.
#[test]
fn from_everywhere_the_rollout_can_still_end() {
    for model in Rollout::each(Protections::ALL) {
        let stuck = liveness::stuck(&model, World::at_rest);
        assert!(stuck.is_none(), "no way on from {stuck:?}");
    }
}
