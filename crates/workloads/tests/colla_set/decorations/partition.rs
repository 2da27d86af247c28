//! Who gets a change: partitions and selectors, of a PodDecoration and of its CollaSet.

use serde_json::json;

use super::{containers, decorate, images, key, revision, running, sidecar};
use crate::cluster::{Cluster, settle};

#[test]
fn so_many_pods_keep_what_they_have_as_its_partition_says() {
    let mut cluster = running(3, &json!({}));
    let before = revision(&cluster, "updatedRevision");
    let mut spec = sidecar("log", "log:v2");
    spec["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v1", "log:v2"]);
    assert_eq!(revision(&cluster, "currentRevision"), before, "not all pods have it");
    // A pod that is lost comes back, and the partition holds.
    let lost = cluster.pod_names()[0].to_owned();
    cluster.delete_pod(&lost);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v1", "log:v2"]);
    spec["updateStrategy"] = json!({});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v2", "log:v2", "log:v2"]);
}

#[test]
fn only_pods_that_its_strategy_selects_get_the_change() {
    let mut cluster = running(3, &json!({}));
    let mut spec = sidecar("log", "log:v2");
    let selector = json!({"matchLabels": {"collaset.kusionstack.io/instance-id": "1"}});
    spec["updateStrategy"] = json!({"rollingUpdate": {"selector": selector}});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    let updated = cluster.pods().into_iter().find(|pod| containers(pod)[1].1 == "log:v2").unwrap();
    assert_eq!(updated["metadata"]["labels"]["collaset.kusionstack.io/instance-id"], "1");
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v1", "log:v2"]);
}

#[test]
fn pods_that_the_collasets_partition_keeps_get_it_at_their_own_revision() {
    let mut cluster = running(3, &json!({}));
    cluster.change(|spec| {
        spec["updateStrategy"] = json!({"rollingUpdate": {"byPartition": {"partition": 2}}});
        spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2");
    });
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "web"), ["web:v1", "web:v1", "web:v2"]);
    decorate(&mut cluster, "log", &sidecar("log", "log:v2"));
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "web"), ["web:v1", "web:v1", "web:v2"]);
    assert_eq!(images(&cluster, "log"), ["log:v2", "log:v2", "log:v2"]);
}

#[test]
fn its_first_rollout_keeps_so_many_pods_without_it_as_its_partition_says() {
    let mut cluster = Cluster::with(3, &json!({}));
    settle(&mut cluster, true);
    let mut spec = sidecar("log", "log:v1");
    spec["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v1"]);
    assert_eq!(cluster.objects[&key("log")]["status"]["injectedPods"], 1);
    assert_eq!(cluster.objects[&key("log")]["status"]["matchedPods"], 3);
    spec["updateStrategy"] = json!({"rollingUpdate": {"partition": 0}});
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v1", "log:v1"]);
}
