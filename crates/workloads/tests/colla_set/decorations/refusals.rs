//! What is refused, and said to people: PodDecorations that make no sense, and changes that can't be made.

use hitless_workloads::{Cause, Stage};
use serde_json::json;

use super::{decorate, images, next, running, sidecar};
use crate::cluster::settle;

#[test]
fn one_that_cannot_be_understood_changes_nothing_and_says_so() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    let mut spec = sidecar("log", "log:v2");
    spec["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), images(&cluster, "log")), (uids, vec!["log:v1".to_owned(); 2]));
    let plan = next(&cluster);
    let Stage::Refused(because) = &plan.stage else { panic!("{:?}", plan.stage) };
    assert_eq!(because.cause, Cause::InvalidDecoration);
    assert!(because.text.contains("PodDecoration log") && because.text.contains("Near"), "{}", because.text);
}

#[test]
fn in_place_only_refuses_what_can_not_be_done_in_a_running_pod() {
    let mut cluster = running(2, &json!({"updateStrategy": {"podUpgradePolicy": "InPlaceOnly"}}));
    let uids = cluster.uids();
    decorate(&mut cluster, "log", &sidecar("log", "log:v2"));
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), images(&cluster, "log")), (uids.clone(), vec!["log:v2".to_owned(); 2]));
    let mut spec = sidecar("log", "log:v2");
    spec["template"]["containers"][0]["args"] = json!(["-v"]);
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(cluster.uids(), uids);
    let Stage::Refused(because) = next(&cluster).stage else { panic!("{:?}", next(&cluster).stage) };
    assert!(because.text.contains("in a PodDecoration"), "{}", because.text);
}

/// Nobody could make such a pod: the API server lets the controller give only rights that the CollaSet's template gives.
#[test]
fn a_right_on_the_node_that_the_template_does_not_give_is_refused_before_a_pod_leaves() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    let mut spec = sidecar("log", "log:v2");
    spec["template"]["volumes"] = json!([{"name": "logs", "hostPath": {"path": "/var/log"}}]);
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), images(&cluster, "log")), (uids, vec!["log:v1".to_owned(); 2]));
    let Stage::Refused(because) = next(&cluster).stage else { panic!("{:?}", next(&cluster).stage) };
    assert!(because.text.contains("PodDecoration log") && because.text.contains("volume logs"), "{}", because.text);
    let volumes = json!([{"name": "logs", "hostPath": {"path": "/var/log"}}]);
    cluster.change(|set| set["template"]["spec"]["volumes"] = volumes);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v2", "log:v2"]);
}

#[test]
fn one_that_makes_no_sense_stops_only_those_that_it_selects() {
    let mut cluster = running(2, &json!({}));
    let mut spec = sidecar("other", "other:v1");
    spec["selector"] = json!({"matchLabels": {"app": "other"}});
    spec["updateStrategy"] =
        json!({"rollingUpdate": {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}});
    decorate(&mut cluster, "other", &spec);
    decorate(&mut cluster, "log", &sidecar("log", "log:v2"));
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v2", "log:v2"]);
    // Its label would be no label.
    decorate(&mut cluster, &"long".repeat(16), &sidecar("long", "long:v1"));
    settle(&mut cluster, true);
    let Stage::Refused(because) = next(&cluster).stage else { panic!("{:?}", next(&cluster).stage) };
    assert!(because.text.contains("name is longer"), "{}", because.text);
}
