//! Whole operations under a Hold: what clients of a pod that stays in service are spared, wherever the agent is killed.

use hitless_agent::decision::Direction;
use hitless_api::{Grant, GrantMode, MicroTime, Outcome, StragglerPolicy, TransitionResult, VerifySpec};
use jiff::SignedDuration;
use proptest::prelude::*;

use crate::world::disturbances::{Disturbances, at, faults, images, passed};
use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::{Fault, World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);

fn held_grant() -> Grant {
    Grant { mode: GrantMode::Hold, ..grant(start()) }
}

fn world(image: Image) -> World {
    World::new(held_grant(), image)
}

fn run(image: Image, prepare: impl FnOnce(&mut World)) -> World {
    let mut world = world(image);
    prepare(&mut world);
    world.run(LIMIT, |_| ());
    world
}

fn result(world: &World) -> TransitionResult {
    world.transition.transition(world.grant()).unwrap().result.clone().expect("every grant ends")
}

fn end(world: &World) -> (Outcome, String) {
    let TransitionResult { outcome, reason, .. } = result(world);
    (outcome, reason)
}

fn ended(outcome: Outcome, reason: &str) -> (Outcome, String) {
    (outcome, reason.to_owned())
}

#[test]
fn a_good_image_is_done_with_one_write_to_the_pod_and_one_pause_of_its_clients() {
    let world = run(Image::Good(200), |_| ());
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert_eq!((world.image(), world.in_service()), (TO, true));
    assert_eq!(world.writes, ["pods", "nodetransitions/status"]);
    assert!(world.patches[0].held && world.patches[0].ready, "{:?}", world.patches);
    assert_eq!(world.holder.begun.len(), 1);
    assert!((110..200).contains(&world.holder.longest), "{} ms", world.holder.longest);
    assert!(passed(&world) < 500, "{} ms", passed(&world));
    let report = result(&world).report;
    for (name, number) in [("parked", 3), ("replayed", 3), ("connections", 5), ("holdExpired", 0)] {
        assert_eq!(report[name], number, "{name}");
    }
    let gap = world.transition.transition(world.grant()).unwrap().gap_milliseconds.expect("the gap is learnt");
    assert!((110..200).contains(&gap) && report["gapMilliseconds"] == i64::from(gap), "{gap}");
    let ready = world.transition.transition(world.grant()).unwrap().ready_milliseconds.expect("and when it was ready");
    assert!((gap + 150..500).contains(&ready) && report["readyMilliseconds"] == i64::from(ready), "{ready}");
}

#[test]
fn nothing_is_taught_of_a_container_that_was_down_while_its_image_was_pulled() {
    let world = run(Image::Good(200), |world| world.transition.spec.grants[0].unfetched = true);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    let transition = world.transition.transition(world.grant()).unwrap();
    assert_eq!((transition.gap_milliseconds, transition.ready_milliseconds), (None, None));
    assert!(result(&world).report["gapMilliseconds"] > 100, "people may read it");
}

#[test]
fn it_has_not_ended_before_it_is_known_how_long_clients_waited() {
    let world = run(Image::Good(0), |world| world.holder.noticing = 300);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(world.holder.longest >= 300, "{} ms", world.holder.longest);
    assert_eq!(result(&world).report["longestPauseMilliseconds"], world.holder.longest);
    assert_eq!(world.writes, ["pods", "nodetransitions/status"]);
}

#[test]
fn a_pod_without_the_gate_is_held_too() {
    let world = run(Image::Good(200), |world| world.pod.view.gated = false);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert_eq!(world.writes, ["pods", "nodetransitions/status"]);
}

