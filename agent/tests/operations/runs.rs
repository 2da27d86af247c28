//! Whole operations on a node in miniature: how they end, and what may never happen on the way, wherever the agent is killed.

use std::collections::BTreeMap;

use hitless_agent::decision::{Direction, Hold};
use hitless_agent::view::Losses;
use hitless_api::{Cancel, Grant, GrantOp, MicroTime, Outcome, StragglerPolicy, VerifySpec};
use jiff::SignedDuration;
use proptest::prelude::*;

use crate::world::disturbances::{Disturbances, faults, images};
use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::rules::Rules;
use crate::world::{Clients, Fault, World, grant, start};

/// Longer than any operation of the default drain and verification can last.
const LIMIT: SignedDuration = SignedDuration::from_hours(2);

fn seconds(world: &World) -> i64 {
    world.now.duration_since(start()).as_secs()
}

fn run(new_image: Image, prepare: impl FnOnce(&mut World)) -> World {
    let mut world = World::new(grant(start()), new_image);
    prepare(&mut world);
    world.run(LIMIT, |_| ());
    world
}

fn end(world: &World) -> (Outcome, String) {
    world.result().expect("every grant ends")
}

#[test]
fn a_good_image_is_done_within_two_seconds_and_four_writes() {
    let world = run(Image::Good(200), |_| ());
    assert_eq!(end(&world), (Outcome::Done, "Done".to_owned()));
    assert_eq!((world.image(), world.in_service()), (TO, true));
    assert!(seconds(&world) <= 2, "{} s", seconds(&world));
    assert_eq!(world.writes, ["pods/status", "pods", "pods/status", "nodetransitions/status"]);
    let patched = world.patches[0];
    assert!(patched.at >= start().checked_add(SignedDuration::from_secs(1)).unwrap(), "not before minSeconds");
}

#[test]
fn connections_that_were_lost_are_in_the_report_where_that_was_looked_at() {
    let numbers = |losses| {
        let world = run(Image::Good(200), |world| world.losses = losses);
        let report = world.transition.transition(world.grant()).unwrap().result.clone().unwrap().report;
        ["openWhenNotReady", "resetWhenNotReady", "unansweredWhenNotReady"].map(|name| report.get(name).copied())
    };
    assert_eq!(numbers(Some(Losses { open: 9, reset: 4, unanswered: 2 })), [Some(9), Some(4), Some(2)]);
    assert_eq!(numbers(Some(Losses::default())), [Some(0); 3]);
    assert_eq!(numbers(None), [None; 3], "nothing is no zero");
}

#[test]
fn whoever_comes_to_a_pod_that_has_left_waits_while_its_container_is_replaced() {
    let told = run(Image::Good(200), |_| ()).holder.told;
    let forward = Direction::Forward;
    assert_eq!(told, [Hold::No, Hold::Prepare(forward), Hold::Begin(forward), Hold::Continue(forward), Hold::No]);
    // Nobody is kept waiting where nothing is replaced.
    let cancelled = run(Image::Good(200), World::cancel).holder.told;
    assert!(!cancelled.contains(&Hold::Begin(forward)), "{cancelled:?}");
}

#[test]
fn a_pod_that_leaves_for_good_stays_out_as_long_as_its_grant_stands() {
    let grant = Grant { op: GrantOp::Drain, containers: BTreeMap::new(), before: BTreeMap::new(), ..grant(start()) };
    let mut world = World::new(grant, Image::Good(0));
    for _ in 0..2 {
        world.run(LIMIT, |_| ());
        assert_eq!(end(&world), (Outcome::Done, "Done".to_owned()));
        assert_eq!((world.image(), world.in_service(), world.patches.len()), (FROM, false, 0));
    }
}

#[test]
fn bad_images_are_undone_for_their_reason() {
    for (image, alone, reason, at) in [
        (Image::Missing, true, "ErrImagePull", 10..20),
        (Image::Missing, false, "ErrImagePull", 600..660),
        (Image::Crashes, true, "CrashLoopBackOff", 0..10),
        (Image::Crashes, false, "CrashLoopBackOff", 600..610),
        (Image::NeverReady, true, "ProgressDeadlineExceeded", 600..610),
    ] {
        let world = run(image, |world| world.transition.spec.grants[0].verify.alone = alone);
        assert_eq!(end(&world), (Outcome::RolledBack, reason.to_owned()));
        assert_eq!((world.image(), world.in_service(), world.patches.len()), (FROM, true, 2));
        assert!(at.contains(&seconds(&world)), "{reason}: {} s", seconds(&world));
    }
}

