//! Claims: one for each id and template.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};
use crate::steps::running;

const CLAIM: &str = "PersistentVolumeClaim";

fn data(size: &str) -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}}])
}

fn with(more: &Value) -> Value {
    let mut spec = json!({"volumeClaimTemplates": data("1Gi")});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn mounted(cluster: &Cluster) -> Vec<String> {
    let claim = |pod: &&Value| {
        let volumes = pod["spec"]["volumes"].as_array()?;
        let volume = volumes.iter().find(|volume| volume["name"] == "data")?;
        volume["persistentVolumeClaim"]["claimName"].as_str().map(ToOwned::to_owned)
    };
    cluster.own_pods().iter().filter_map(claim).collect()
}

fn owned(cluster: &Cluster) -> usize {
    let all = cluster.objects.iter().filter(|((kind, _), _)| kind == CLAIM);
    all.filter(|(_, claim)| claim["metadata"]["ownerReferences"][0]["uid"] == "set-uid").count()
}

#[test]
fn a_claim_is_there_before_its_pod_and_outlives_it() {
    let mut cluster = Cluster::with(2, &with(&json!({})));
    cluster.refused.insert("create-claim");
    settle(&mut cluster, true);
    assert!(cluster.pods().is_empty(), "no pod is made without its claim");
    cluster.refused.clear();
    settle(&mut cluster, true);
    let before = mounted(&cluster);
    assert_eq!((before.len(), cluster.names(CLAIM).len()), (2, 2));
    // In place and anew, the same claims.
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2"));
    settle(&mut cluster, true);
    assert_eq!(mounted(&cluster), before);
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["command"] = json!(["/other"]));
    settle(&mut cluster, true);
    let mut after = mounted(&cluster);
    after.sort();
    assert_eq!(after, cluster.names(CLAIM));
}

#[test]
fn fewer_pods_mean_fewer_claims_unless_they_are_kept() {
    let mut cluster = running(3, &with(&json!({})));
    cluster.change(|spec| spec["replicas"] = json!(1));
    settle(&mut cluster, true);
    assert_eq!(cluster.names(CLAIM), mounted(&cluster));
    let keep = json!({"scaleStrategy": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}});
    let mut cluster = running(2, &with(&keep));
    let before: Vec<String> = cluster.names(CLAIM).into_iter().map(ToOwned::to_owned).collect();
    cluster.change(|spec| spec["replicas"] = json!(1));
    settle(&mut cluster, true);
    assert_eq!(cluster.names(CLAIM), before);
    cluster.change(|spec| spec["replicas"] = json!(2));
    settle(&mut cluster, true);
    assert_eq!(cluster.names(CLAIM), before, "the id has its claim again");
}

#[test]
fn another_template_of_claims_makes_pods_and_claims_anew_and_the_old_ones_go_last() {
    let mut cluster = running(2, &with(&json!({})));
    let (before, uids) = (mounted(&cluster), cluster.uids());
    cluster.change(|spec| spec["volumeClaimTemplates"] = data("2Gi"));
    settle(&mut cluster, false);
    assert_eq!(cluster.uids(), uids, "nobody goes who serves");
    assert_eq!(mounted(&cluster), before);
    settle(&mut cluster, true);
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
    let mut after = mounted(&cluster);
    after.sort();
    assert!(after.iter().all(|claim| !before.contains(claim)));
    assert_eq!(cluster.names(CLAIM), after);
}

#[test]
fn a_context_that_is_lost_costs_no_claim() {
    let mut cluster = running(2, &with(&json!({})));
    let before: Vec<String> = cluster.names(CLAIM).into_iter().map(ToOwned::to_owned).collect();
    cluster.objects.remove(&("ResourceContext".to_owned(), "web".to_owned()));
    // A controller that has not seen the pods yet, either.
    let mut seen = Seen::default();
    seen.follow_objects(&cluster);
    let plan = seen.plan(&cluster.left);
    assert!(plan.writes.iter().all(|write| write.verb != "delete-claim"), "{:?}", plan.writes);
    carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    settle(&mut cluster, true);
    assert_eq!(cluster.names(CLAIM), before);
}

#[test]
fn claims_follow_an_excluded_pod_and_one_that_comes_back() {
    let mut cluster = running(1, &with(&json!({})));
    let (name, claim) = (cluster.pod_names()[0].to_owned(), mounted(&cluster)[0].clone());
    cluster.change(|spec| spec["scaleStrategy"] = json!({"podToExclude": [name.clone()]}));
    settle(&mut cluster, true);
    assert_eq!((cluster.names(CLAIM).len(), owned(&cluster)), (2, 1));
    let key = (CLAIM.to_owned(), claim.clone());
    assert_eq!(cluster.objects[&key]["metadata"]["labels"]["collaset.kusionstack.io/orphaned"], "true");
    cluster.change(|spec| {
        spec["replicas"] = json!(2);
        spec["scaleStrategy"] = json!({"podToInclude": [name.clone()]});
    });
    settle(&mut cluster, true);
    assert_eq!(owned(&cluster), 2);
    assert!(mounted(&cluster).contains(&claim));
}
