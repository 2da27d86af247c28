//! Scenarios of upstream's own end-to-end tests (kuperator, `test/e2e/apps/collaset.go`), told again.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, Seen, carry_out_plan, settle};

fn running(replicas: i64, more: &Value) -> Cluster {
    let mut cluster = Cluster::with(replicas, more);
    settle(&mut cluster, true);
    cluster
}

fn image(cluster: &mut Cluster, image: &str) {
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!(image));
}

fn strategy(policy: &str) -> Value {
    json!({"updateStrategy": {"podUpgradePolicy": policy}})
}

#[test]
fn recreate_makes_all_pods_anew_for_an_image() {
    for policy in ["ReCreate", "Recreate"] {
        let mut cluster = running(3, &strategy(policy));
        let uids = cluster.uids();
        image(&mut cluster, "web:v2");
        settle(&mut cluster, true);
        assert_eq!((cluster.images(), cluster.ids()), (vec!["web:v2".to_owned(); 3], vec![0, 1, 2]));
        assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)), "{policy}");
    }
}

#[test]
fn labels_and_annotations_of_the_template_come_with_new_pods() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    cluster.change(|spec| spec["template"]["metadata"]["annotations"] = json!({"team": "x"}));
    settle(&mut cluster, true);
    assert!(cluster.pods().iter().all(|pod| pod["metadata"]["annotations"]["team"] == "x"));
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
}

#[test]
fn by_label_only_the_pods_with_the_label_are_updated() {
    let mut cluster = running(3, &json!({"updateStrategy": {"rollingUpdate": {"byLabel": {}}}}));
    image(&mut cluster, "web:v2");
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v1", "web:v1"], "nobody has it");
    let key = ("Pod".to_owned(), cluster.pod_names()[1].to_owned());
    let pod = cluster.objects.get_mut(&key).unwrap();
    pod["metadata"]["labels"]["collaset.kusionstack.io/update-included"] = json!("true");
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v1", "web:v2"]);
    assert_eq!(cluster.objects[&key]["spec"]["containers"][0]["image"], "web:v2");
}

#[test]
fn paused_updates_no_pod_and_still_scales() {
    let mut cluster = running(2, &json!({"paused": true}));
    image(&mut cluster, "web:v2");
    cluster.change(|spec| spec["replicas"] = json!(3));
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v1", "web:v2"], "the new one has nothing to be updated");
    cluster.change(|spec| spec["paused"] = json!(false));
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v2"; 3]);
}

/// Upstream pins that a pod that has begun to leave is deleted all the same; here it stays if it has not left yet.
#[test]
fn a_scale_in_that_is_taken_back_in_time_costs_no_pod() {
    let mut cluster = running(3, &json!({}));
    let uids = cluster.uids();
    cluster.change(|spec| spec["replicas"] = json!(2));
    settle(&mut cluster, false);
    cluster.change(|spec| spec["replicas"] = json!(3));
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), cluster.ids()), (uids, vec![0, 1, 2]));
}

#[test]
fn an_update_while_it_is_scaled_in_leaves_the_right_number_at_the_new_version() {
    let mut cluster = running(4, &json!({}));
    cluster.change(|spec| {
        spec["replicas"] = json!(2);
        spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2");
    });
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v2", "web:v2"]);
    assert_eq!(cluster.ids().len(), 2);
}

#[test]
fn two_collasets_with_one_context_never_have_an_id_twice() {
    let mut cluster = Cluster::with(2, &json!({"scaleStrategy": {"context": "pool"}}));
    let mut other = cluster.set().clone();
    other["metadata"]["name"] = json!("api");
    other["metadata"]["uid"] = json!("api-uid");
    cluster.objects.insert(("CollaSet".into(), "api".into()), other);
    for _ in 0..30 {
        for name in ["web", "api"] {
            let mut seen = Seen::of(&cluster);
            let plan = seen.plan_of(name, &cluster.left, NOW);
            carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
            cluster.kubelets();
        }
    }
    assert_eq!(cluster.ids(), [0, 1, 2, 3]);
    let contexts = &cluster.objects[&("ResourceContext".to_owned(), "pool".to_owned())]["spec"]["contexts"];
    let owners = contexts.as_array().unwrap().iter().filter_map(|each| each["data"]["Owner"].as_str());
    assert_eq!(owners.collect::<BTreeSet<_>>(), BTreeSet::from(["web", "api"]));
}
