//! A kubelet that is late in lowering Ready: until then new connections come, and nobody can leave.

use hitless_api::{Outcome, StragglerPolicy};
use jiff::{SignedDuration, Timestamp};

use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::{Clients, World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);
/// Longer than `drain.stragglerAfterSeconds` of the usual grant, which is 30, and shorter than its `deadlineSeconds`, which is 60.
const LATE: i64 = 35;

fn at(seconds: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// After how many seconds the image was patched, and how it ended. The agent is killed every so often.
fn run(clients: Clients, stragglers: StragglerPolicy, late: i64, kill_every: Option<i64>) -> (Option<i64>, World) {
    let mut world = World::new(grant(start()), Image::Good(200));
    world.transition.spec.grants[0].drain.stragglers = stragglers;
    (world.clients, world.kubelet.late) = (clients, late * 1000);
    let kills: Vec<Timestamp> =
        kill_every.into_iter().flat_map(|every| (1..200 / every).map(move |n| at(n * every))).collect();
    world.alarms.clone_from(&kills);
    world.run(LIMIT, |world| {
        if kills.contains(&world.now) {
            world.kill();
        }
    });
    assert!(world.in_service());
    let patched = world.patches.first().map(|patch| patch.at.duration_since(start()).as_secs());
    (patched, world)
}

#[test]
fn clients_have_all_of_their_time_once_the_kubelet_has_followed() {
    for kill_every in [None, Some(7)] {
        for (clients, stragglers, after) in [
            (Clients::Leave(5000), StragglerPolicy::Close, 6),
            (Clients::Leave(20_000), StragglerPolicy::Abort, 21),
            (Clients::Stay, StragglerPolicy::Close, 30),
            (Clients::Stay, StragglerPolicy::Wait, 60),
        ] {
            let (patched, world) = run(clients, stragglers, LATE, kill_every);
            let patched = patched.unwrap();
            assert!((LATE + after - 1..LATE + after + 3).contains(&patched), "{clients:?} {stragglers:?}: {patched} s");
            assert_eq!((world.image(), world.result()), (TO, Some((Outcome::Done, "Done".to_owned()))));
        }
    }
}

#[test]
fn a_kubelet_that_never_follows_ends_at_the_deadline_and_one_that_just_does_takes_no_more_than_twice_as_long() {
    let (patched, world) = run(Clients::Stay, StragglerPolicy::Close, 70, None);
    assert_eq!((patched, world.image()), (None, FROM));
    assert_eq!(world.result(), Some((Outcome::Failed, "NotLeaving".to_owned())));
    let (patched, _) = run(Clients::Stay, StragglerPolicy::Wait, 58, None);
    assert!((115..=120).contains(&patched.unwrap()), "{patched:?} s");
}
