//! Single stories.

use std::sync::Arc;

use hitless_api::ledger::CLUSTER;
use hitless_api::{Outcome, Phase, PostCheck};
use hitless_rollout::snapshot::BindingView;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use crate::cluster::{Cluster, NODES};
use crate::node::Fate;
use crate::test_controller::{ALL, PODS, TRANSITIONS, TestController, Writing};

pub(crate) fn turns(cluster: &mut Cluster, controller: &mut TestController, count: usize) {
    controller.turns(cluster, count, 100);
}

/// One turn a moment later, on fresh caches; Kubernetes' own controllers have not acted on it yet.
pub(crate) fn turn(cluster: &mut Cluster, controller: &mut TestController, writing: Writing) {
    cluster.pass(100);
    controller.refresh(cluster, ALL);
    let _ = controller.turn(cluster, writing);
}

pub(crate) fn roll(cluster: &mut Cluster, controller: &mut TestController) {
    for _ in 0..200 {
        turns(cluster, controller, 1);
        let _ = cluster.agent(0, Fate::Done);
        cluster.assert_within_budget(1);
    }
    cluster.agents_forget();
    turns(cluster, controller, 5);
}

#[test]
fn one_at_a_time_costs_one_write_to_the_ledger_and_one_to_a_node_for_each_pod() {
    let mut cluster = Cluster::new(10, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
    assert_eq!(cluster.written["ledger"], 10 + 1, "{:?}", cluster.written);
    assert_eq!(cluster.written["node-transition"], 10 + NODES, "{:?}", cluster.written);
    assert_eq!(cluster.written["workload"], 4, "history, mixed, exact, un-pause");
}

#[test]
fn under_a_cluster_wide_budget_every_pod_has_a_place_in_both_ledgers() {
    let mut cluster = Cluster::new(3, 1).cluster_wide(1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    let place = cluster.ledgers["shop"].spec.reservations.values().next().unwrap().clone();
    let wide = cluster.ledgers[CLUSTER].spec.reservations.values().next().unwrap().clone();
    assert_eq!((wide.id, wide.since, wide.pod), (place.id, place.since, format!("shop/{}", place.pod)));
    assert_eq!(place.rules, ["budget:hitless-system.all/maxUnavailable"]);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn a_rolled_back_pod_halts_the_rollout_until_the_target_changes() {
    let mut cluster = Cluster::new(3, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    for _ in 0..3 {
        assert!(cluster.agent(0, Fate::RolledBack));
    }
    turns(&mut cluster, &mut controller, 10);
    assert_eq!(cluster.images(), ["web:v1"; 3]);
    assert!(cluster.grants().is_empty() && cluster.ledgers["shop"].spec.reservations.is_empty());
    let halted = cluster.deployment["metadata"]["annotations"]["hitless.dev/halted"].as_str().unwrap().to_owned();
    assert!(halted.contains("\"pod\":\"pod-"), "the workload itself tells, not a pod that may be gone: {halted}");
    assert_eq!(cluster.deployment["spec"]["paused"], true);
    // Neither another leader nor a lost pod makes more of it.
    let mut controller = TestController::new(2, &cluster);
    turns(&mut cluster, &mut controller, 10);
    assert_eq!((cluster.images(), cluster.grants().len()), (vec!["web:v1"; 3], 0));
    cluster.set_image(3);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn a_role_binding_that_somebody_deletes_is_made_again_for_the_operation_that_is_under_way_and_for_the_next() {
    let mut cluster = Cluster::new(3, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    assert_eq!((cluster.grants().len(), cluster.bindings.len()), (1, 1));
    turns(&mut cluster, &mut controller, 3);
    assert_eq!(cluster.written["role-binding"], 1, "it is there");
    cluster.bindings.clear();
    turns(&mut cluster, &mut controller, 1);
    assert_eq!((cluster.bindings.len(), cluster.written["role-binding"]), (1, 2));
    // One that is owned by an earlier ledger goes with that one.
    let earlier = BindingView { ledger_uid: Some("uid-earlier".to_owned()), ..(*cluster.bindings["shop"]).clone() };
    cluster.bindings.insert("shop".to_owned(), Arc::new(earlier));
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
    cluster.bindings.clear();
    turns(&mut cluster, &mut controller, 3);
    assert!(cluster.bindings.is_empty(), "nobody needs it now");
}

#[test]
fn a_budget_of_nothing_moves_nothing() {
    let mut cluster = Cluster::new(3, 0);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 10);
    assert!(cluster.grants().is_empty());
    let status = cluster.rules[0].status.as_ref().unwrap();
    assert_eq!(status.targets.len(), 3);
    assert!(
        status.details.iter().all(|detail| !detail.passed && detail.reject_info[0].rule_name.as_deref() == Some("max"))
    );
}

#[test]
fn a_deleted_pod_gives_its_place_back_though_its_agent_says_nothing() {
    let mut cluster = Cluster::new(3, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    let uid = cluster.grants()[0].pod.uid.clone();
    cluster.pods.remove(&uid);
    turns(&mut cluster, &mut controller, 3);
    assert!(!cluster.ledgers["shop"].spec.reservations.contains_key(&uid));
    assert!(cluster.grants().iter().all(|grant| grant.pod.uid != uid));
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn a_change_back_cancels_what_has_not_been_operated() {
    let mut cluster = Cluster::new(2, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    assert!(cluster.agent(0, Fate::Done), "draining");
    cluster.set_image(1);
    turns(&mut cluster, &mut controller, 2);
    assert_eq!(cluster.grants()[0].cancel.as_ref().unwrap().reason, "WishGone");
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn agents_get_their_right_in_a_namespace_before_the_first_grant_there_and_not_with_each_one() {
    let mut cluster = Cluster::new(3, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 2);
    turn(&mut cluster, &mut controller, Writing::Killed(1));
    assert_eq!((cluster.grants().len(), cluster.written.get("role-binding")), (0, None), "only reserved");
    turn(&mut cluster, &mut controller, Writing::All);
    assert_eq!((cluster.grants().len(), cluster.written["role-binding"]), (1, 1));
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
    assert_eq!(cluster.written["role-binding"], 1, "for three pods");
}

#[test]
fn a_pod_that_is_only_missing_in_an_old_cache_keeps_its_place() {
    let mut cluster = Cluster::new(2, 1);
    let mut first = TestController::new(1, &cluster);
    let mut second = TestController::new(2, &cluster);
    // Both pods are new to the second controller.
    cluster.pods.clear();
    cluster.controllers();
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 3);
    assert!(cluster.agent(0, Fate::Done), "draining");
    for _ in 0..4 {
        second.refresh(&cluster, ALL - PODS);
        let _ = second.turn(&mut cluster, Writing::All);
        cluster.assert_within_budget(1);
    }
    assert_eq!(cluster.grants().len(), 1);
    roll(&mut cluster, &mut second);
    cluster.assert_at_rest();
}

#[test]
fn a_pod_whose_application_says_never_keeps_no_other_pod_until_its_owner_overrules_it() {
    let mut cluster = Cluster::new(3, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    let grant = cluster.grants()[0].clone();
    let uid = grant.pod.uid.as_str();
    cluster.change_pod(uid, |pod| pod["metadata"]["annotations"]["hitless.dev/task"] = json!("allowed"));
    cluster.report(&grant, Phase::Granted, Some((Outcome::Refused, "TaskRefused")));
    let of_others = |cluster: &Cluster| cluster.grants().iter().position(|grant| grant.pod.uid != uid);
    for _ in 0..40 {
        turns(&mut cluster, &mut controller, 1);
        if let Some(index) = of_others(&cluster) {
            cluster.agent(index, Fate::Done);
        }
    }
    let mut images = cluster.images();
    images.sort_unstable();
    assert_eq!(images, ["web:v1", "web:v2", "web:v2"], "the others have gone on");
    assert!(cluster.deployment["metadata"]["annotations"]["hitless.dev/halted"].is_null());
    cluster
        .change_pod(uid, |pod| _ = pod["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/task"));
    roll(&mut cluster, &mut controller);
    assert_eq!(cluster.images(), ["web:v2"; 3]);
    cluster.assert_at_rest();
}

#[test]
fn the_result_of_an_earlier_operation_frees_no_place_of_a_later_one_of_the_same_kind() {
    let mut cluster = Cluster::new(1, 1);
    let mut first = TestController::new(1, &cluster);
    let mut second = TestController::new(2, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 3);
    for _ in 0..3 {
        assert!(cluster.agent(0, Fate::RolledBack));
    }
    second.refresh(&cluster, ALL);
    // To another target and back: the same operation once more, for the same pod.
    cluster.set_image(1);
    turns(&mut cluster, &mut first, 6);
    cluster.assert_at_rest();
    cluster.set_image(2);
    turns(&mut cluster, &mut first, 4);
    assert!(cluster.agent(0, Fate::Done), "draining");
    for _ in 0..4 {
        second.refresh(&cluster, ALL - TRANSITIONS);
        let _ = second.turn(&mut cluster, Writing::All);
        cluster.assert_within_budget(1);
    }
}

#[test]
fn the_place_of_a_pod_that_wants_to_return_counts_whatever_was_asked_before() {
    let mut cluster = Cluster::new(3, 1);
    let mut nobody = cluster.rules[0].spec.rules[0].clone();
    (nobody.name, nobody.stage) = ("return".to_owned(), Some("PostCheck".to_owned()));
    nobody.available_policy.as_mut().unwrap().max_unavailable_value = Some(IntOrString::Int(0));
    cluster.rules[0].spec.rules.push(nobody);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    // The gate is asked about the other two while the first one has its place.
    turns(&mut cluster, &mut controller, 4);
    for _ in 0..3 {
        assert!(cluster.agent(0, Fate::Done), "checking");
    }
    // The pod seems to be in service: that it is not is told by its place alone.
    controller.refresh(&cluster, ALL - PODS);
    let _ = controller.turn(&mut cluster, Writing::All);
    assert_eq!(cluster.grants()[0].post_check, Some(PostCheck::Passed));
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn what_leaving_takes_is_learned_once_for_each_operation_and_is_the_least_time_after() {
    let mut cluster = Cluster::new(4, 1);
    cluster.propagation = Some(2300);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 3);
    assert_eq!(cluster.grants()[0].drain.min_seconds, 2, "nothing is known yet");
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
    let learned: Vec<_> = cluster.transitions.values().filter_map(|node| node.spec.propagation.clone()).collect();
    assert_eq!(learned.iter().map(|node| node.samples).sum::<u32>(), 4, "{learned:?}");
    cluster.set_image(3);
    turns(&mut cluster, &mut controller, 3);
    assert_eq!(cluster.grants()[0].drain.min_seconds, 3);
}