/// The kubelet starts it again and again, every half a minute here.
#[test]
fn a_pod_in_which_nothing_starts_again_is_undone_after_some_crashes_and_given_up_when_the_version_before_crashes_too() {
    for (alone, both_crash, progress, expected, at) in [
        (false, false, 600, (Outcome::RolledBack, "CrashLoopBackOff"), 110..130),
        (true, false, 600, (Outcome::RolledBack, "CrashLoopBackOff"), 110..130),
        (false, true, 600, (Outcome::Failed, "RollbackNotReady"), 140..165),
        // Its owner wants to know sooner.
        (false, false, 60, (Outcome::RolledBack, "CrashLoopBackOff"), 60..75),
    ] {
        let mut world = World::new(grant(start()), Image::Crashes);
        let verify = &mut world.transition.spec.grants[0].verify;
        (verify.alone, verify.crashes, verify.progress_seconds) = (alone, Some(5), progress);
        world.kubelet.both_crash = both_crash;
        let alarms = (1..40).map(|count| start().checked_add(SignedDuration::from_secs(30 * count)).unwrap());
        world.alarms = alarms.collect();
        world.run(LIMIT, |world| {
            if world.alarms.contains(&world.now) && !world.runs() {
                world.pod.view.containers[0].status.as_mut().unwrap().restarts += 1;
            }
        });
        assert_eq!(end(&world), (expected.0, expected.1.to_owned()));
        assert_eq!((world.image(), world.patches.len()), (FROM, 2));
        assert!(at.contains(&seconds(&world)), "{alone} {both_crash}: {} s", seconds(&world));
    }
}

#[test]
fn clients_that_stay_are_waited_for_as_the_policy_says() {
    for (policy, expected, at) in [
        (StragglerPolicy::Close, Outcome::Done, 30),
        (StragglerPolicy::Wait, Outcome::Done, 60),
        (StragglerPolicy::Abort, Outcome::Failed, 60),
    ] {
        let world = run(Image::Good(0), |world| {
            world.clients = Clients::Stay;
            world.transition.spec.grants[0].drain.stragglers = policy;
        });
        assert_eq!(end(&world).0, expected, "{policy:?}");
        assert_eq!(world.patches.len(), usize::from(expected == Outcome::Done));
        assert!((at - 1..at + 3).contains(&seconds(&world)), "{policy:?}: {} s", seconds(&world));
    }
}

#[test]
fn what_can_not_be_counted_is_not_drained_before_the_deadline() {
    let world = run(Image::Good(0), |world| world.clients = Clients::Uncountable);
    assert_eq!(end(&world).0, Outcome::Done);
    assert!(world.patches[0].at.duration_since(start()).as_secs() >= 59);
    let world = run(Image::Good(0), |world| {
        world.clients = Clients::Uncountable;
        world.transition.spec.grants[0].drain.stragglers = StragglerPolicy::Abort;
    });
    assert_eq!(end(&world), (Outcome::Failed, "DeadlineAborted".to_owned()));
    assert!(world.in_service() && world.patches.is_empty());
}

#[test]
fn a_cancel_is_honoured_before_the_patch_and_undoes_after() {
    for (after_milliseconds, outcome, patches) in
        [(0, Outcome::Cancelled, 0), (500, Outcome::Cancelled, 0), (1700, Outcome::RolledBack, 2)]
    {
        let mut world = World::new(grant(start()), Image::Good(5000));
        let at = start().checked_add(SignedDuration::from_millis(after_milliseconds)).unwrap();
        world.run(LIMIT, |world| {
            if world.now >= at && world.grant().cancel.is_none() {
                world.cancel();
            }
        });
        assert_eq!(end(&world), (outcome, "ChangedBack".to_owned()), "{after_milliseconds} ms");
        assert_eq!((world.image(), world.patches.len(), world.in_service()), (FROM, patches, true));
    }
}

#[test]
fn a_cancel_before_anything_is_done_makes_a_lowering_fail_that_is_on_its_way() {
    // An agent that was killed may have sent it; nobody who is alive knows of it.
    let mut world = World::new(grant(start()), Image::Good(0));
    world.cancel();
    let seen = world.pod.view.resource_version.clone();
    world.run(LIMIT, |_| ());
    assert_eq!(end(&world), (Outcome::Cancelled, "ChangedBack".to_owned()));
    assert_eq!(world.writes, ["pods/status", "nodetransitions/status"]);
    assert!(world.in_service() && world.pod.view.resource_version != seen, "conditional writes on the old one fail");
}