#[test]
fn bad_images_are_undone_in_service_and_under_a_hold_where_there_is_something_to_hold() {
    for (image, reason, is_held) in [
        (Image::Missing, "ErrImagePull", false),
        (Image::Crashes, "CrashLoopBackOff", false),
        (Image::NeverReady, "ProgressDeadlineExceeded", true),
    ] {
        let world = run(image, |_| ());
        assert_eq!(end(&world), ended(Outcome::RolledBack, reason));
        assert_eq!((world.image(), world.in_service(), world.patches.len()), (FROM, true, 2));
        assert!(world.patches[1].held, "{reason}");
        let begun: Vec<Direction> = world.holder.begun.iter().map(|(_, direction)| *direction).collect();
        assert_eq!(begun.len(), 1 + usize::from(is_held), "{reason}: {begun:?}");
    }
}

#[test]
fn a_cancel_lets_clients_in_before_the_patch_and_undoes_after() {
    for (milliseconds, outcome, patches) in
        [(0, Outcome::Cancelled, 0), (15, Outcome::Cancelled, 0), (500, Outcome::RolledBack, 2)]
    {
        let mut world = world(Image::Good(5000));
        world.alarms = vec![at(milliseconds)];
        world.run(LIMIT, |world| {
            if passed(world) >= milliseconds && world.grant().cancel.is_none() {
                world.cancel();
            }
        });
        assert_eq!(end(&world), ended(outcome, "ChangedBack"), "{milliseconds} ms");
        assert_eq!((world.image(), world.patches.len()), (FROM, patches), "{milliseconds} ms");
        assert!(!world.holder.is_holding());
    }
}

/// Else the listener of the process that is to be replaced again would be taken for the one that is waited for.
#[test]
fn a_way_back_in_the_middle_of_a_restart_waits_until_the_new_process_listens() {
    for (stopping, earliest, latest) in [(600, 600, 900), (6000, 6000, 6300)] {
        let mut world = world(Image::Good(0));
        (world.kubelet.stopping, world.alarms) = (stopping, vec![at(100)]);
        world.run(LIMIT, |world| {
            if passed(world) >= 100 && world.grant().cancel.is_none() {
                world.cancel();
            }
        });
        assert_eq!(end(&world), ended(Outcome::RolledBack, "ChangedBack"), "{stopping} ms");
        let [there, back] = world.patches[..] else { panic!("{:?}", world.patches) };
        let between = back.at.duration_since(there.at).as_millis();
        assert!((earliest..latest).contains(&between), "{stopping} ms: patched back after {between} ms");
        let begun: Vec<Direction> = world.holder.begun.iter().map(|(_, direction)| *direction).collect();
        assert_eq!(begun, [Direction::Forward, Direction::Back], "{stopping} ms");
    }
}

#[test]
fn nobody_is_held_while_the_api_server_is_slow() {
    let world = run(Image::Good(0), |world| world.answers_after = 2000);
    assert_eq!(end(&world), ended(Outcome::Refused, "Expired"));
    assert!(world.holder.begun.is_empty() && world.patches.is_empty());
    assert!(!result(&world).is_lasting(), "it is granted anew");

    let mut world = self::world(Image::Good(0));
    world.answers_after = 2000;
    world.alarms = vec![at(10_000)];
    world.run(LIMIT, |world| {
        if passed(world) >= 10_000 {
            world.answers_after = 8;
        }
    });
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(world.holder.begun[0].0 >= at(10_000));
}

#[test]
fn a_restart_that_takes_longer_than_clients_can_wait_lets_them_in_and_says_so() {
    let world = run(Image::Good(0), |world| world.kubelet.stopping = 6000);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!((2500..2600).contains(&world.holder.longest), "{} ms", world.holder.longest);
    let report = result(&world).report;
    assert_eq!(report["holdExpired"], 1);
    assert!(report["gapMilliseconds"] >= 6000, "{report:?}");
    let message = &world.transition.transition(world.grant()).unwrap().message;
    assert!(message.contains("holdCapMilliseconds"), "{message}");
}

