//! Pods that are replaced, let go and taken on.

use hitless_api::GrantOp;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};
use crate::steps::{context, image, next, operations, running};

const TO_REPLACE: &str = "collaset.kusionstack.io/to-replace";

fn label<'c>(cluster: &'c Cluster, pod: &str, name: &str) -> &'c Value {
    let key = ("Pod".to_owned(), pod.to_owned());
    &cluster.objects[&key]["metadata"]["labels"][format!("collaset.kusionstack.io/{name}")]
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.own_pods().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn new_one(cluster: &Cluster, before: &[String]) -> String {
    names(cluster).into_iter().find(|name| !before.contains(name)).unwrap()
}

#[test]
fn a_labelled_pod_leaves_once_another_one_serves() {
    let mut cluster = running(3, &json!({}));
    let before = names(&cluster);
    cluster.label(&before[0], TO_REPLACE, Some("true"));
    settle(&mut cluster, false);
    // The new one is there, both know of each other, and the old one is asked to leave.
    let new = new_one(&cluster, &before);
    assert_eq!(label(&cluster, &before[0], "replace-pair-new-id"), &json!("3"));
    assert_eq!(label(&cluster, &new, "replace-pair-origin-name"), &json!(before[0]));
    assert!(context(&cluster).iter().any(|(id, data)| *id == 3 && data["ReplaceOriginPodID"].is_string()));
    let plan = next(&cluster);
    assert_eq!(operations(&plan), [GrantOp::Drain]);
    assert_eq!(plan.desired[0].pod.name, before[0]);
    settle(&mut cluster, true);
    assert!(!names(&cluster).contains(&before[0]) && names(&cluster).contains(&new));
    assert_eq!(cluster.own_pods().len(), 3);
    assert!(label(&cluster, &new, "replace-pair-origin-name").is_null());
    assert!(context(&cluster).iter().all(|(_, data)| data["ReplaceOriginPodID"].is_null()));
}

