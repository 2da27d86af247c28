//! Grants with a condition: begun only while the pod is unavailable, ended only once the rules of stage `PostCheck` pass.

use hitless_api::{Outcome, Phase, PostCheck, Transition};
use jiff::{SignedDuration, Timestamp};

use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::rules::Rules;
use crate::world::{Fault, World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);
/// `verify.progressSeconds` of the usual grant.
const PROGRESS: i64 = 600;

fn at(seconds: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// A pod whose new image is ready at once and then waits for rules.
fn checked(image: Image, rules: Rules) -> World {
    let mut world = World::new(grant(start()), image);
    world.check(rules);
    world
}

/// A pod that is not ready, granted for that reason.
fn unavailable() -> World {
    let mut world = World::new(grant(start()), Image::Good(0));
    world.transition.spec.grants[0].while_unavailable = true;
    world.unready_for(3_600_000);
    world
}

fn reported(world: &World) -> Option<&Transition> {
    world.transition.transition(world.grant())
}

fn is_checking(world: &World) -> bool {
    reported(world).is_some_and(|reported| reported.phase == Phase::Checking)
}

fn assert_ended(world: &World, outcome: Outcome, reason: &str) {
    assert_eq!(world.result(), Some((outcome, reason.to_owned())));
    assert!(world.in_service());
    assert_eq!(world.image(), if outcome == Outcome::Done { TO } else { FROM });
}

fn seconds(world: &World) -> i64 {
    world.now.duration_since(start()).as_secs()
}

#[test]
fn a_verified_pod_asks_at_once_and_returns_once_the_rules_pass() {
    let mut world = checked(Image::Good(200), Rules::Pass(40_000));
    let mut asked = None;
    world.run(LIMIT, |world| {
        if asked.is_none() && is_checking(world) {
            asked = Some((world.now, reported(world).cloned().unwrap()));
        }
    });
    assert_ended(&world, Outcome::Done, "Done");
    let (time, report) = asked.expect("the phase is reported");
    assert!(time < at(2), "reported at {time}");
    assert!(!report.message.is_empty() && report.deadline.is_some());
    assert!((41..43).contains(&seconds(&world)), "{} s", seconds(&world));
    let writes = ["pods/status", "pods", "nodetransitions/status", "pods/status", "nodetransitions/status"];
    assert_eq!(world.writes, writes);
}

#[test]
fn the_wait_for_the_rules_begins_when_the_pod_is_verified_and_not_when_that_could_be_written() {
    let mut world = checked(Image::Good(200), Rules::NeverPass);
    // Taken from the end: both writes to the pod are done, then reports are lost for a while.
    world.faults = vec![Fault::Lost; 400];
    world.faults.extend([Fault::None; 2]);
    world.run(LIMIT, |world| {
        if let Some(report) = reported(world).filter(|report| report.phase == Phase::Checking) {
            let end = report.since.0.checked_add(SignedDuration::from_secs(PROGRESS)).unwrap();
            assert_eq!(report.deadline.as_ref().map(|deadline| deadline.0), Some(end));
        }
    });
    assert_ended(&world, Outcome::RolledBack, "PostCheckTimedOut");
    assert!((PROGRESS..PROGRESS + 5).contains(&seconds(&world)), "{} s", seconds(&world));
}

#[test]
fn rules_that_have_passed_already_cost_nothing() {
    let mut world = World::new(grant(start()), Image::Good(200));
    world.transition.spec.grants[0].post_check = Some(PostCheck::Passed);
    world.run(LIMIT, |_| ());
    assert_ended(&world, Outcome::Done, "Done");
    assert_eq!(world.writes, ["pods/status", "pods", "pods/status", "nodetransitions/status"]);
}

#[test]
fn rules_that_never_pass_undo_the_operation_in_time_however_often_the_agent_is_killed() {
    for kill_every in [None, Some(7), Some(250)] {
        let mut world = checked(Image::Good(200), Rules::NeverPass);
        world.alarms =
            kill_every.into_iter().flat_map(|every| (1..PROGRESS / every).map(move |n| at(n * every))).collect();
        world.run(LIMIT, |world| {
            if world.alarms.contains(&world.now) {
                world.kill();
            }
        });
        assert_ended(&world, Outcome::RolledBack, "PostCheckTimedOut");
        assert!((PROGRESS..PROGRESS + 5).contains(&seconds(&world)), "{} s", seconds(&world));
    }
}

#[test]
fn a_bad_image_is_undone_without_asking() {
    let mut world = checked(Image::Crashes, Rules::NeverPass);
    world.transition.spec.grants[0].verify.alone = true;
    let mut asked = false;
    world.run(LIMIT, |world| asked |= is_checking(world));
    assert_ended(&world, Outcome::RolledBack, "CrashLoopBackOff");
    assert!(!asked && seconds(&world) < 10, "{} s", seconds(&world));
}

#[test]
fn a_cancel_while_the_rules_are_waited_for_undoes() {
    let mut world = checked(Image::Good(0), Rules::Pass(60_000));
    world.alarms = vec![at(30)];
    world.run(LIMIT, |world| {
        if world.now == at(30) {
            assert!(is_checking(world));
            world.cancel();
        }
    });
    assert_ended(&world, Outcome::RolledBack, "ChangedBack");
    assert!(seconds(&world) < 35, "{} s", seconds(&world));
}

#[test]
fn a_pod_that_fails_while_the_rules_are_waited_for_is_judged_as_before() {
    for (image, reason, within) in [
        (Image::RunsFor(20_000), "CrashLoopBackOff", 25),
        (Image::ReadyFor(20_000), "ProgressDeadlineExceeded", PROGRESS + 10),
    ] {
        let mut world = checked(image, Rules::Pass(30_000));
        world.transition.spec.grants[0].verify.alone = true;
        let mut asked = false;
        world.run(LIMIT, |world| asked |= is_checking(world));
        assert!(asked, "{image:?}");
        assert_ended(&world, Outcome::RolledBack, reason);
        assert!(seconds(&world) < within, "{image:?}: {} s", seconds(&world));
    }
}

#[test]
fn a_pod_that_is_unready_for_a_moment_neither_returns_meanwhile_nor_waits_longer_for_the_rules() {
    for (rules, outcome, reason, from) in [
        (Rules::Pass(19_500), Outcome::Done, "Done", 22),
        (Rules::NeverPass, Outcome::RolledBack, "PostCheckTimedOut", PROGRESS),
    ] {
        let mut world = checked(Image::Good(0), rules);
        world.alarms = vec![at(20)];
        world.run(LIMIT, |world| {
            if world.now == at(20) {
                world.unready_for(2_000);
            }
        });
        assert_ended(&world, outcome, reason);
        assert!((from..from + 5).contains(&seconds(&world)), "{rules:?}: {} s", seconds(&world));
    }
}

#[test]
fn a_pod_that_is_unready_again_and_again_does_not_wait_for_ever_even_if_the_agent_is_killed_each_time() {
    for kills in [false, true] {
        let mut world = checked(Image::Good(0), Rules::NeverPass);
        world.alarms = (1..200).map(|count| at(20 * count)).collect();
        let mut phases = Vec::new();
        world.run(LIMIT, |world| {
            if let Some(reported) = reported(world) {
                phases.push(reported.phase);
            }
            if world.alarms.contains(&world.now) {
                world.unready_for(5_000);
                if kills {
                    world.kill();
                }
            }
        });
        phases.dedup();
        assert!(phases.iter().filter(|phase| **phase == Phase::Checking).count() > 10, "{phases:?}");
        assert_ended(&world, Outcome::RolledBack, "ProgressDeadlineExceeded");
        assert!(seconds(&world) < PROGRESS + 30, "{} s", seconds(&world));
    }
}

#[test]
fn an_unavailable_pod_is_operated() {
    let mut world = unavailable();
    world.run(LIMIT, |_| ());
    assert_ended(&world, Outcome::Done, "Done");
}

#[test]
fn a_pod_that_is_ready_before_anything_is_done_is_left_alone() {
    // The write that would have taken it out of service is beaten by the kubelet's, or lost.
    for fault in [Fault::Conflict, Fault::Lost, Fault::KilledBefore] {
        let mut world = unavailable();
        world.faults = vec![fault];
        world.run_round();
        world.unready_for(0);
        world.now = at(1);
        world.kubelet.step(&mut world.pod, at(1));
        world.run(LIMIT, |_| ());
        assert_ended(&world, Outcome::Refused, "PodAvailable");
        // In service it was all the time; it is written so that the lost write fails if it arrives after all.
        assert_eq!(world.writes, ["pods/status", "nodetransitions/status"], "{fault:?}");
    }
}

#[test]
fn a_pod_whose_containers_are_ready_after_it_has_left_is_operated() {
    for fault in [Fault::None, Fault::KilledAfter, Fault::Unanswered] {
        let mut world = unavailable();
        world.faults = vec![fault];
        world.run_round();
        world.unready_for(0);
        world.run(LIMIT, |_| ());
        assert_ended(&world, Outcome::Done, "Done");
    }
}