/// Nobody else serves: it comes back as it is, or, where its container is new already, with that.
#[test]
fn a_pod_that_is_wanted_back_returns_and_nothing_is_undone_for_that() {
    for (milliseconds, outcome, image) in [(500, Outcome::Cancelled, FROM), (1300, Outcome::Done, TO)] {
        let mut world = World::new(grant(start()), Image::Good(2000));
        world.alarms = vec![start().checked_add(SignedDuration::from_millis(milliseconds)).unwrap()];
        world.run(LIMIT, |world| {
            if world.now.duration_since(start()).as_millis() >= i128::from(milliseconds)
                && world.grant().cancel.is_none()
            {
                let since = MicroTime(world.now);
                world.transition.spec.grants[0].cancel = Some(Cancel { reason: Cancel::LAST_ENDPOINT.into(), since });
            }
        });
        assert_eq!((end(&world).0, world.image(), world.in_service()), (outcome, image, true), "{milliseconds} ms");
    }
}

#[test]
fn a_dead_kubelet_keeps_the_pod_in_service_and_unpatched() {
    let world = run(Image::Good(0), |world| world.kubelet.dead = true);
    assert_eq!(end(&world), (Outcome::Failed, "NotLeaving".to_owned()));
    let report = world.transition.transition(world.grant()).unwrap();
    assert!(report.result.as_ref().unwrap().is_of_pod_only(), "its node's fault: no other pod waits for it");
    assert!(world.in_service() && world.patches.is_empty());
}

#[test]
fn a_lasting_denial_puts_the_pod_back_into_service() {
    let world = run(Image::Good(0), |world| world.denied = true);
    assert_eq!(end(&world), (Outcome::Failed, "AdmissionDenied".to_owned()));
    assert!(world.in_service() && world.image() == FROM);
    assert!(seconds(&world) < 10, "{} s", seconds(&world));
}

#[test]
fn a_lag_of_admission_costs_only_the_lag() {
    let mut world = World::new(grant(start()), Image::Good(0));
    world.denied = true;
    let lag = start().checked_add(SignedDuration::from_secs(3)).unwrap();
    world.run(LIMIT, |world| world.denied = world.now < lag);
    assert_eq!(end(&world).0, Outcome::Done);
}

#[test]
fn nothing_is_written_once_the_grant_is_gone() {
    let mut world = run(Image::Good(0), |_| ());
    world.transition.spec.grants.clear();
    let writes = world.writes.len();
    for _ in 0..100 {
        world.run_round();
        world.now = world.now.checked_add(SignedDuration::from_millis(100)).unwrap();
    }
    assert_eq!(world.writes.len(), writes);
}

#[test]
fn the_same_wish_granted_again_is_not_taken_for_the_earlier_one() {
    let mut world = World::new(grant(start()), Image::Good(0));
    world.run(LIMIT, |world| {
        if !world.in_service() && world.grant().cancel.is_none() {
            world.cancel();
        }
    });
    assert_eq!(end(&world).0, Outcome::Cancelled);
    assert_eq!(world.writes.len(), 3, "lowered, raised, reported");
    // The same id, later, while the earlier answer still stands.
    world.transition.spec.grants = vec![grant(world.now.checked_add(SignedDuration::from_secs(9)).unwrap())];
    world.kill();
    world.run(LIMIT, |_| ());
    assert_eq!(end(&world).0, Outcome::Done);
}

fn clients() -> impl Strategy<Value = Clients> {
    prop_oneof![
        4 => (0..80_000_i64).prop_map(Clients::Leave),
        1 => Just(Clients::Stay),
        1 => Just(Clients::Uncountable),
    ]
}

fn policies() -> impl Strategy<Value = StragglerPolicy> {
    prop_oneof![Just(StragglerPolicy::Wait), Just(StragglerPolicy::Close), Just(StragglerPolicy::Abort)]
}

