//! Objects of ours that somebody deletes by hand: administrators, tools that restore a namespace.

use hitless_api::ledger::CLUSTER;
use hitless_api::{Cancel, Grant, Outcome, Phase};
use serde_json::json;

use crate::cluster::{Cluster, view};
use crate::holds::{finish, held};
use crate::node::Fate;
use crate::scenarios::{roll, turns};
use crate::test_controller::{ALL, LEDGERS, PODS, TestController, Writing};

/// Three pods, of which one may be away, and the first one has left service.
fn left(cluster: Cluster) -> (Cluster, TestController, Grant) {
    let mut cluster = cluster;
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    assert!(cluster.agent(0, Fate::Done), "draining");
    let grant = cluster.grants()[0].clone();
    (cluster, controller, grant)
}

fn out_of_service(cluster: &Cluster) -> usize {
    cluster.pods.values().map(view).filter(|pod| !pod.ready()).count()
}

#[test]
fn a_grant_without_a_reservation_is_taken_back_and_given_anew_and_its_pod_counts_meanwhile() {
    for is_wide in [false, true] {
        let cluster = Cluster::new(3, 1);
        let (mut cluster, mut controller, grant) = left(if is_wide { cluster.cluster_wide(1) } else { cluster });
        cluster.ledgers.remove("shop");
        for _ in 0..5 {
            turns(&mut cluster, &mut controller, 1);
            assert_eq!(cluster.grants().len(), 1, "its place is taken");
        }
        let taken_back = cluster.grants()[0].clone();
        assert_eq!(taken_back.cancel.unwrap().reason, Cancel::NO_RESERVATION);
        assert_eq!(taken_back.granted, grant.granted);
        assert!(cluster.agent(0, Fate::Done), "it returns");
        assert_eq!(out_of_service(&cluster), 0);
        turns(&mut cluster, &mut controller, 3);
        let anew = cluster.grants()[0].clone();
        assert!(anew.granted > grant.granted && anew.cancel.is_none(), "the rollout goes on");
        assert!(cluster.ledgers["shop"].spec.reservations.contains_key(&anew.pod.uid));
        roll(&mut cluster, &mut controller);
        cluster.assert_at_rest();
        assert!(!is_wide || cluster.ledgers.contains_key(CLUSTER));
    }
}

#[test]
fn a_pod_that_was_operated_already_needs_no_reservation_to_return() {
    let (mut cluster, mut controller, _) = left(Cluster::new(3, 1));
    assert!(cluster.agent(0, Fate::Done), "patched");
    cluster.ledgers.remove("shop");
    turns(&mut cluster, &mut controller, 4);
    let grant = cluster.grants()[0].clone();
    assert_eq!((cluster.grants().len(), grant.cancel), (1, None));
    assert!(cluster.agent(0, Fate::Done), "it returns");
    turns(&mut cluster, &mut controller, 3);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn a_pod_whose_operation_has_ended_counts_without_a_reservation_until_it_is_known_to_be_back() {
    let (mut cluster, mut controller, grant) = left(Cluster::new(3, 1));
    cluster.ledgers.remove("shop");
    cluster.report(&grant, Phase::Returning, Some((Outcome::Cancelled, Cancel::NO_RESERVATION)));
    assert_eq!(out_of_service(&cluster), 1);
    // In the controller's cache the pod has not left yet.
    controller.refresh(&cluster, ALL - PODS);
    let _ = controller.turn(&mut cluster, Writing::All);
    let others = cluster.grants().iter().filter(|other| other.pod != grant.pod).count();
    let reserved = cluster.ledgers.get("shop").map_or(0, |ledger| ledger.spec.reservations.len());
    assert_eq!((others, reserved), (0, 0));
}

#[test]
fn a_reservation_that_is_only_missing_in_an_old_cache_is_not_taken_for_deleted() {
    let mut cluster = Cluster::new(3, 1);
    let mut second = TestController::new(2, &cluster);
    let mut first = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 3);
    assert!(cluster.agent(0, Fate::Done), "draining");
    for _ in 0..3 {
        second.refresh(&cluster, ALL - LEDGERS);
        let _ = second.turn(&mut cluster, Writing::All);
        assert_eq!(cluster.grants()[0].cancel, None);
    }
    turns(&mut cluster, &mut second, 3);
    assert_eq!(cluster.grants()[0].cancel, None);
    roll(&mut cluster, &mut second);
    cluster.assert_at_rest();
}

/// The kubelet says that the pod's container runs since `ago` seconds, and is Ready or not.
fn kubelet_says(cluster: &mut Cluster, uid: &str, ago: i64, is_ready: bool) {
    let now = cluster.now;
    cluster.now -= jiff::SignedDuration::from_secs(ago);
    let running = json!({"running": {"startedAt": cluster.now.to_string()}});
    cluster.set_ready(uid, is_ready);
    cluster.now = now;
    let status = json!([{"name": "web", "image": "web:v1", "imageID": "web@sha256:1", "containerID": format!("c://{ago}"),
        "ready": is_ready, "restartCount": 0, "state": running}]);
    cluster.change_pod(uid, |pod| pod["status"]["containerStatuses"] = status);
}

#[test]
fn a_service_stays_open_until_a_patched_pod_is_back_though_its_grant_is_gone() {
    let (mut cluster, mut controller, grant) = held(&["web"]);
    let uid = grant.pod.uid.as_str();
    assert!(cluster.agent(0, Fate::Done) && cluster.agent(0, Fate::Done), "patched");
    cluster.transitions.clear();
    // The old container runs, and is Ready: the kubelet is about to stop it.
    kubelet_says(&mut cluster, uid, 3600, true);
    controller.turns(&mut cluster, 6, 100);
    assert!(cluster.see_service("web").open);
    kubelet_says(&mut cluster, uid, 3600, false);
    controller.turns(&mut cluster, 6, 400);
    assert!(cluster.see_service("web").open);
    assert!(cluster.ledgers["shop"].spec.reservations.contains_key(uid), "and it counts");
    kubelet_says(&mut cluster, uid, 0, true);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn a_patched_pod_whose_grant_is_gone_is_not_waited_for_without_end() {
    let (mut cluster, mut controller, grant) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done) && cluster.agent(0, Fate::Done), "patched");
    cluster.transitions.clear();
    kubelet_says(&mut cluster, &grant.pod.uid, 3600, false);
    controller.turns(&mut cluster, 6, 400);
    assert!(cluster.see_service("web").open);
    cluster.pass(120_000);
    controller.turns(&mut cluster, 6, 400);
    assert!(!cluster.see_service("web").open);
    assert!(cluster.ledgers["shop"].spec.reservations.is_empty());
}
