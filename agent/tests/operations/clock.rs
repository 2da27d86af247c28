//! Whose time it is: a version is judged by its own, and not by what the one before it needs to stop.

use hitless_api::{GrantMode, Outcome};
use jiff::{SignedDuration, Timestamp};

use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::{World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);

fn at(seconds: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn seconds(world: &World) -> i64 {
    world.now.duration_since(start()).as_secs()
}

/// A start may take 30 s; the old container takes `stops` of the `grace` that it has, in seconds. The agent is killed every so often.
fn run(mode: GrantMode, image: Image, (grace, stops): (u32, i64), kill_every: Option<i64>) -> World {
    let mut world = World::new(grant(start()), image);
    let grant = &mut world.transition.spec.grants[0];
    (grant.mode, grant.verify.progress_seconds) = (mode, 30);
    (world.pod.view.grace_seconds, world.kubelet.stopping) = (grace, stops * 1000);
    let kills: Vec<Timestamp> =
        kill_every.into_iter().flat_map(|every| (1..400 / every).map(move |count| at(count * every))).collect();
    world.alarms.clone_from(&kills);
    world.run(LIMIT, |world| {
        if kills.contains(&world.now) {
            world.kill();
        }
    });
    assert!(world.in_service());
    world
}

#[test]
fn an_old_container_may_take_the_time_to_stop_that_its_spec_allows() {
    for mode in [GrantMode::Leave, GrantMode::Hold] {
        for kill_every in [None, Some(7)] {
            let world = run(mode.clone(), Image::Good(200), (60, 40), kill_every);
            assert_eq!(world.result(), Some((Outcome::Done, "Done".to_owned())), "{mode:?}");
            assert_eq!((world.image(), world.patches.len()), (TO, 1));
            assert!((40..50).contains(&seconds(&world)), "{} s", seconds(&world));
        }
    }
}

#[test]
fn a_kubelet_that_does_not_end_the_old_container_is_not_held_against_the_version() {
    for mode in [GrantMode::Leave, GrantMode::Hold] {
        let world = run(mode.clone(), Image::Good(200), (30, 3000), None);
        assert_eq!(world.result(), Some((Outcome::Failed, "NotReplaced".to_owned())), "{mode:?}");
        assert_eq!((world.image(), world.patches.len()), (TO, 1), "nothing is put back");
        assert!((42..47).contains(&seconds(&world)), "{} s", seconds(&world));
        let report = world.transition.transition(world.grant()).unwrap();
        assert!(report.message.contains("the node's fault"), "{}", report.message);
        assert!(report.result.as_ref().unwrap().is_of_pod_only());
    }
}

#[test]
fn a_version_that_is_never_ready_is_undone_when_its_own_time_is_over_and_its_stop_is_not_held_against_the_one_before() {
    for kill_every in [None, Some(7)] {
        let world = run(GrantMode::Leave, Image::NeverReady, (60, 40), kill_every);
        assert_eq!(world.result(), Some((Outcome::RolledBack, "ProgressDeadlineExceeded".to_owned())));
        assert_eq!(world.image(), FROM);
        let [there, back] = world.patches[..] else { panic!("{:?}", world.patches) };
        let between = back.at.duration_since(there.at).as_secs();
        assert!((69..80).contains(&between), "undone after {between} s");
    }
}

#[test]
fn a_cancel_waits_for_a_stop_that_is_under_way() {
    let mut world = World::new(grant(start()), Image::Good(200));
    (world.kubelet.stopping, world.alarms) = (20_000, vec![at(5)]);
    world.run(LIMIT, |world| {
        if world.now >= at(5) && world.grant().cancel.is_none() {
            world.cancel();
        }
    });
    assert_eq!(world.result(), Some((Outcome::RolledBack, "ChangedBack".to_owned())));
    let [there, back] = world.patches[..] else { panic!("{:?}", world.patches) };
    assert!(back.at.duration_since(there.at).as_secs() >= 20, "the kubelet would start the new version all the same");
}

#[test]
fn while_the_clock_stands_nothing_is_judged_and_afterwards_it_has_its_time() {
    for kill_every in [None, Some(9)] {
        let mut world = World::new(grant(start()), Image::NeverReady);
        world.transition.spec.grants[0].verify.progress_seconds = 30;
        let kills: Vec<Timestamp> =
            kill_every.into_iter().flat_map(|every| (1..180 / every).map(move |count| at(count * every))).collect();
        world.alarms = kills.iter().copied().chain([at(10), at(110)]).collect();
        world.run(LIMIT, |world| {
            if kills.contains(&world.now) {
                world.kill();
            }
            if world.now == at(10) {
                world.transition.spec.grants[0].stands = Some(hitless_api::MicroTime(at(10)));
            }
            if world.now == at(110) {
                let grant = &mut world.transition.spec.grants[0];
                (grant.stands, grant.verify.progress_seconds) = (None, 30 + 101);
            }
        });
        assert_eq!(world.result(), Some((Outcome::RolledBack, "ProgressDeadlineExceeded".to_owned())));
        let [there, back] = world.patches[..] else { panic!("{:?}", world.patches) };
        let between = back.at.duration_since(there.at).as_secs();
        assert!((130..140).contains(&between), "undone after {between} s");
    }
}

#[test]
fn a_container_that_crashes_while_others_serve_is_the_kubelets_to_start_again() {
    let mut world = World::new(grant(start()), Image::Crashes);
    world.transition.spec.grants[0].verify.progress_seconds = 30;
    let mut said = String::new();
    world.run(LIMIT, |world| {
        let report = world.transition.transition(world.grant()).filter(|report| report.rollback.is_none());
        if let Some(report) = report.filter(|report| !report.message.is_empty() && report.result.is_none()) {
            said.clone_from(&report.message);
        }
    });
    assert_eq!(world.result(), Some((Outcome::RolledBack, "CrashLoopBackOff".to_owned())));
    assert!((31..36).contains(&seconds(&world)), "{} s", seconds(&world));
    assert!(said.contains("it has ended once; the kubelet tries again, and others serve"), "{said}");
}
