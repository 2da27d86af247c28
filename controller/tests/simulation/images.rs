//! Stories of images that are not on the nodes.

#![cfg(test)]

use hitless_api::GrantMode;
use hitless_api::names::annotations;
use serde_json::json;

use crate::cluster::Cluster;
use crate::scenarios::{roll, turn, turns};
use crate::test_controller::{ALL, TestController, Writing};

fn started() -> serde_json::Value {
    json!({"terminated": {"exitCode": 128, "reason": "StartError", "finishedAt": "2026-11-22T00:00:02Z"}})
}

fn reasons(cluster: &Cluster, controller: &mut TestController) -> Vec<&'static str> {
    controller.refresh(cluster, ALL);
    controller.said(cluster.now).into_iter().map(|(reason, _)| reason).collect()
}

/// Three pods on two nodes, changed to an image that no node has.
fn changed() -> (Cluster, TestController) {
    let mut cluster = Cluster::new(3, 1).without_images();
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 5);
    (cluster, controller)
}

#[test]
fn an_image_is_fetched_to_each_node_once_and_nobody_goes_before_it_is_there() {
    let (mut cluster, mut controller) = changed();
    assert_eq!(cluster.prefetches.len(), 2, "{:?}", cluster.prefetches.keys());
    assert_eq!(reasons(&cluster, &mut controller), ["ImagePulling"; 3]);
    assert!(cluster.grants().is_empty());
    cluster.fetched(&started());
    turns(&mut cluster, &mut controller, 1);
    assert_eq!(cluster.grants().len(), 1);
    assert_eq!(cluster.prefetches.len(), 2, "kept while pods of the node need the image");
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
    assert_eq!(cluster.written["prefetch"], 4, "two were made and deleted");
}

#[test]
fn a_kubelet_that_does_not_begin_to_fetch_is_named() {
    let (mut cluster, mut controller) = changed();
    cluster.pass(25_000);
    turns(&mut cluster, &mut controller, 1);
    assert_eq!(reasons(&cluster, &mut controller), ["ImageNotFetched"; 3]);
    let (_, text) = &controller.said(cluster.now)[0];
    assert!(text.contains("has made no sandbox for pod hitless-prefetch-"), "{text}");
    cluster.fetched(&started());
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn an_image_that_cannot_be_pulled_takes_no_pod_out_and_is_tried_again() {
    let (mut cluster, mut controller) = changed();
    cluster.fetched(&json!({"waiting": {"reason": "ErrImagePull", "message": "web:v2: not found"}}));
    turns(&mut cluster, &mut controller, 5);
    assert_eq!(reasons(&cluster, &mut controller), ["ImageNotFetched"; 3]);
    let (_, text) = &controller.said(cluster.now)[0];
    assert!(text.contains("ErrImagePull: web:v2: not found"), "{text}");
    assert_eq!(cluster.written["prefetch"], 2, "not tried again at once");
    cluster.pass(30_000);
    turns(&mut cluster, &mut controller, 3);
    assert_eq!(cluster.prefetches.len(), 4, "a second attempt beside the first");
    assert_eq!(reasons(&cluster, &mut controller), ["ImageNotFetched"; 3], "what is known is said until more is known");
    assert!(cluster.grants().is_empty());
    cluster.fetched(&started());
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn another_image_ends_the_attempts_at_the_first() {
    let (mut cluster, mut controller) = changed();
    cluster.fetched(&json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}}));
    cluster.set_image(1);
    turns(&mut cluster, &mut controller, 5);
    cluster.assert_at_rest();
}

/// A Deployment that is changed while the API server accepts no prefetch pod, in these words, twice.
fn refused(words: &str) -> (Cluster, TestController) {
    let mut cluster = Cluster::new(3, 1).service("web").without_images();
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    // The Deployment's own objects come first.
    turns(&mut cluster, &mut controller, 2);
    cluster.prefetches.clear();
    controller.refresh(&cluster, ALL);
    controller.refused(&cluster, words);
    assert_eq!(reasons(&cluster, &mut controller), ["ImagePulling"; 3], "it asks for what its container asks for next");
    controller.refused(&cluster, words);
    (cluster, controller)
}

/// It leaves, because another one serves while the kubelet pulls.
fn assert_pulled_meanwhile(cluster: &Cluster) {
    let grants = cluster.grants();
    assert_eq!((grants.len(), &grants[0].mode), (1, &GrantMode::Leave), "{grants:?}");
    assert!(grants[0].mode_reason.starts_with("ImageNotFetched"), "{}", grants[0].mode_reason);
}