#[test]
fn requests_that_take_too_long_are_given_up_or_the_operation_is() {
    for (policy, expected) in [
        (StragglerPolicy::Wait, ended(Outcome::Done, "Done")),
        (StragglerPolicy::Close, ended(Outcome::Done, "Done")),
        (StragglerPolicy::Abort, ended(Outcome::Failed, "DeadlineAborted")),
    ] {
        let world = run(Image::Good(0), |world| {
            world.holder.settling = 60_000;
            world.transition.spec.grants[0].drain.stragglers = policy;
        });
        assert_eq!(end(&world), expected, "{policy:?}");
        assert_eq!(result(&world).report["givenUp"], 1);
        assert!(!world.holder.is_holding() && world.holder.longest <= 1500, "{} ms", world.holder.longest);
    }
}

/// Requests of an only pod are waited for with nobody held. What was true when that began is looked at again.
#[test]
fn after_a_long_wait_clients_are_held_only_if_the_api_server_is_quick_then() {
    let mut world = world(Image::Good(0));
    world.holder.unparked = 25_000;
    let until = at(60_000);
    world.run(LIMIT, |world| {
        let is_slow = world.now > at(10_000) && world.now < until;
        world.answers_after = if is_slow { 2000 } else { 8 };
        // It is seen at once once it is quick again, and the requests have been answered meanwhile.
        world.holder.unparked = if world.now < at(20_000) { 25_000 } else { 0 };
    });
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(world.patches[0].at >= until && world.patches[0].held, "{:?}", world.patches);
    assert!(world.holder.longest < 1000, "{} ms", world.holder.longest);
}

#[test]
fn the_wait_takes_nothing_of_a_grants_time_and_a_grant_that_is_older_is_not_carried_out() {
    let after_a_wait_of = |seconds: i64| {
        run(Image::Good(0), |world| {
            world.holder.unparked = seconds * 1000;
            let drain = &mut world.transition.spec.grants[0].drain;
            (drain.stragglers, drain.deadline_seconds) = (StragglerPolicy::Wait, 300);
        })
    };
    assert_eq!(end(&after_a_wait_of(299)), ended(Outcome::Done, "Done"));
    // The node stood still meanwhile.
    let world = after_a_wait_of(500);
    assert_eq!(end(&world), ended(Outcome::Refused, "Expired"));
    assert!(world.patches.is_empty() && world.in_service() && !world.holder.is_holding());
    assert!(!result(&world).is_lasting(), "the controller grants anew");
}

#[test]
fn a_pod_that_need_not_be_held_is_left_alone_where_requests_outlast_a_hold() {
    let run = |settling| {
        run(Image::Good(0), |world| {
            world.holder.settling = settling;
            world.transition.spec.grants[0].unless_in_flight = true;
        })
    };
    let world = run(60_000);
    assert_eq!(end(&world), ended(Outcome::Refused, "StillInFlight"));
    assert!(world.patches.is_empty() && world.in_service() && !world.holder.is_holding());
    assert!(!result(&world).is_lasting(), "the controller grants anew");
    assert_eq!(end(&run(200)), ended(Outcome::Done, "Done"));
}

#[test]
fn a_container_that_was_started_since_the_grant_is_not_replaced_in_a_hold() {
    let world = run(Image::Good(0), |world| {
        for id in world.transition.spec.grants[0].before.values_mut() {
            *id = "containerd://earlier".to_owned();
        }
    });
    assert_eq!(end(&world), ended(Outcome::Refused, "ContainerChanged"));
    assert!(world.patches.is_empty() && world.in_service());
    assert!(!result(&world).is_lasting(), "the controller grants anew");
}

#[test]
fn what_the_kernel_can_not_do_is_refused_and_what_does_not_listen_is_not_held() {
    let world = run(Image::Good(0), |world| world.holder.fails = true);
    assert_eq!(end(&world), ended(Outcome::Refused, "HoldFailed"));
    assert!(world.patches.is_empty());

    let world = run(Image::Good(0), |world| world.holder.ports = 0);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(world.holder.begun.is_empty());
}

