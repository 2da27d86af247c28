//! Jobs that replace: the label that asks a CollaSet to, and who takes it back.

use std::collections::BTreeSet;

use hitless_workloads::requests::operation_job::{OPERATION_JOB, OperationJobs};
use hitless_workloads::{OperationFailures, Request, RequestKind};
use serde_json::json;

use crate::shop::{JOB, Shop, targets};

const LABEL: &str = "collaset.kusionstack.io/to-replace";

#[test]
fn a_pod_of_a_colla_set_is_labelled_and_followed_until_another_one_serves_in_its_place() {
    let owner = json!([{"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "web", "uid": "uid-web", "controller": true}]);
    let label = "collaset.kusionstack.io/to-replace";
    let mut shop = Shop::new(&json!({"action": "Replace", "targets": targets(&["a", "b"])}));
    let set = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": {"namespace": "shop", "name": "web",
        "uid": "uid-web", "resourceVersion": "1"}, "spec": {"replicas": 1, "selector": {}, "template": {}}});
    shop.objects.insert("web".to_owned(), set);
    shop.pods.get_mut("a").unwrap()["metadata"]["ownerReferences"] = owner.clone();
    shop.settle();
    assert_eq!(shop.pods["a"]["metadata"]["labels"][label], JOB);
    assert_eq!(shop.progress(), ["Processing", "Failed:NotOfCollaSet"]);
    assert!(shop.wanted().is_empty(), "nothing is restarted");
    // The CollaSet has made another one.
    shop.add_pod("new", "2026-01-01T00:00:20Z");
    let new = shop.pods.get_mut("new").unwrap();
    new["metadata"]["ownerReferences"] = owner;
    new["metadata"]["labels"]["collaset.kusionstack.io/replace-pair-origin-name"] = "a".into();
    shop.settle();
    assert_eq!(shop.status()["targetDetails"][0]["extraInfo"]["NewPod"], "new");
    // And removed the first, and the label of the pair.
    shop.pods.remove("a");
    shop.pods.get_mut("new").unwrap()["metadata"]["labels"] = json!({});
    shop.settle();
    assert_eq!(shop.progress()[0], "Succeeded");
}

/// A job that replaces `a`, a pod of a CollaSet, and has labelled it.
fn replacing() -> Shop {
    let owner = json!([{"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "web", "uid": "uid-web", "controller": true}]);
    let mut shop = Shop::new(&json!({"action": "Replace", "targets": targets(&["a"])}));
    let set = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": {"namespace": "shop", "name": "web",
        "uid": "uid-web", "resourceVersion": "1"}, "spec": {"replicas": 1, "selector": {}, "template": {}}});
    shop.objects.insert("web".to_owned(), set);
    shop.pods.get_mut("a").unwrap()["metadata"]["ownerReferences"] = owner;
    shop.settle();
    assert_eq!(
        (shop.pods["a"]["metadata"]["labels"][LABEL].as_str(), shop.progress()),
        (Some(JOB), vec!["Processing".to_owned()])
    );
    shop
}

/// A label is a request. Nothing has been done for it yet.
#[test]
fn at_the_deadline_a_pod_that_still_serves_is_taken_back_and_the_job_ends() {
    let mut shop = replacing();
    assert_eq!(shop.settle().wake_at, Some("2026-01-01T00:02:10Z".parse().unwrap()));
    shop.pass(101);
    let reports = shop.settle();
    assert_eq!(shop.progress(), ["Failed:DeadlineExceeded"]);
    assert!(shop.pods["a"]["metadata"]["labels"][LABEL].is_null(), "its CollaSet takes the other pod back");
    assert_eq!(reports.wake_at, Some("2026-01-01T00:03:01Z".parse().unwrap()), "its time to live has begun");
    shop.pass(51);
    shop.settle();
    assert!(!shop.objects.contains_key("again"));
}

#[test]
fn at_the_deadline_a_pod_that_is_leaving_is_replaced_to_the_end() {
    let mut shop = replacing();
    shop.begin("a");
    shop.pass(101);
    shop.settle();
    assert_eq!(shop.progress(), ["Processing"]);
    assert_eq!(shop.pods["a"]["metadata"]["labels"][LABEL], JOB);
}

#[test]
fn a_deleted_job_takes_its_label_back_and_nobody_elses() {
    let label = "collaset.kusionstack.io/to-replace";
    let mut shop = Shop::new(&json!({"action": "Replace", "targets": targets(&["a"])}));
    for (pod, value) in [("a", JOB), ("b", "true")] {
        shop.pods.get_mut(pod).unwrap()["metadata"]["labels"][label] = value.into();
    }
    let writes = |shop: &Shop| shop.with(|scene| OperationJobs.report(scene, &OperationFailures::default()).writes);
    shop.objects.clear();
    let cancelled = writes(&shop);
    assert_eq!(cancelled.iter().map(|write| write.on.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(matches!(cancelled[0].request, Request::Patch(_)));
    shop.unreadable.insert(OPERATION_JOB.group_kind);
    assert!(writes(&shop).is_empty(), "whether the job is gone is not known");
    (shop.left, shop.unreadable) = (shop.unreadable, BTreeSet::new());
    assert!(writes(&shop).is_empty(), "jobs are off");
}
