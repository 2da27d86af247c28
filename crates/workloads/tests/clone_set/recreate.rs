//! Updates by new pods (`ReCreate`, the default).

use hitless_api::GrantOp;
use serde_json::json;

use super::cluster::{Cluster, rest, settle};

#[test]
fn new_pods_have_other_ids_and_leave_service_first() {
    let mut cluster = Cluster::running(3, &json!({}));
    let (uids, names) = (cluster.uids(), cluster.pod_names());
    cluster.image("web:v2");
    let plan = rest(&mut cluster, true);
    assert!(plan.desired.iter().all(|wanted| wanted.intent.as_ref().unwrap().operation.op == GrantOp::Drain));
    assert_eq!(cluster.uids(), uids, "nobody goes before he has left service");
    settle(&mut cluster);
    assert_eq!(cluster.count("web:v2"), 3);
    assert!(cluster.uids().is_disjoint(&uids));
    assert!(cluster.pod_names().iter().all(|name| name.len() == "web-bbbbb".len()));
    assert_ne!(cluster.pod_names(), names);
}

/// Report 7 of users: the pod terminates for ever, and the one in its place does not wait for its name.
#[test]
fn a_pod_that_never_ends_keeps_no_other_from_being_made() {
    let mut cluster = Cluster::running(3, &json!({}));
    let first = cluster.pod_names().into_iter().next().unwrap();
    cluster.keeps_terminating = true;
    cluster.delete_pod(&first);
    rest(&mut cluster, true);
    assert_eq!((cluster.pods().len(), cluster.available()), (3, 3));
    assert!(!cluster.pod_names().contains(&first));
    // Nor does the next one take its name.
    let second = cluster.pod_names().into_iter().next().unwrap();
    cluster.delete_pod(&second);
    rest(&mut cluster, true);
    assert_eq!(cluster.pods().len(), 3);
}

#[test]
fn while_a_new_pod_is_not_accepted_no_other_one_leaves() {
    let mut cluster = Cluster::running(3, &json!({}));
    cluster.image("web:v2");
    let gone = cluster.pod_names().into_iter().next().unwrap();
    cluster.refused.insert("create-pod");
    cluster.delete_pod(&gone);
    for _ in 0..4 {
        rest(&mut cluster, true);
    }
    let mut seen = super::cluster::Seen::of(&cluster);
    let plan = seen.plan(&cluster.left);
    super::cluster::carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    let plan = seen.plan(&cluster.left);
    assert_eq!(plan.desired.len(), 0, "{:?}", plan.stage);
    let status = plan.writes.iter().find(|write| write.verb == "report-status");
    let text = format!("{status:?}");
    assert!(text.contains("FailedCreate") && text.contains("exceeded quota"), "{text}");
    cluster.refused.clear();
    settle(&mut cluster);
    assert_eq!(cluster.count("web:v2"), 3);
}
