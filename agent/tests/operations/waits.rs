//! Grants that wait for something outside of the pod: a load balancer.

use hitless_api::{GrantMode, Outcome, StragglerPolicy, Wait, WaitPoint, WaitState};
use jiff::{SignedDuration, Timestamp};

use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::{World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);
/// `verify.progressSeconds` of the usual grant.
const PROGRESS: i64 = 600;
/// `drain.deadlineSeconds` of the usual grant. It counts from a time in whole seconds.
const DEADLINE: i64 = 60;

fn at(seconds: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn waiting(points: &[WaitPoint]) -> World {
    let mut world = World::new(grant(start()), Image::Good(200));
    let waits = points.iter().map(|point| Wait::pending("edge/shop".to_owned(), point.clone(), "it drains"));
    world.transition.spec.grants[0].waits = waits.collect();
    world
}

/// Runs it; the waits before `point` pass at that second. The agent is killed at the alarms.
fn run(world: &mut World, passes: &[(WaitPoint, i64)], kill_every: Option<i64>) {
    let kills: Vec<Timestamp> =
        kill_every.into_iter().flat_map(|every| (1..700 / every).map(move |n| at(n * every))).collect();
    world.alarms = passes.iter().map(|(_, second)| at(*second)).chain(kills.iter().copied()).collect();
    world.run(LIMIT, |world| {
        if kills.contains(&world.now) {
            world.kill();
        }
        for (point, second) in passes.iter().filter(|(_, second)| at(*second) <= world.now) {
            let waits = &mut world.transition.spec.grants[0].waits;
            waits.iter_mut().filter(|wait| wait.before == *point).for_each(|wait| wait.state = WaitState::Passed);
            let _ = second;
        }
    });
}

fn seconds(time: Timestamp) -> i64 {
    time.duration_since(start()).as_secs()
}

#[test]
fn nothing_is_replaced_before_the_load_balancer_has_the_pod_out() {
    for kill_every in [None, Some(7)] {
        let mut world = waiting(&[WaitPoint::Operate]);
        run(&mut world, &[(WaitPoint::Operate, 45)], kill_every);
        assert_eq!(world.result(), Some((Outcome::Done, "Done".to_owned())));
        let patched = seconds(world.patches[0].at);
        assert!((45..47).contains(&patched), "after {patched} s: also not when stragglers are given up, at 30 s");
    }
}

/// Whoever protects the pod by a finalizer says when it may be operated.
#[test]
fn no_deadline_operates_a_pod_that_others_protect() {
    for stragglers in [StragglerPolicy::Close, StragglerPolicy::Wait, StragglerPolicy::Destroy] {
        let mut world = waiting(&[WaitPoint::Operate]);
        let grant = &mut world.transition.spec.grants[0];
        grant.drain.stragglers = stragglers;
        grant.waits[0].name = hitless_api::lifecycle::PROTECTION.to_owned();
        run(&mut world, &[(WaitPoint::Operate, 300)], Some(70));
        assert_eq!(world.result(), Some((Outcome::Done, "Done".to_owned())));
        let patched = seconds(world.patches[0].at);
        assert!((300..303).contains(&patched), "after {patched} s, {stragglers:?}");
    }
}

#[test]
fn a_wait_that_never_passes_ends_at_the_deadline_of_the_drain_as_the_policy_says() {
    for (stragglers, image, result) in [
        (StragglerPolicy::Close, TO, (Outcome::Done, "Done")),
        (StragglerPolicy::Wait, TO, (Outcome::Done, "Done")),
        (StragglerPolicy::Destroy, TO, (Outcome::Done, "Done")),
        (StragglerPolicy::Abort, FROM, (Outcome::Failed, "DeadlineAborted")),
    ] {
        for kill_every in [None, Some(7)] {
            let mut world = waiting(&[WaitPoint::Operate]);
            world.transition.spec.grants[0].drain.stragglers = stragglers;
            run(&mut world, &[], kill_every);
            assert_eq!(
                (world.image(), world.result()),
                (image, Some((result.0, result.1.to_owned()))),
                "{stragglers:?}"
            );
            assert!(world.in_service());
            let patched = world.patches.first().map(|patch| seconds(patch.at));
            assert!(patched.is_none_or(|patched| (DEADLINE - 1..DEADLINE + 3).contains(&patched)), "{patched:?} s");
        }
    }
}

#[test]
fn the_operation_is_done_once_the_load_balancer_shows_that_the_pod_serves() {
    let mut world = waiting(&[WaitPoint::Done]);
    run(&mut world, &[(WaitPoint::Done, 90)], None);
    assert_eq!(world.result(), Some((Outcome::Done, "Done".to_owned())));
    assert!((90..93).contains(&seconds(world.now)), "{} s", seconds(world.now));
    let mut world = waiting(&[WaitPoint::Done]);
    run(&mut world, &[], Some(50));
    assert_eq!(world.result(), Some((Outcome::Done, "NotServing".to_owned())), "it is in service all the same");
    assert!((PROGRESS..PROGRESS + 10).contains(&seconds(world.now)), "{} s", seconds(world.now));
    assert!(world.in_service());
}

#[test]
fn a_cancel_ends_a_wait() {
    let mut world = waiting(&[WaitPoint::Operate, WaitPoint::Done]);
    world.alarms = vec![at(10)];
    world.run(LIMIT, |world| {
        if world.now >= at(10) {
            world.cancel();
        } else {
            assert!(world.patches.is_empty());
        }
        if world.in_service() && world.now >= at(10) {
            world.transition.spec.grants[0].waits.iter_mut().for_each(|wait| wait.state = WaitState::Passed);
        }
    });
    assert_eq!((world.image(), world.result()), (FROM, Some((Outcome::Cancelled, "ChangedBack".to_owned()))));
}

#[test]
fn a_wait_that_this_agent_does_not_know_is_refused_by_name_and_so_is_one_in_a_hold() {
    let mut world = waiting(&[WaitPoint::Unknown("Lunch".to_owned())]);
    run(&mut world, &[], None);
    assert_eq!((world.image(), world.result()), (FROM, Some((Outcome::Refused, "UnsupportedWait".to_owned()))));
    let mut world = waiting(&[WaitPoint::Operate]);
    world.transition.spec.grants[0].mode = GrantMode::Hold;
    run(&mut world, &[], None);
    assert_eq!((world.image(), world.result()), (FROM, Some((Outcome::Refused, "UnsupportedMode".to_owned()))));
}
