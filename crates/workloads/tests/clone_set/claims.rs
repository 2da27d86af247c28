//! PersistentVolumeClaims, and what becomes of them in both modes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Cluster, rest, settle};

fn templates() -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}])
}

fn claims(cluster: &Cluster) -> BTreeSet<String> {
    cluster.names("PersistentVolumeClaim")
}

fn wanted(cluster: &Cluster) -> BTreeSet<String> {
    cluster.pod_names().into_iter().map(|pod| format!("data-{pod}")).collect()
}

#[test]
fn each_pod_has_its_own_claim_which_goes_with_it() {
    let mut cluster = Cluster::running(3, &json!({"volumeClaimTemplates": templates()}));
    assert_eq!(claims(&cluster), wanted(&cluster));
    for pod in cluster.pods() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], format!("data-{name}"));
    }
    cluster.change(|spec| spec["replicas"] = json!(2));
    settle(&mut cluster);
    assert_eq!((claims(&cluster).len(), claims(&cluster)), (2, wanted(&cluster)));
    // By new pods: other ids, other claims.
    let before = claims(&cluster);
    cluster.image("web:v2");
    settle(&mut cluster);
    assert_eq!(claims(&cluster), wanted(&cluster));
    assert!(claims(&cluster).is_disjoint(&before));
}

/// v1alpha1's default: the next pod takes the id and the claims over, and waits for the name.
#[test]
fn who_deletes_a_pod_by_hand_keeps_its_claims_where_they_are_reused() {
    let mut cluster = Cluster::running(3, &json!({"volumeClaimTemplates": templates()}));
    let (first, before) = (cluster.pod_names().into_iter().next().unwrap(), claims(&cluster));
    cluster.keeps_terminating = true;
    cluster.delete_pod(&first);
    let plan = rest(&mut cluster, true);
    assert_eq!(cluster.pods().len(), 2, "its name is taken");
    assert!(
        plan.notes.iter().any(|note| note.reason == "PodNameTaken" && note.text.contains(&first)),
        "{:?}",
        plan.notes
    );
    // It blocks no other pod.
    cluster.change(|spec| spec["replicas"] = json!(4));
    rest(&mut cluster, true);
    assert_eq!(cluster.pods().len(), 3);
    cluster.keeps_terminating = false;
    settle(&mut cluster);
    assert!(cluster.pod_names().contains(&first) && claims(&cluster).is_superset(&before));
}

/// v1beta1's default.
#[test]
fn who_deletes_a_pod_by_hand_deletes_its_claims_where_they_are_not_reused() {
    let shapes =
        [json!({"scaleStrategy": {"disablePVCReuse": true}}), json!({"updateStrategy": {"type": "RollingUpdate"}})];
    for mut fields in shapes {
        fields["volumeClaimTemplates"] = templates();
        let mut cluster = Cluster::running(3, &fields);
        let first = cluster.pod_names().into_iter().next().unwrap();
        cluster.keeps_terminating = true;
        cluster.delete_pod(&first);
        rest(&mut cluster, true);
        assert_eq!(cluster.pods().len(), 3, "it does not wait for the name");
        cluster.keeps_terminating = false;
        settle(&mut cluster);
        assert_eq!(claims(&cluster), wanted(&cluster), "{fields}");
        assert!(!cluster.pod_names().contains(&first));
    }
}

#[test]
fn a_pod_that_is_named_takes_its_claims_with_it_in_both_modes() {
    let mut cluster = Cluster::running(3, &json!({"volumeClaimTemplates": templates()}));
    let first = cluster.pod_names().into_iter().next().unwrap();
    cluster.label(&first, "apps.kruise.io/specified-delete", "true");
    settle(&mut cluster);
    assert_eq!((cluster.pods().len(), claims(&cluster)), (3, wanted(&cluster)));
    assert!(!cluster.pod_names().contains(&first));
}

#[test]
fn a_change_of_claims_alone_is_no_revision() {
    let mut cluster = Cluster::running(2, &json!({"volumeClaimTemplates": templates()}));
    let before = (cluster.uids(), claims(&cluster), cluster.names("ControllerRevision"));
    cluster.change(|spec| spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] = json!("fast"));
    settle(&mut cluster);
    assert_eq!((cluster.uids(), claims(&cluster), cluster.names("ControllerRevision")), before);
    cluster.change(|spec| spec["replicas"] = json!(3));
    settle(&mut cluster);
    let fast = cluster.objects.values().filter(|object| object["spec"]["storageClassName"] == "fast").count();
    assert_eq!(fast, 1, "only new pods get the new ones");
}
