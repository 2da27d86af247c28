//! A place that passes from an operation that was refused, or has ended, to the next one of the same pod.

use hitless_rollout::round::Write;

use crate::cluster::Cluster;
use crate::node::Fate;
use crate::scenarios::{roll, turn, turns};
use crate::test_controller::{TestController, Writing};

/// A single pod that has gone down by itself, with a grant that its agent has refused for the moment.
fn refused_and_down() -> (Cluster, TestController) {
    let mut cluster = Cluster::new(1, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    let uid = cluster.pods.keys().next().unwrap().clone();
    cluster.set_ready(&uid, false);
    assert!(cluster.agent(0, Fate::Expired));
    (cluster, controller)
}

#[test]
fn a_pod_that_goes_down_after_a_passing_refusal_is_operated_all_the_same() {
    let (mut cluster, mut controller) = refused_and_down();
    let refused = cluster.grants()[0].clone();
    turns(&mut cluster, &mut controller, 3);
    let grants = cluster.grants();
    assert_eq!((grants.len(), &grants[0].id), (1, &refused.id));
    assert!(grants[0].granted > refused.granted, "granted anew");
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn killed_while_a_place_passes_on_the_next_leader_never_grants_beside_the_operation_that_has_ended() {
    let (mut cluster, mut first) = refused_and_down();
    let refused = cluster.grants()[0].clone();
    cluster.set_image(3);
    let is_passed = |cluster: &Cluster| cluster.ledgers["shop"].spec.reservations.values().all(|p| p.id != refused.id);
    for _ in 0..10 {
        if !is_passed(&cluster) {
            turn(&mut cluster, &mut first, Writing::Killed(1));
        }
        cluster.controllers();
    }
    assert!(is_passed(&cluster), "{:?}", cluster.ledgers["shop"].spec.reservations);
    assert_eq!(cluster.grants(), [refused], "the old one stands, and the new one was not written");
    // The same wish as before, with the same id.
    cluster.set_image(2);
    let mut second = TestController::new(2, &cluster);
    for _ in 0..20 {
        turns(&mut cluster, &mut second, 1);
        assert!(cluster.grants().len() <= 1, "{:?}", cluster.grants());
    }
    roll(&mut cluster, &mut second);
    cluster.assert_at_rest();
}

#[test]
fn a_place_whose_release_was_not_answered_is_granted_only_once_that_cannot_arrive() {
    let mut cluster = Cluster::new(1, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 2);
    turn(&mut cluster, &mut controller, Writing::Killed(1));
    // The wish is gone: fenced, then freed without an answer.
    cluster.set_image(1);
    turn(&mut cluster, &mut controller, Writing::All);
    turn(&mut cluster, &mut controller, Writing::Unanswered(0));
    assert!(matches!(controller.in_flight[..], [Write::Ledger(_)]), "{:?}", controller.in_flight);
    assert_eq!(cluster.ledgers["shop"].spec.reservations.len(), 1);
    // The wish is back, and its plan is written; the place is freed without an answer once more.
    cluster.set_image(2);
    turn(&mut cluster, &mut controller, Writing::Unanswered(0));
    assert!(matches!(controller.in_flight[..], [Write::Ledger(_), Write::Ledger(_)]), "{:?}", controller.in_flight);
    for _ in 0..3 {
        turn(&mut cluster, &mut controller, Writing::All);
    }
    assert_eq!(cluster.grants().len(), 1);
    controller.arrive(&mut cluster);
    assert_eq!(cluster.ledgers["shop"].spec.reservations.len(), 1, "the late release fails");
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}