#[test]
fn a_replacement_is_cancelled_before_anybody_leaves() {
    let mut cluster = running(2, &json!({}));
    let before = names(&cluster);
    cluster.label(&before[0], TO_REPLACE, Some("true"));
    // The new pod is made and never starts.
    for _ in 0..4 {
        let mut seen = Seen::of(&cluster);
        let plan = seen.plan(&cluster.left);
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    assert_eq!(
        (cluster.own_pods().len(), operations(&next(&cluster))),
        (3, vec![]),
        "nobody leaves for one that does not serve"
    );
    cluster.label(&before[0], TO_REPLACE, None);
    settle(&mut cluster, true);
    assert_eq!(names(&cluster), before);
    assert_eq!(label(&cluster, &before[0], "replace-pair-new-id"), &Value::Null);
}

fn pause(cluster: &mut Cluster, value: Option<&str>) {
    let version = cluster.next_version();
    let set = cluster.objects.get_mut(&("CollaSet".to_owned(), "web".to_owned())).unwrap();
    set["metadata"]["resourceVersion"] = json!(version);
    set["metadata"]["annotations"] = value.map_or(json!({}), |value| json!({"hitless.dev/paused": value}));
}

#[test]
fn under_a_pause_no_pair_is_begun_and_one_that_has_begun_ends() {
    for (more, is_asked) in [(json!({"updateStrategy": {"podUpgradePolicy": "Replace"}}), false), (json!({}), true)] {
        let mut cluster = running(3, &more);
        let before = names(&cluster);
        pause(&mut cluster, Some("true"));
        if is_asked {
            cluster.label(&before[0], TO_REPLACE, Some("true"));
        } else {
            image(&mut cluster, "web:v2");
        }
        settle(&mut cluster, true);
        assert_eq!(names(&cluster), before, "{more}");
        pause(&mut cluster, None);
        settle(&mut cluster, false);
        assert_eq!(cluster.own_pods().len(), 4);
        pause(&mut cluster, Some("true"));
        let plan = next(&cluster);
        assert_eq!(operations(&plan), [GrantOp::Drain]);
        assert!(plan.desired[0].ends, "the new pod serves, so the old one leaves");
    }
}

#[test]
fn under_a_pause_a_pod_that_does_not_serve_is_not_made_anew_either() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    pause(&mut cluster, Some("true"));
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]));
    for object in cluster.objects.iter_mut().filter(|((kind, _), _)| kind == "Pod").map(|(_, object)| object) {
        object["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    }
    for _ in 0..4 {
        let mut seen = Seen::of(&cluster);
        let plan = seen.plan(&cluster.left);
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    assert_eq!(cluster.uids(), uids);
    // The round keeps them, and says why.
    assert_eq!(operations(&next(&cluster)), [GrantOp::Drain, GrantOp::Drain]);
}

#[test]
fn replace_updates_by_new_pods_and_never_more_than_a_quarter_too_many() {
    let mut cluster = running(5, &json!({"updateStrategy": {"podUpgradePolicy": "Replace"}}));
    let (before, uids) = (names(&cluster), cluster.uids());
    image(&mut cluster, "web:v2");
    settle(&mut cluster, false);
    assert_eq!(cluster.own_pods().len(), 7, "two more at most");
    assert_eq!(operations(&next(&cluster)), [GrantOp::Drain, GrantOp::Drain]);
    let revision = cluster.set()["status"]["updatedRevision"].clone();
    let origins: Vec<&String> =
        before.iter().filter(|name| !label(&cluster, name, "replace-pair-new-id").is_null()).collect();
    assert_eq!(origins.len(), 2);
    assert!(origins.iter().all(|name| *label(&cluster, name, "replaced-by-replace-update") == revision));
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v2"; 5]);
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
}

#[test]
fn a_newer_revision_takes_the_place_of_a_new_pod_that_does_not_serve() {
    let mut cluster = running(1, &json!({"updateStrategy": {"podUpgradePolicy": "Replace"}}));
    image(&mut cluster, "web:bad");
    for _ in 0..6 {
        let mut seen = Seen::of(&cluster);
        let plan = seen.plan(&cluster.left);
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    assert_eq!(cluster.images(), ["web:bad", "web:v1"]);
    image(&mut cluster, "web:v2");
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v2"]);
}

#[test]
fn who_wants_fewer_pods_gets_that_also_while_some_are_replaced() {
    let mut cluster = running(3, &json!({}));
    let before = names(&cluster);
    for name in &before {
        cluster.label(name, TO_REPLACE, Some("true"));
    }
    settle(&mut cluster, false);
    cluster.change(|spec| spec["replicas"] = json!(1));
    settle(&mut cluster, true);
    assert_eq!((cluster.own_pods().len(), context(&cluster).len()), (1, 1));
}

#[test]
fn an_excluded_pod_lives_on_without_an_owner_and_comes_back_when_it_is_included() {
    let mut cluster = running(2, &json!({}));
    let out = names(&cluster)[0].clone();
    cluster.change(|spec| spec["scaleStrategy"] = json!({"podToExclude": [out.clone()]}));
    settle(&mut cluster, true);
    assert_eq!((cluster.pods().len(), cluster.own_pods().len(), context(&cluster).len()), (3, 2, 2));
    assert_eq!(label(&cluster, &out, "orphaned"), &json!("true"));
    cluster.change(|spec| {
        spec["replicas"] = json!(3);
        spec["scaleStrategy"] = json!({"podToInclude": [out.clone()]});
    });
    settle(&mut cluster, true);
    assert!(names(&cluster).contains(&out) && label(&cluster, &out, "orphaned").is_null());
    assert_eq!((cluster.pods().len(), cluster.ids()), (3, vec![0, 1, 2]));
}

#[test]
fn what_can_not_be_excluded_or_included_is_said() {
    let mut cluster = running(1, &json!({}));
    let name = names(&cluster)[0].clone();
    cluster.change(|spec| {
        spec["scaleStrategy"] = json!({"podToExclude": [name.clone()], "podToInclude": [name.clone(), "nobody"]});
    });
    let plan = settle(&mut cluster, true);
    let reasons: Vec<&str> = plan.notes.iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["DupExIncludedTarget", "IncludeNotAllowed"]);
    assert_eq!(names(&cluster), [name]);
}
