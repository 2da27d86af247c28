//! Others operate the pod, and say so in its labels.

use std::collections::BTreeMap;

use hitless_api::lifecycle::{Step, is_operating};
use hitless_api::names::DRAINED;
use hitless_api::{Grant, GrantMode, GrantOp, Outcome, Phase, PostCheck};
use jiff::SignedDuration;

use crate::world::kubelet::Image;
use crate::world::rules::Rules;
use crate::world::{Clients, World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);

fn foreign() -> Grant {
    Grant { op: GrantOp::Foreign, containers: BTreeMap::new(), before: BTreeMap::new(), ..grant(start()) }
}

fn set(world: &mut World, step: Step, id: &str) {
    world.pod.view.labels.insert(step.key(id), "1".to_owned());
}

fn has(world: &World, step: Step, id: &str) -> bool {
    world.pod.view.labels.contains_key(&step.key(id))
}

fn remove(world: &mut World, step: Step, id: &str) {
    world.pod.view.labels.remove(&step.key(id));
}

fn is_drained(world: &World) -> bool {
    world.pod.view.in_service().is_some_and(|condition| !condition.is_true && condition.reason == DRAINED)
}

/// A pod whose labels say that an operator has begun, and that the pod leaves.
fn begun() -> World {
    let mut world = World::new(foreign(), Image::Good(0));
    set(&mut world, Step::Operating, "a");
    set(&mut world, Step::Preparing, "a");
    world
}

/// The controller: allows what the pod is drained for.
fn allow(world: &mut World, id: &str) {
    if !is_operating(&world.pod.view.labels) {
        remove(world, Step::Operate, id);
    }
    if is_drained(world) && has(world, Step::Operating, id) && !has(world, Step::Operate, id) {
        remove(world, Step::Preparing, id);
        set(world, Step::Operate, id);
    }
}

fn end(world: &World) -> (Outcome, String) {
    world.result().expect("every operation ends that its operators end")
}

fn done() -> (Outcome, String) {
    (Outcome::Done, "Done".to_owned())
}

#[test]
fn the_pod_stays_out_until_all_have_finished_wherever_the_agent_is_killed() {
    for killed_at in 0..40 {
        let mut world = begun();
        let (mut turns, mut since) = (0, None);
        let hour = SignedDuration::from_hours(1);
        world.run(LIMIT, |world| {
            turns += 1;
            if turns == killed_at {
                world.kill();
            }
            assert!(!has(world, Step::Operate, "a") || !world.in_service() || !is_operating(&world.pod.view.labels));
            allow(world, "a");
            allow(world, "b");
            if has(world, Step::Operate, "a") && since.is_none() {
                // Another one joins, and takes its time.
                since = Some(world.now);
                set(world, Step::Operating, "b");
                remove(world, Step::Operating, "a");
                world.alarms.push(world.now.checked_add(hour).unwrap());
            }
            let is_time = since.is_some_and(|since| world.now.duration_since(since) >= hour);
            if is_time && has(world, Step::Operating, "b") {
                assert!(is_drained(world), "nobody puts a pod back while somebody works on it");
                remove(world, Step::Operating, "b");
            }
        });
        assert_eq!((end(&world), world.in_service(), world.patches.len()), (done(), true, 0), "killed at {killed_at}");
    }
}

#[test]
fn nothing_happens_before_the_labels_say_that_the_pod_leaves() {
    let mut world = World::new(foreign(), Image::Good(0));
    set(&mut world, Step::Operating, "a");
    world.run(SignedDuration::from_mins(10), |world| assert!(world.in_service()));
    assert_eq!(end(&world), (Outcome::Refused, "Expired".to_owned()));
    assert!(world.writes.iter().all(|what| *what == "nodetransitions/status"), "{:?}", world.writes);
}

#[test]
fn clients_are_waited_for_before_anybody_may_operate() {
    let mut world = begun();
    world.clients = Clients::Leave(8_000);
    world.run(LIMIT, |world| {
        let waited = world.now.duration_since(start()).as_secs();
        assert!(!is_drained(world) || waited >= 8, "drained after {waited} s");
        allow(world, "a");
        if has(world, Step::Operate, "a") {
            remove(world, Step::Operating, "a");
        }
    });
    assert_eq!(end(&world), done());
}

#[test]
fn who_takes_it_back_in_time_finds_the_pod_in_service() {
    // Before the pod has left, while it leaves, and after it was drained.
    for at in [0, 500, 20_000] {
        let mut world = begun();
        world.clients = Clients::Leave(10_000);
        let undone = start().checked_add(SignedDuration::from_millis(at)).unwrap();
        world.alarms.push(undone);
        world.run(LIMIT, |world| {
            if world.now >= undone {
                remove(world, Step::Operating, "a");
                remove(world, Step::Preparing, "a");
            }
        });
        let outcome = end(&world).0;
        assert_eq!((outcome == Outcome::Done, world.in_service()), (at == 20_000, true), "after {at} ms: {outcome:?}");
    }
}

#[test]
fn a_cancel_is_not_obeyed_while_somebody_works_on_the_pod() {
    let mut world = begun();
    let hour = start().checked_add(SignedDuration::from_hours(1)).unwrap();
    world.alarms.push(hour);
    world.run(LIMIT, |world| {
        allow(world, "a");
        if has(world, Step::Operate, "a") && world.grant().cancel.is_none() {
            world.cancel();
        }
        if world.now >= hour {
            remove(world, Step::Operating, "a");
        } else if world.grant().cancel.is_some() {
            assert!(!world.in_service());
        }
    });
    assert_eq!((end(&world).0, world.in_service()), (Outcome::Cancelled, true));

    let mut unbegun = begun();
    unbegun.clients = Clients::Leave(10_000);
    unbegun.cancel();
    unbegun.run(LIMIT, |_| ());
    assert_eq!((end(&unbegun).0, unbegun.in_service()), (Outcome::Cancelled, true));
}

#[test]
fn the_rules_of_the_return_are_waited_for_as_long_as_they_take() {
    let mut world = World::new(Grant { post_check: Some(PostCheck::Pending), ..foreign() }, Image::Good(0));
    set(&mut world, Step::Operating, "a");
    set(&mut world, Step::Preparing, "a");
    world.rules = Rules::NeverPass;
    let hours = start().checked_add(SignedDuration::from_hours(1)).unwrap();
    world.alarms.push(hours);
    world.run(LIMIT, |world| {
        allow(world, "a");
        if has(world, Step::Operate, "a") {
            remove(world, Step::Operating, "a");
        }
        if world.now >= hours {
            let reported = world.transition.transition(world.grant()).unwrap();
            assert_eq!(reported.phase, Phase::Checking);
            world.transition.spec.grants[0].post_check = Some(PostCheck::Passed);
        }
    });
    assert_eq!((end(&world), world.in_service()), (done(), true));
}

#[test]
fn a_pod_that_is_held_is_refused() {
    let mut world = World::new(Grant { mode: GrantMode::Hold, ..foreign() }, Image::Good(0));
    set(&mut world, Step::Operating, "a");
    world.run(LIMIT, |_| ());
    assert_eq!(end(&world), (Outcome::Refused, "UnsupportedMode".to_owned()));
}
