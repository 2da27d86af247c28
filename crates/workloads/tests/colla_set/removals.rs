//! Pods that serve nobody and are to go: the rules are asked first, and so many are made anew at a time as a Deployment would.

use std::collections::BTreeSet;

use hitless_workloads::{Plan, Removal};
use serde_json::json;

use crate::cluster::{Cluster, Seen, carry_out_plan};
use crate::steps::{next, running};

const RECREATE: &str = "ReCreate";

/// So many pods, whose template has changed.
fn changed(replicas: i64) -> Cluster {
    let mut cluster = running(replicas, &json!({"updateStrategy": {"podUpgradePolicy": RECREATE}}));
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]));
    let mut seen = Seen::of(&cluster);
    for _ in 0..3 {
        let plan = seen.plan(&cluster.left);
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    cluster
}

/// What all pods of that name depend on is away, or is back.
fn probes(cluster: &mut Cluster, names: &[String], succeed: bool) {
    for name in names {
        let version = cluster.next_version();
        let pod = cluster.objects.get_mut(&("Pod".to_owned(), name.clone())).unwrap();
        let status = if succeed { "True" } else { "False" };
        pod["metadata"]["resourceVersion"] = json!(version);
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": status, "reason": "ContainersNotReady"},
            {"type": "hitless.dev/InService", "status": "True"}]);
    }
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.pod_names().into_iter().map(ToOwned::to_owned).collect()
}

fn deleted(plan: &Plan) -> Vec<&str> {
    plan.writes.iter().filter(|write| write.verb == "delete-pod").map(|write| write.on.name.as_str()).collect()
}

fn removals(plan: &Plan) -> Vec<Removal> {
    plan.desired.iter().filter_map(|wanted| wanted.removal).collect()
}

#[test]
fn a_plan_deletes_no_pod_that_is_not_ready_before_the_rules_were_asked() {
    let mut cluster = changed(5);
    let all = names(&cluster);
    probes(&mut cluster, &all, false);
    let plan = next(&cluster);
    assert_eq!(deleted(&plan), [""; 0], "nobody was asked");
    assert_eq!(removals(&plan), [Removal::Anew { room: 1 }; 5]);
    // One is let go. The others wait until that one is there again and Ready.
    cluster.removable.insert(plan.desired[2].pod.uid.clone());
    let plan = next(&cluster);
    assert_eq!(deleted(&plan), [plan.desired[2].pod.name.as_str()]);
    let mut seen = Seen::of(&cluster);
    carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    let room = |cluster: &Cluster| removals(&next(cluster)).first().copied();
    assert_eq!(room(&cluster), Some(Removal::Anew { room: 0 }), "it is away");
    for _ in 0..2 {
        let plan = seen.plan(&BTreeSet::new());
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    let new: Vec<String> = names(&cluster).into_iter().filter(|name| !all.contains(name)).collect();
    assert_eq!((new.len(), room(&cluster)), (1, Some(Removal::Anew { room: 0 })), "it is not Ready yet");
    probes(&mut cluster, &new, true);
    assert_eq!(room(&cluster), Some(Removal::Anew { room: 1 }));
}

#[test]
fn what_is_reserved_and_serves_again_leaves_service_first() {
    let mut cluster = changed(5);
    let all = names(&cluster);
    probes(&mut cluster, &all, false);
    cluster.removable = cluster.uids().into_iter().collect();
    probes(&mut cluster, &all, true);
    let plan = next(&cluster);
    assert_eq!((deleted(&plan).len(), removals(&plan).len(), plan.desired.len()), (0, 0, 5));
}

#[test]
fn a_quarter_of_many_pods_is_made_anew_at_a_time_and_any_number_goes_for_good() {
    let mut cluster = changed(9);
    let all = names(&cluster);
    probes(&mut cluster, &all, false);
    assert_eq!(removals(&next(&cluster)), [Removal::Anew { room: 2 }; 9]);
    cluster.change(|spec| spec["replicas"] = json!(4));
    let plan = next(&cluster);
    assert_eq!(removals(&plan).iter().filter(|removal| **removal == Removal::Surplus).count(), 5);
    assert_eq!(deleted(&plan), [""; 0], "the rules are asked here, too");
}

#[test]
fn pods_that_people_name_are_made_anew_while_all_others_serve() {
    let mut cluster = running(5, &json!({}));
    let all = names(&cluster);
    probes(&mut cluster, &all[..2], false);
    cluster.label(&all[0], "collaset.kusionstack.io/to-delete", Some("true"));
    assert_eq!(removals(&next(&cluster)), [Removal::Anew { room: 0 }], "another one is down");
    probes(&mut cluster, &all[1..2], true);
    assert_eq!(removals(&next(&cluster)), [Removal::Anew { room: 1 }]);
}

#[test]
fn pods_of_a_colla_set_that_is_being_deleted_go_at_once_if_they_serve_nobody() {
    let mut cluster = running(3, &json!({}));
    let all = names(&cluster);
    probes(&mut cluster, &all[..2], false);
    cluster.delete_set();
    let plan = next(&cluster);
    assert_eq!((deleted(&plan).len(), plan.desired.len()), (2, 1), "its owner misses none of them");
}