#[test]
fn what_is_thought_to_serve_nobody_is_replaced_if_that_is_so_and_refused_else() {
    let unless_serving = |ports: usize| {
        run(Image::Good(0), |world| {
            world.transition.spec.grants[0].unless_serving = true;
            world.holder.ports = ports;
        })
    };
    let world = unless_serving(0);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(world.holder.begun.is_empty() && world.in_service());

    let world = unless_serving(1);
    assert_eq!(end(&world), ended(Outcome::Refused, "ContainerServes"));
    assert!(world.patches.is_empty() && world.holder.begun.is_empty() && world.in_service());
    assert!(!result(&world).is_lasting(), "the controller grants anew, with a drain");
}

#[test]
fn a_container_without_a_probe_has_to_run_for_a_while_unless_it_listens() {
    let unprobed = |image, mode: GrantMode, ports| {
        run(image, |world| {
            world.transition.spec.grants[0].mode = mode;
            world.pod.view.containers[0].delays_ready = false;
            world.holder.ports = ports;
        })
    };
    for mode in [GrantMode::Hold, GrantMode::Leave] {
        let world = unprobed(Image::RunsFor(1500), mode.clone(), 0);
        assert_eq!(end(&world), ended(Outcome::RolledBack, "CrashLoopBackOff"), "{mode:?}");
        assert_eq!((world.image(), world.in_service()), (FROM, true));
        let world = unprobed(Image::Good(0), mode, 0);
        assert_eq!(end(&world), ended(Outcome::Done, "Done"));
        assert!((3000..7000).contains(&passed(&world)), "{} ms", passed(&world));
    }
    let world = unprobed(Image::Good(0), GrantMode::Hold, 1);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(passed(&world) < 1000, "it listens: {} ms", passed(&world));
}

#[test]
fn clients_do_not_wait_for_a_lag_of_admission() {
    let mut world = world(Image::Good(0));
    world.denied = true;
    world.run(LIMIT, |world| world.denied = passed(world) < 3000);
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert!(world.holder.begun.len() > 1 && world.holder.longest < 1000, "{} ms", world.holder.longest);

    let mut denied = self::world(Image::Good(0));
    denied.denied = true;
    denied.run(LIMIT, |_| ());
    assert_eq!(end(&denied), ended(Outcome::Failed, "AdmissionDenied"));
    assert!(denied.image() == FROM && passed(&denied) < 10_000, "{} ms", passed(&denied));
}

#[test]
fn an_agent_that_was_killed_holds_again_or_takes_over_what_it_has_patched() {
    // Killed before the image patch, and after it without the answer: the faults are taken from the end, and the first is the
    // question how quick the API server is.
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        let world = run(Image::Good(200), |world| world.faults = vec![fault, Fault::None]);
        assert_eq!(end(&world), ended(Outcome::Done, "Done"));
        assert_eq!(world.patches.len(), 1);
        assert_eq!(world.holder.begun.len(), 1 + usize::from(fault == Fault::KilledBefore));
    }
}

#[test]
fn clients_are_held_when_a_patch_is_carried_out_long_after_it_was_sent() {
    // The faults are taken from the end, and the first is the question how quick the API server is.
    for silence in [3000, 6000, 9000, 20_000] {
        let world = run(Image::Good(200), |world| world.faults = vec![Fault::Silence(silence), Fault::None]);
        assert_eq!(end(&world), ended(Outcome::Done, "Done"), "{silence} ms");
        assert_eq!(world.patches.len(), 1);
        let (patched, last) = (world.patches[0].at, world.holder.begun.last().unwrap().0);
        let late = last.duration_since(patched).as_millis();
        assert!((0..=20).contains(&late), "{silence} ms: clients were held {late} ms after the patch");
        assert!(world.holder.longest <= 2600, "{} ms", world.holder.longest);
    }
}

#[test]
fn a_pod_that_was_left_out_of_service_returns_first() {
    let mut world = world(Image::Good(0));
    crate::world::pod::set_in_service(&mut world.pod, false, "Leaving", "an earlier grant", start());
    let mut returned = None;
    world.run(LIMIT, |world| returned = returned.or(world.in_service().then_some(world.patches.len())));
    assert_eq!(end(&world), ended(Outcome::Done, "Done"));
    assert_eq!(returned, Some(0), "before anything is replaced");
}

