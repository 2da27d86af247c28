//! Pods that replace others: what they get.

use serde_json::json;

use super::{decorate, images, running, sidecar};
use crate::cluster::{Seen, settle};

#[test]
fn pods_are_replaced_before_they_leave_where_the_collaset_says_so() {
    let mut cluster = running(3, &json!({"updateStrategy": {"podUpgradePolicy": "Replace"}}));
    let uids = cluster.uids();
    let mut spec = sidecar("log", "log:v2");
    spec["updateStrategy"] = json!({"rollingUpdate": {"partition": 1}});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v2", "log:v2"]);
    assert_eq!(cluster.uids().iter().filter(|uid| uids.contains(uid)).count(), 1, "one is kept, and no other");
}

/// Upstream's issue 254.
#[test]
fn a_change_reaches_a_pod_that_replaces_another_one() {
    let mut cluster = running(2, &json!({}));
    let old = cluster.pod_names()[0].to_owned();
    cluster.label(&old, "collaset.kusionstack.io/to-replace", Some("true"));
    let mut seen = Seen::of(&cluster);
    // The new pod is there, and does not serve yet.
    while cluster.pods().len() < 3 {
        let plan = seen.plan(&cluster.left);
        crate::cluster::carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    decorate(&mut cluster, "log", &sidecar("log", "log:v2"));
    settle(&mut cluster, true);
    assert!(!cluster.pod_names().contains(&old.as_str()));
    assert_eq!(images(&cluster, "log"), ["log:v2", "log:v2"]);
}

/// An id that is selected by its label is another pod's next: the pod that replaces gets what the one before was to have.
#[test]
fn a_pod_that_replaces_another_one_gets_what_that_was_to_have() {
    let mut cluster = running(3, &json!({"updateStrategy": {"podUpgradePolicy": "Replace"}}));
    let selector = json!({"matchLabels": {"collaset.kusionstack.io/instance-id": "1"}});
    let mut spec = sidecar("log", "log:v2");
    spec["updateStrategy"] = json!({"rollingUpdate": {"selector": selector}});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v1", "log:v2"]);
    assert!(!cluster.ids().contains(&1));
}
