//! Labels are changed on a pod that stays in service.

use std::collections::BTreeMap;

use hitless_api::{Change, Grant, GrantMode, GrantOp, Outcome};
use jiff::SignedDuration;

use crate::world::kubelet::Image;
use crate::world::pod::FROM;
use crate::world::{Fault, World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_mins(10);

fn change(from: Option<&str>, to: Option<&str>) -> Change {
    Change { from: from.map(ToOwned::to_owned), to: to.map(ToOwned::to_owned) }
}

fn relabel() -> Grant {
    let labels =
        [("chart", change(Some("1"), Some("2"))), ("old", change(Some("a"), None)), ("new", change(None, Some("b")))];
    let labels = labels.into_iter().map(|(name, change)| (name.to_owned(), change)).collect();
    let (containers, before) = (BTreeMap::new(), BTreeMap::new());
    Grant { op: GrantOp::Relabel, mode: GrantMode::Stay, labels, containers, before, ..grant(start()) }
}

fn world() -> World {
    let mut world = World::new(relabel(), Image::Good(0));
    for (name, value) in [("chart", "1"), ("old", "a")] {
        world.pod.view.labels.insert(name.to_owned(), value.to_owned());
    }
    world
}

fn labels(world: &World) -> Vec<(&str, &str)> {
    let own = ["chart", "new", "old"];
    own.into_iter().filter_map(|name| Some((name, world.pod.view.labels.get(name)?.as_str()))).collect()
}

fn end(world: &World) -> (Outcome, String) {
    world.result().expect("every operation ends")
}

#[test]
fn the_pod_serves_all_the_time_and_one_write_changes_it_wherever_the_agent_is_killed() {
    let faults =
        [Fault::None, Fault::KilledBefore, Fault::KilledAfter, Fault::Lost, Fault::Unanswered, Fault::Conflict];
    for fault in faults {
        for after in 0..4 {
            let mut world = world();
            world.faults = vec![Fault::None; after];
            world.faults.insert(0, fault);
            world.run(LIMIT, |world| {
                assert!(world.in_service() && world.pod.view.ready() && world.runs());
                assert_eq!(world.image(), FROM);
            });
            assert_eq!(end(&world), (Outcome::Done, "Done".to_owned()), "{fault:?} after {after}");
            assert_eq!(labels(&world), [("chart", "2"), ("new", "b")]);
            let writes = world.writes.iter().filter(|what| **what != "nodetransitions/status");
            assert_eq!(writes.collect::<Vec<_>>(), [&"pods"], "{fault:?} after {after}");
        }
    }
}

#[test]
fn what_admission_refuses_and_what_somebody_else_has_changed_is_left_as_it_is() {
    let mut denied = world();
    denied.denied = true;
    denied.run(LIMIT, |_| {});
    assert_eq!(end(&denied), (Outcome::Refused, "AdmissionDenied".to_owned()));
    let mut other = world();
    other.pod.view.labels.insert("chart".to_owned(), "7".to_owned());
    other.run(LIMIT, |_| {});
    assert_eq!(end(&other), (Outcome::Refused, "MetadataChanged".to_owned()));
    assert!(other.patches.is_empty() && labels(&other).contains(&("chart", "7")));
}

#[test]
fn a_cancel_and_a_mode_that_is_not_its_own_change_nothing() {
    let mut cancelled = world();
    cancelled.cancel();
    cancelled.run(LIMIT, |_| {});
    assert_eq!((end(&cancelled).0, labels(&cancelled)), (Outcome::Cancelled, vec![("chart", "1"), ("old", "a")]));
    for mode in [GrantMode::Leave, GrantMode::Hold] {
        let mut world = world();
        world.transition.spec.grants[0].mode = mode;
        world.run(LIMIT, |_| {});
        assert_eq!(end(&world), (Outcome::Refused, "UnsupportedMode".to_owned()));
    }
}