#[test]
fn a_pod_that_has_become_available_is_not_replaced_at_the_cost_of_no_budget() {
    let mut world = world(Image::Good(0));
    world.transition.spec.grants[0].while_unavailable = true;
    world.run(LIMIT, |_| ());
    assert_eq!(end(&world), ended(Outcome::Refused, "PodAvailable"));
    assert!(world.patches.is_empty() && world.holder.begun.is_empty());
}

fn policies() -> impl Strategy<Value = StragglerPolicy> {
    prop_oneof![Just(StragglerPolicy::Wait), Just(StragglerPolicy::Destroy), Just(StragglerPolicy::Abort)]
}

/// What must hold of every run, whatever went wrong in it.
fn assert_sound(world: &World, is_killed: bool) {
    let (outcome, reason) = end(world);
    assert!(world.in_service() && !world.holder.is_holding(), "{outcome:?} {reason}");
    let forward: Vec<_> = world.patches.iter().filter(|patch| patch.direction == Direction::Forward).collect();
    assert!(forward.len() <= 1 && world.patches.len() <= 2, "{:?}", world.patches);
    for patch in forward {
        assert!(patch.held, "{patch:?}");
        assert!(!patch.cancelled_before, "operated after a cancel was seen");
    }
    let cap = i64::from(world.grant().drain.hold_cap_milliseconds);
    assert!(world.holder.longest <= cap + 100, "{} ms", world.holder.longest);
    match outcome {
        Outcome::Done => assert_eq!(world.image(), TO),
        Outcome::RolledBack | Outcome::Cancelled | Outcome::Refused => assert_eq!(world.image(), FROM, "{reason}"),
        Outcome::Failed => {}
    }
    let progress = i64::from(world.grant().verify.progress_seconds);
    let most = 100 + 3 * progress + 60 + 60 * i64::from(is_killed);
    assert!(passed(world) <= most * 1000, "{} ms: {outcome:?} {reason}", passed(world));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn killed_anywhere_every_hold_ends_and_nobody_is_held_for_longer_than_the_cap(
        image in images(),
        faults in faults(),
        stragglers in policies(),
        settling in prop_oneof![3 => 0..500_i64, 1 => 500..5000_i64],
        answers_after in prop_oneof![4 => Just(8_u32), 1 => Just(2000)],
        cap in prop_oneof![2 => Just(2500_u32), 1 => 200..5000_u32],
        soak in prop_oneof![3 => Just(0_u32), 1 => 1..30_u32],
        cancel_at in prop::option::weighted(0.3, 0..10_000_i64),
        kills in prop::collection::vec(0..3_000_i64, 0..6),
        dead_kubelet in prop::bool::weighted(0.05),
        stopping in prop_oneof![Just(110_i64), 100..30_000_i64],
        progress in prop_oneof![1 => Just(600_u32), 1 => 100..200_u32],
        blips in prop::collection::vec((0..90_000_i64, 1..5_000_i64), 0..3),
        gated in any::<bool>(),
        alone in any::<bool>(),
        granted_before in prop_oneof![3 => Just(0_i64), 1 => 80..91_i64],
    ) {
        let mut world = world(image);
        world.faults = faults;
        world.kubelet.dead = dead_kubelet;
        world.kubelet.stopping = stopping;
        world.answers_after = answers_after;
        world.holder.settling = settling;
        world.pod.view.gated = gated;
        let grant = &mut world.transition.spec.grants[0];
        grant.granted = MicroTime(at(-granted_before * 1000));
        grant.drain.stragglers = stragglers;
        grant.drain.hold_cap_milliseconds = cap;
        grant.verify = VerifySpec { progress_seconds: progress, soak_seconds: soak, alone, crashes: None };
        let disturbances = Disturbances { kills, cancel_at, blips };
        world.run_disturbed(LIMIT, &disturbances);
        world.run_round();
        assert_sound(&world, !disturbances.kills.is_empty());
    }
}
