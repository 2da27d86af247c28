//! What a CollaSet says of itself, delays, and input that makes no sense.

use std::collections::BTreeSet;

use hitless_workloads::Stage;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};
use crate::steps::{image, next, running};

fn condition(cluster: &Cluster, type_: &str) -> Value {
    let all = cluster.set()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|each| each["type"] == type_).unwrap_or_default()
}

#[test]
fn conditions_say_what_became_of_scaling_and_updates() {
    let mut cluster = running(2, &json!({}));
    let scaled = condition(&cluster, "Scale");
    assert_eq!((&scaled["status"], &scaled["reason"]), (&json!("True"), &json!("Scaled")));
    assert_eq!(scaled["lastTransitionTime"], "2026-11-23T00:00:00Z");
    assert_eq!(condition(&cluster, "Update")["reason"], "Updated");
    cluster.change(|spec| {
        spec["updateStrategy"] = json!({"podUpgradePolicy": "InPlaceOnly"});
        spec["template"]["spec"]["containers"][0]["command"] = json!(["/other"]);
    });
    settle(&mut cluster, true);
    let updated = condition(&cluster, "Update");
    assert_eq!((&updated["status"], &updated["reason"]), (&json!("False"), &json!("UpdateFailed")));
}

/// In a Hold a pod is Ready all the time, and has its new image before its containers are replaced.
#[test]
fn a_pod_that_is_being_operated_is_not_reported_as_updated_and_available() {
    let mut cluster = running(1, &json!({}));
    let before = cluster.set()["status"]["currentRevision"].clone();
    image(&mut cluster, "web:v2");
    settle(&mut cluster, false);
    let plan = next(&cluster);
    cluster.operate(&plan);
    let mut seen = Seen::of(&cluster);
    seen.operating = cluster.uids().into_iter().collect();
    let plan = seen.plan(&BTreeSet::new());
    carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    let status = &cluster.set()["status"];
    let counts =
        ["updatedReplicas", "updatedReadyReplicas", "updatedAvailableReplicas"].map(|name| status[name].clone());
    assert_eq!((counts, &status["currentRevision"]), ([json!(1), json!(0), json!(0)], &before));
    settle(&mut cluster, true);
    let status = &cluster.set()["status"];
    assert_eq!(
        (&status["updatedAvailableReplicas"], &status["currentRevision"]),
        (&json!(1), &status["updatedRevision"])
    );
}

#[test]
fn delays_go_with_the_operations_that_they_are_meant_for() {
    let delays = json!({"updateStrategy": {"operationDelaySeconds": 7}, "scaleStrategy": {"operationDelaySeconds": 9}});
    let mut cluster = running(2, &delays);
    image(&mut cluster, "web:v2");
    settle(&mut cluster, false);
    assert!(
        next(&cluster).desired.iter().all(|wanted| wanted.delay_seconds == 7) && !next(&cluster).desired.is_empty()
    );
    settle(&mut cluster, true);
    cluster.change(|spec| spec["replicas"] = json!(1));
    settle(&mut cluster, false);
    let delays: Vec<u32> = next(&cluster).desired.iter().map(|wanted| wanted.delay_seconds).collect();
    assert_eq!(delays, [9]);
}

#[test]
fn images_of_pods_that_are_made_anew_are_fetched_before_anybody_leaves() {
    let mut cluster = running(1, &json!({"updateStrategy": {"podUpgradePolicy": "ReCreate"}}));
    image(&mut cluster, "web:v2");
    settle(&mut cluster, false);
    let operation = next(&cluster).desired[0].intent.as_ref().unwrap().operation.clone();
    assert_eq!((operation.fetch["web"].to.as_str(), operation.containers.len()), ("web:v2", 0));
    settle(&mut cluster, true);
    cluster.change(|spec| spec["replicas"] = json!(0));
    settle(&mut cluster, false);
    assert!(next(&cluster).desired[0].intent.as_ref().unwrap().operation.fetch.is_empty(), "for nothing else");
}

#[test]
fn by_label_only_those_with_the_label_are_updated_and_it_goes_when_they_are() {
    let mut cluster = running(2, &json!({"updateStrategy": {"rollingUpdate": {"byLabel": {}}}}));
    let name = cluster.pod_names()[0].to_owned();
    image(&mut cluster, "web:v2");
    cluster.label(&name, "collaset.kusionstack.io/update-included", Some("true"));
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v2"]);
    let key = ("Pod".to_owned(), name);
    assert!(cluster.objects[&key]["metadata"]["labels"]["collaset.kusionstack.io/update-included"].is_null());
}

#[test]
fn a_selector_that_does_not_match_is_said_and_nothing_is_lost() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    cluster.change(|spec| {
        spec["selector"] = json!({"matchLabels": {"app": "other"}});
        spec["replicas"] = json!(0);
        spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2");
    });
    let plan = settle(&mut cluster, true);
    assert!(matches!(plan.stage, Stage::Refused(_)));
    assert_eq!((cluster.uids(), plan.notes[0].reason), (uids, "InvalidSpec"));
    assert!(condition(&cluster, "Scale")["message"].as_str().unwrap().contains("does not select"));
}

#[test]
fn more_ids_than_an_object_has_room_for_are_refused_and_the_others_are_made() {
    let cluster = running(1, &json!({}));
    let mut more = cluster.clone();
    more.change(|spec| spec["replicas"] = json!(10_000));
    let plan = next(&more);
    assert_eq!(plan.notes[0].reason, "TooManyReplicas");
    let made = plan.writes.iter().filter(|write| write.verb == "create-pod").count();
    assert_eq!(made, 1, "in bursts");
    let size = plan.writes.iter().map(|write| format!("{write:?}").len()).max().unwrap();
    assert!(size < 3_000_000, "{size}");
}