#[test]
fn where_a_quota_has_no_room_for_prefetch_pods_the_kubelet_pulls() {
    let (mut cluster, mut controller) = refused("exceeded quota: few");
    turns(&mut cluster, &mut controller, 2);
    assert!(cluster.prefetches.is_empty());
    assert_pulled_meanwhile(&cluster);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn where_a_node_lets_no_prefetch_pod_in_the_kubelet_pulls() {
    let mut cluster = Cluster::new(3, 1).service("web").without_images();
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 5);
    cluster.rejected("OutOfpods");
    turns(&mut cluster, &mut controller, 2);
    assert_eq!(reasons(&cluster, &mut controller), ["ImageNotFetched"; 3]);
    assert!(cluster.grants().is_empty(), "it is tried again");
    cluster.pass(10_000);
    turns(&mut cluster, &mut controller, 2);
    cluster.rejected("OutOfpods");
    turns(&mut cluster, &mut controller, 3);
    assert_pulled_meanwhile(&cluster);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn what_admission_of_others_refuses_is_left_to_the_native_controller() {
    let (mut cluster, mut controller) = refused("policy 'team' denied request: every pod needs the label app");
    let is_let_go = (0..6).any(|_| {
        turn(&mut cluster, &mut controller, Writing::All);
        cluster.deployment["spec"]["paused"] == false
    });
    assert!(is_let_go && cluster.grants().is_empty());
}

/// A webhook gives new pods the images of a mirror.
#[test]
fn an_image_that_admission_makes_another_one_is_rolled_out_under_that_name() {
    let (mut cluster, mut controller) = changed();
    for pod in cluster.prefetches.values_mut() {
        pod["spec"]["containers"][0]["image"] = json!("mirror.io/web:v2");
    }
    cluster.fetched(&started());
    turns(&mut cluster, &mut controller, 2);
    assert_eq!(cluster.grants()[0].containers["web"].to, "mirror.io/web:v2");
    assert_eq!(cluster.prefetches.len(), 2, "they are kept, and no others are made");
    roll(&mut cluster, &mut controller);
    assert!(cluster.images().iter().all(|image| *image == "mirror.io/web:v2"), "{:?}", cluster.images());
    assert!(cluster.prefetches.is_empty() && cluster.grants().is_empty());
    assert_eq!(cluster.deployment["spec"]["paused"], false);
}

#[test]
fn where_the_registry_is_asked_at_every_start_it_is_asked_again_right_before() {
    let mut cluster = Cluster::new(1, 1);
    cluster.pods.values_mut().for_each(|pod| pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always"));
    let mut controller = TestController::new(1, &cluster);
    cluster.rules[0].spec.rules[0].available_policy.as_mut().unwrap().max_unavailable_value =
        Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(0));
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 5);
    assert_eq!(cluster.prefetches.len(), 1, "although the node has the image");
    cluster.fetched(&started());
    cluster.pass(3_600_000);
    turns(&mut cluster, &mut controller, 5);
    assert_eq!(
        (reasons(&cluster, &mut controller), cluster.prefetches.len()),
        (vec!["Rules"], 1),
        "while rules say no it is not asked"
    );
    cluster.rules[0].spec.rules[0].available_policy.as_mut().unwrap().max_unavailable_value =
        Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(1));
    turns(&mut cluster, &mut controller, 2);
    assert_eq!(reasons(&cluster, &mut controller), ["ImagePulling"], "the answer is old");
    assert!(cluster.grants().is_empty());
    let at = cluster.now.to_string();
    cluster.fetched(&json!({"terminated": {"exitCode": 128, "reason": "StartError", "finishedAt": at}}));
    turns(&mut cluster, &mut controller, 2);
    assert_eq!(cluster.grants().len(), 1);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn images_are_fetched_ahead_where_the_owner_wants_no_more_for_now() {
    let mut cluster = Cluster::new(3, 1).without_images();
    cluster.deployment["metadata"]["annotations"][annotations::PREFETCH] = json!("only");
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 5);
    cluster.fetched(&started());
    turns(&mut cluster, &mut controller, 5);
    assert_eq!(reasons(&cluster, &mut controller), ["PrefetchOnly"; 3]);
    assert_eq!(cluster.prefetches.len(), 2, "kept, so that nobody removes the images");
    cluster.deployment["metadata"]["annotations"].as_object_mut().unwrap().remove(annotations::PREFETCH);
    roll(&mut cluster, &mut controller);
    cluster.assert_at_rest();
}

#[test]
fn nothing_is_fetched_to_a_node_whose_disk_is_full() {
    let mut cluster = Cluster::new(2, 1).without_images();
    let mut controller = TestController::new(1, &cluster);
    cluster.fill_disks();
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 5);
    assert!(cluster.prefetches.is_empty());
    controller.refresh(&cluster, ALL);
    let (reason, text) = &controller.said(cluster.now)[0];
    assert_eq!((*reason, text.contains("DiskPressure")), ("ImageNotFetched", true), "{text}");
}

#[test]
fn a_restart_of_an_image_that_the_runtime_knows_from_another_repository_waits_until_it_is_shown_to_be_possible() {
    let mut cluster = Cluster::new(1, 1).without_images();
    cluster.pods.values_mut().for_each(|pod| {
        pod["status"]["containerStatuses"][0]["image"] = json!("mirror.io/web:v1");
        pod["status"]["containerStatuses"][0]["imageID"] = json!("mirror.io/web@sha256:9");
        pod["metadata"]["annotations"][annotations::RESTART] = json!("now");
    });
    let mut controller = TestController::new(1, &cluster);
    turns(&mut cluster, &mut controller, 5);
    assert_eq!(reasons(&cluster, &mut controller), ["ImagePulling"]);
    let asked: Vec<_> = cluster.prefetches.values().map(|pod| &pod["spec"]["containers"][0]["image"]).collect();
    assert_eq!(asked, ["web:v1@sha256:9"]);
    assert!(cluster.grants().is_empty());
    cluster.fetched(&started());
    turns(&mut cluster, &mut controller, 1);
    assert_eq!(cluster.grants()[0].containers["web"].to, "web:v1@sha256:9");
    roll(&mut cluster, &mut controller);
    assert!(cluster.prefetches.is_empty());
}
