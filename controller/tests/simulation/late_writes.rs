//! Writes that arrive late or never: of leaders that are killed between two of them, deposed, or not answered.

use hitless_api::ledger::CLUSTER;

use crate::cluster::Cluster;
use crate::node::Fate;
use crate::scenarios::{roll, turn, turns};
use crate::test_controller::{ALL, TestController, Writing};

/// What was sent and not answered.
fn in_flight(controller: &TestController) -> Vec<&'static str> {
    controller.in_flight.iter().map(|write| write.verb).collect()
}

#[test]
fn killed_between_ledger_and_grant_the_next_leader_writes_the_grant() {
    let mut cluster = Cluster::new(3, 1);
    let mut first = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 2);
    first.refresh(&cluster, ALL);
    let _ = first.turn(&mut cluster, Writing::Killed(1));
    assert_eq!((cluster.ledgers["shop"].spec.reservations.len(), cluster.grants().len()), (1, 0));
    let mut second = TestController::new(2, &cluster);
    turns(&mut cluster, &mut second, 2);
    assert_eq!((cluster.ledgers["shop"].spec.reservations.len(), cluster.grants().len()), (1, 1));
    assert_eq!(cluster.ledgers["shop"].spec.leader.epoch, 2);
    roll(&mut cluster, &mut second);
    cluster.assert_at_rest();
}

#[test]
fn a_place_without_a_grant_whose_wish_is_gone_is_freed_behind_a_fence() {
    let mut cluster = Cluster::new(3, 1);
    let mut first = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 2);
    first.refresh(&cluster, ALL);
    // Its grant is sent and not answered.
    let _ = first.turn(&mut cluster, Writing::Unanswered(1));
    cluster.set_image(1);
    let mut second = TestController::new(2, &cluster);
    turns(&mut cluster, &mut second, 4);
    assert!(cluster.ledgers["shop"].spec.reservations.is_empty());
    first.arrive(&mut cluster);
    assert!(cluster.grants().is_empty(), "the late grant fails on the fence");
    roll(&mut cluster, &mut second);
    cluster.assert_at_rest();
}

#[test]
fn a_place_in_the_clusters_ledger_alone_is_freed_behind_a_fence_in_the_namespaces_ledger() {
    let mut cluster = Cluster::new(3, 1).cluster_wide(1);
    let mut first = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 2);
    first.refresh(&cluster, ALL);
    // The write to the namespace's ledger is sent and not answered.
    let _ = first.turn(&mut cluster, Writing::Unanswered(1));
    assert_eq!(cluster.ledgers[CLUSTER].spec.reservations.len(), 1);
    assert!(!cluster.ledgers.contains_key("shop"));
    let mut second = TestController::new(2, &cluster);
    second.refresh(&cluster, ALL);
    let _ = second.turn(&mut cluster, Writing::All);
    let _ = second.turn(&mut cluster, Writing::All);
    assert_eq!(cluster.ledgers["shop"].spec.leader.epoch, 2, "created as a fence");
    assert_eq!(cluster.ledgers[CLUSTER].spec.reservations.len(), 1, "freed only once the fence is seen");
    first.arrive(&mut cluster);
    assert!(cluster.ledgers["shop"].spec.reservations.is_empty(), "the late write fails on the fence");
    roll(&mut cluster, &mut second);
    cluster.assert_at_rest();
}

#[test]
fn a_deposed_leader_writes_nothing() {
    let mut cluster = Cluster::new(3, 3);
    let (mut old, mut new) = (TestController::new(1, &cluster), TestController::new(2, &cluster));
    cluster.set_image(2);
    turns(&mut cluster, &mut new, 4);
    cluster.scale(4);
    let before = cluster.written.clone();
    turns(&mut cluster, &mut old, 3);
    assert_eq!(cluster.written, before);
}

#[test]
fn a_fence_does_not_hold_against_a_later_write_without_an_answer() {
    let mut cluster = Cluster::new(3, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 2);
    turn(&mut cluster, &mut controller, Writing::Killed(1));
    cluster.set_image(1);
    turn(&mut cluster, &mut controller, Writing::Killed(1));
    assert!(cluster.transitions.values().any(|node| node.fence.is_some()), "fenced, not freed yet");
    // The operation is wanted again, and the grant is sent and not answered; then it is wanted no more.
    cluster.set_image(2);
    turn(&mut cluster, &mut controller, Writing::Unanswered(0));
    assert_eq!(in_flight(&controller), ["node-transition"]);
    cluster.set_image(1);
    turn(&mut cluster, &mut controller, Writing::All);
    assert_eq!(cluster.ledgers["shop"].spec.reservations.len(), 1, "the grant may still arrive");
    turns(&mut cluster, &mut controller, 3);
    assert!(cluster.ledgers["shop"].spec.reservations.is_empty());
    controller.arrive(&mut cluster);
    assert!(cluster.grants().is_empty());
}

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
    // The same operation as before, with the same id.
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
    // It is wanted no more: fenced, then freed without an answer.
    cluster.set_image(1);
    turn(&mut cluster, &mut controller, Writing::All);
    turn(&mut cluster, &mut controller, Writing::Unanswered(0));
    assert_eq!(in_flight(&controller), ["ledger"]);
    assert_eq!(cluster.ledgers["shop"].spec.reservations.len(), 1);
    // The operation is wanted again, and its plan is written; the place is freed without an answer once more.
    cluster.set_image(2);
    turn(&mut cluster, &mut controller, Writing::Unanswered(0));
    assert_eq!(in_flight(&controller), ["ledger", "ledger"]);
    for _ in 0..3 {
        turn(&mut cluster, &mut controller, Writing::All);
    }
    assert_eq!(cluster.grants().len(), 1);
    controller.arrive(&mut cluster);
    assert_eq!(cluster.ledgers["shop"].spec.reservations.len(), 1, "the late release fails");
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}