/// What must hold of every run, whatever went wrong in it.
fn assert_sound(world: &World, kills: &[i64]) {
    let (outcome, reason) = world.result().expect("every grant ends");
    assert!(world.in_service(), "no pod stays out of service: {outcome:?} {reason}");
    let forward: Vec<_> = world.patches.iter().filter(|patch| patch.direction == Direction::Forward).collect();
    let back: Vec<_> = world.patches.iter().filter(|patch| patch.direction == Direction::Back).collect();
    assert!(forward.len() <= 1 && back.len() <= 1, "{:?}", world.patches);
    for patch in &world.patches {
        assert!(!patch.ready && patch.lowered_at.is_some(), "{patch:?}");
    }
    let drain = &world.grant().drain;
    for patch in forward {
        assert!(!patch.cancelled_before, "operated after a cancel was seen");
        let out = patch.at.duration_since(patch.lowered_at.unwrap());
        assert!(out >= SignedDuration::from_secs(i64::from(drain.min_seconds)), "{out}");
        if world.clients == Clients::Uncountable {
            // Counted from the second in which the pod left.
            assert!(out > SignedDuration::from_secs(i64::from(drain.deadline_seconds) - 1), "{out}");
        }
    }
    match outcome {
        Outcome::Done => assert_eq!(world.image(), TO),
        Outcome::RolledBack | Outcome::Cancelled | Outcome::Refused => assert_eq!(world.image(), FROM),
        Outcome::Failed => {}
    }
    // Deadline, progress on the way there, on the way back, and waiting for Ready and for rules; kills prolong none by much.
    let waits = if world.grant().post_check.is_some() { 4 } else { 3 };
    let progress = i64::from(world.grant().verify.progress_seconds);
    let most = 60 + waits * progress + 60 + i64::try_from(kills.len()).unwrap();
    assert!(seconds(world) <= most, "{} s: {outcome:?} {reason}", seconds(world));
}

/// The new container starts in the very moment in which the agent, which has lost its memory, decides to undo it.
#[test]
fn what_has_just_started_is_not_taken_for_the_container_that_comes_back() {
    let mut world = World::new(grant(start()), Image::Good(0));
    world.clients = Clients::Leave(27_948);
    world.faults =
        vec![Fault::KilledAfter, Fault::None, Fault::KilledAfter, Fault::None, Fault::Unanswered, Fault::Unanswered];
    world.kubelet.stopping = 25_052;
    world.transition.spec.grants[0].drain.stragglers = StragglerPolicy::Wait;
    world.transition.spec.grants[0].verify =
        VerifySpec { progress_seconds: 600, soak_seconds: 0, alone: false, crashes: None };
    let disturbances = Disturbances { kills: Vec::new(), cancel_at: Some(28_249), blips: Vec::new() };
    world.run_disturbed(LIMIT, &disturbances);
    assert_sound(&world, &disturbances.kills);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn killed_anywhere_every_grant_ends_and_no_pod_is_lost(
        image in images(),
        clients in clients(),
        faults in faults(),
        stragglers in policies(),
        soak in prop_oneof![3 => Just(0_u32), 1 => 1..30_u32],
        cancel_at in prop::option::weighted(0.3, 0..70_000_i64),
        kills in prop::collection::vec(0..90_000_i64, 0..6),
        dead_kubelet in prop::bool::weighted(0.05),
        stopping in prop_oneof![Just(110_i64), 100..30_000_i64],
        rules in prop::option::of(prop_oneof![4 => (0..30_000_i64).prop_map(Rules::Pass), 1 => Just(Rules::NeverPass)]),
        // Longer than the kubelet takes to stop a container.
        progress in prop_oneof![1 => Just(600_u32), 1 => 100..200_u32],
        // Granted as an unavailable pod, which recovers, unless it is operated before.
        unready in prop::option::weighted(0.3, 1..5_000_i64),
        blips in prop::collection::vec((0..90_000_i64, 1..5_000_i64), 0..3),
        alone in any::<bool>(),
    ) {
        let mut world = World::new(grant(start()), image);
        world.clients = clients;
        world.faults = faults;
        world.kubelet.dead = dead_kubelet;
        world.kubelet.stopping = stopping;
        world.transition.spec.grants[0].drain.stragglers = stragglers;
        world.transition.spec.grants[0].verify = VerifySpec { progress_seconds: progress, soak_seconds: soak, alone, crashes: alone.then_some(1 + soak % 3) };
        if let Some(rules) = rules {
            world.check(rules);
        }
        if let Some(milliseconds) = unready {
            world.transition.spec.grants[0].while_unavailable = true;
            world.unready_for(milliseconds);
        }
        let disturbances = Disturbances { kills, cancel_at, blips };
        world.run_disturbed(LIMIT, &disturbances);
        assert_sound(&world, &disturbances.kills);
    }
}
