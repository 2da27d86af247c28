//! A CollaSet that is deleted.

use hitless_api::GrantOp;
use hitless_workloads::registry;
use serde_json::json;

use crate::cluster::{Cluster, Seen, carry_out_plan};
use crate::steps::{next, operations, running};

/// What a controller and agents do, until the object is gone or nothing happens.
fn go_on(cluster: &mut Cluster, operates: bool, now: &str) {
    for _ in 0..50 {
        if !cluster.has_set() {
            return;
        }
        let mut seen = Seen::of(cluster);
        let plan = seen.plan_at(&cluster.left, now);
        carry_out_plan(cluster, &mut seen, &plan, usize::MAX);
        if operates {
            cluster.operate(&plan);
        }
        cluster.kubelets();
    }
}

#[test]
fn its_pods_leave_service_before_they_go_and_then_it_goes() {
    let mut cluster = running(3, &json!({}));
    assert_eq!(cluster.set()["metadata"]["finalizers"], json!(["apps.kusionstack.io/pre-reclaim"]));
    cluster.delete_set();
    go_on(&mut cluster, false, "2026-11-23T00:01:00Z");
    assert_eq!((cluster.pods().len(), operations(&next(&cluster))), (3, vec![GrantOp::Drain; 3]));
    assert_eq!(cluster.set()["status"]["conditions"][2]["reason"], "ReclaimingTargetsDeletion");
    go_on(&mut cluster, true, "2026-11-23T00:01:00Z");
    assert!(cluster.pods().is_empty() && !cluster.has_set());
}

#[test]
fn rules_that_let_no_pod_go_do_not_keep_it_for_ever() {
    let mut cluster = running(2, &json!({}));
    cluster.delete_set();
    go_on(&mut cluster, false, "2026-11-23T00:09:59Z");
    assert!(cluster.has_set() && cluster.pods().len() == 2);
    let plan = next(&cluster);
    assert_eq!(plan.wake_at.map(|at| at.to_string()).as_deref(), Some("2026-11-23T00:10:00Z"));
    go_on(&mut cluster, false, "2026-11-23T00:10:00Z");
    assert!(!cluster.has_set() && cluster.pods().is_empty());
}

#[test]
fn a_controller_that_has_not_seen_the_deletion_makes_no_pod() {
    let mut cluster = running(2, &json!({}));
    let mut late = Seen::of(&cluster);
    cluster.delete_set();
    go_on(&mut cluster, true, "2026-11-23T00:00:01Z");
    let plan = late.plan(&cluster.left);
    carry_out_plan(&mut cluster, &mut late, &plan, usize::MAX);
    assert!(cluster.pods().is_empty());
}

#[test]
fn kept_claims_have_no_owner_when_it_goes_and_the_next_collaset_takes_them_on() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let keep = json!({"volumeClaimTemplates": claims,
        "scaleStrategy": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}});
    let mut cluster = running(2, &keep);
    let before: Vec<String> = cluster.names("PersistentVolumeClaim").into_iter().map(ToOwned::to_owned).collect();
    cluster.delete_set();
    go_on(&mut cluster, true, "2026-11-23T00:00:01Z");
    assert!(!cluster.has_set());
    let mut next = Cluster::with(2, &keep);
    for name in &before {
        let key = ("PersistentVolumeClaim".to_owned(), name.clone());
        assert!(cluster.objects[&key]["metadata"]["ownerReferences"].is_null());
        next.objects.insert(key.clone(), cluster.objects[&key].clone());
    }
    crate::cluster::settle(&mut next, true);
    assert_eq!(next.names("PersistentVolumeClaim"), before);
}

#[test]
fn kept_claims_outlive_a_deletion_in_the_foreground() {
    let policy =
        |kept: &str| json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": kept, "whenScaled": "Delete"}});
    let spec = |kept: &str| json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}], "scaleStrategy": policy(kept)});
    let mut cluster = running(2, &spec("Retain"));
    let claims: Vec<String> = cluster.names("PersistentVolumeClaim").into_iter().map(ToOwned::to_owned).collect();
    assert_eq!(claims.len(), 2);
    cluster.delete_set_in_foreground();
    go_on(&mut cluster, true, "2026-11-23T00:00:01Z");
    assert!(!cluster.has_set() && cluster.pods().is_empty());
    assert_eq!(cluster.names("PersistentVolumeClaim"), claims);
    // Who changes their mind is heard at once, both ways.
    for (first, then, left) in [("Retain", "Delete", 0), ("Delete", "Retain", 2)] {
        let mut cluster = running(2, &spec(first));
        cluster.change(|set| set["scaleStrategy"] = policy(then));
        crate::cluster::settle(&mut cluster, true);
        cluster.delete_set_in_foreground();
        assert_eq!(cluster.names("PersistentVolumeClaim").len(), left, "{first} {then}");
    }
}

#[test]
fn what_a_deletion_takes_with_it_is_said_and_can_be_kept_as_long_as_pods_leave() {
    let spec = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]});
    let mut cluster = running(2, &spec);
    let claims: Vec<String> = cluster.names("PersistentVolumeClaim").into_iter().map(ToOwned::to_owned).collect();
    cluster.delete_set();
    let plan = next(&cluster);
    let said = plan.notes.iter().find(|note| note.reason == "ClaimsWillBeDeleted").unwrap();
    assert!(
        claims.iter().all(|claim| said.text.contains(claim)) && said.text.contains("whenDeleted: Retain"),
        "{said:?}"
    );
    cluster.change(|set| {
        set["scaleStrategy"] = json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}});
    });
    go_on(&mut cluster, true, "2026-11-23T00:00:01Z");
    assert!(!cluster.has_set());
    let is_owned = |claim: &serde_json::Value| !claim["metadata"]["ownerReferences"].is_null();
    let all: Vec<_> = cluster.objects.iter().filter(|((kind, _), _)| kind == "PersistentVolumeClaim").collect();
    assert!(all.len() == 2 && all.iter().all(|(_, claim)| !is_owned(claim)));
}

#[test]
fn pods_stay_where_their_owner_wants_them_orphaned_and_an_uninstall_frees_the_object() {
    let mut cluster = running(1, &json!({}));
    let key = ("CollaSet".to_owned(), "web".to_owned());
    let released = registry::read(cluster.set().clone()).unwrap().unwrap();
    let release = registry::of_workload(&released.id.group_kind).unwrap().release(&released).unwrap();
    assert_eq!(release.verb, "remove-finalizer");
    cluster.objects.get_mut(&key).unwrap()["metadata"]["finalizers"] =
        json!(["orphan", "apps.kusionstack.io/pre-reclaim"]);
    cluster.delete_set();
    go_on(&mut cluster, true, "2026-11-23T00:20:00Z");
    assert_eq!(cluster.pods().len(), 1);
    assert_eq!(cluster.set()["metadata"]["finalizers"], json!(["orphan"]));
}
