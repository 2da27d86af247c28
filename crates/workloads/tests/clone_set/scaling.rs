//! Pods that are made and removed.

use std::collections::BTreeSet;

use hitless_workloads::Stage;
use serde_json::json;

use super::cluster::{Cluster, Seen, carry_out_plan, rest, settle};

#[test]
fn pods_are_made_with_ids_and_labels_and_the_status_says_so() {
    let mut cluster = Cluster::with(3, &json!({}));
    let plan = settle(&mut cluster);
    assert_eq!(plan.stage, Stage::Idle);
    let revision = cluster.set()["status"]["updateRevision"].clone();
    for pod in cluster.pods() {
        let (name, labels) = (pod["metadata"]["name"].as_str().unwrap(), &pod["metadata"]["labels"]);
        assert_eq!(
            Some(name),
            labels["apps.kruise.io/cloneset-instance-id"].as_str().map(|id| format!("web-{id}")).as_deref()
        );
        assert_eq!(
            (&labels["controller-revision-hash"], &labels["hitless.dev/made-for"]),
            (&revision, &json!("CloneSet"))
        );
        assert_eq!(pod["metadata"]["ownerReferences"][0]["apiVersion"], "apps.kruise.io/v1alpha1");
    }
    let counts = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updatedAvailableReplicas",
        "expectedUpdatedReplicas",
    ];
    assert_eq!(counts.map(|field| cluster.status(field)), [3; 6]);
    assert_eq!(
        (&cluster.set()["status"]["currentRevision"], &cluster.set()["status"]["labelSelector"]),
        (&revision, &json!("app=web"))
    );
    assert!(cluster.set()["metadata"]["finalizers"].is_null());
}

#[test]
fn one_pod_is_wanted_where_nobody_says_how_many() {
    let mut cluster = Cluster::with(0, &json!({"replicas": null}));
    settle(&mut cluster);
    assert_eq!(cluster.pods().len(), 1);
}

#[test]
fn named_pods_go_first_and_without_fewer_replicas_others_take_their_place() {
    let mut cluster = Cluster::running(4, &json!({}));
    let names: Vec<String> = cluster.pod_names().into_iter().collect();
    cluster.change(|spec| {
        spec["replicas"] = json!(3);
        spec["scaleStrategy"] = json!({"podsToDelete": [names[2]]});
    });
    settle(&mut cluster);
    assert_eq!(cluster.pods().len(), 3);
    assert!(!cluster.pod_names().contains(&names[2]));
    assert_eq!(
        cluster.set()["spec"]["scaleStrategy"]["podsToDelete"],
        json!([names[2]]),
        "nobody writes into the spec"
    );
    cluster.label(&names[0], "apps.kruise.io/specified-delete", "");
    settle(&mut cluster);
    assert!(cluster.pods().len() == 3 && !cluster.pod_names().contains(&names[0]));
}

/// A pod that is to be deleted is replaced before it goes, where none may be missing.
#[test]
fn a_named_pod_is_replaced_first_where_surge_allows_and_unavailable_pods_do_not() {
    let mut cluster = Cluster::running(5, &json!({"updateStrategy": {"maxSurge": 1, "maxUnavailable": 0}}));
    let first = cluster.pod_names().into_iter().next().unwrap();
    cluster.label(&first, "apps.kruise.io/specified-delete", "true");
    let plan = rest(&mut cluster, true);
    assert_eq!((cluster.pods().len(), cluster.available()), (6, 6));
    assert_eq!(plan.desired.iter().map(|wanted| wanted.pod.name.as_str()).collect::<Vec<_>>(), [first.as_str()]);
    settle(&mut cluster);
    assert_eq!(cluster.pods().len(), 5);
    assert!(!cluster.pod_names().contains(&first));
}

#[test]
fn no_pod_is_made_while_as_many_are_unavailable_as_may_be() {
    let mut cluster = Cluster::with(5, &json!({"scaleStrategy": {"maxUnavailable": 2}}));
    rest(&mut cluster, false);
    assert_eq!(cluster.pods().len(), 2);
    let plan = Seen::of(&cluster).plan(&BTreeSet::new());
    assert!(plan.notes.iter().any(|note| note.reason == "ScaleUpLimited"), "{:?}", plan.notes);
    settle(&mut cluster);
    assert_eq!(cluster.pods().len(), 5);
}

#[test]
fn old_pods_go_before_new_ones_and_the_cheapest_of_them_first() {
    let strategy = json!({"updateStrategy": {"type": "InPlaceIfPossible", "partition": 3}});
    let mut cluster = Cluster::running(5, &strategy);
    cluster.image("web:v2");
    settle(&mut cluster);
    assert_eq!((cluster.count("web:v1"), cluster.count("web:v2")), (3, 2));
    let old: Vec<String> = cluster
        .pods()
        .iter()
        .filter(|pod| pod["spec"]["containers"][0]["image"] == "web:v1")
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    cluster.change(|spec| {
        spec["replicas"] = json!(4);
        spec["updateStrategy"]["partition"] = json!(2);
    });
    let key = ("Pod".to_owned(), old[1].clone());
    cluster.objects.get_mut(&key).unwrap()["metadata"]["annotations"] =
        json!({"controller.kubernetes.io/pod-deletion-cost": "-5"});
    settle(&mut cluster);
    assert_eq!((cluster.count("web:v1"), cluster.count("web:v2")), (2, 2));
    assert!(!cluster.pod_names().contains(&old[1]));
}

#[test]
fn the_ids_are_known_from_the_pods_where_the_annotation_is_lost() {
    let mut cluster = Cluster::running(4, &json!({}));
    let before = cluster.uids();
    let version = json!("999999");
    let set = cluster.objects.get_mut(&("CloneSet".to_owned(), "web".to_owned())).unwrap();
    assert!(set["metadata"]["annotations"]["hitless.dev/instances"].is_string());
    set["metadata"]["annotations"] = json!({});
    set["metadata"]["resourceVersion"] = version;
    settle(&mut cluster);
    assert_eq!(cluster.uids(), before);
}

#[test]
fn what_makes_no_sense_is_told_and_changes_no_pod() {
    let faults = [
        (json!({"updateStrategy": {"type": "InPlaceOnly", "maxSurge": 1}}), "maxSurge"),
        (json!({"updateStrategy": {"maxSurge": 0, "maxUnavailable": "0%"}}), "both 0"),
        (json!({"updateStrategy": {"partition": "99"}}), "99"),
        (json!({"updateStrategy": {"type": "Sideways"}}), "Sideways"),
        (json!({"updateStrategy": {"type": "ReCreate", "rollingUpdate": {}}}), "v1beta1"),
        (json!({"selector": {"matchLabels": {"app": "other"}}}), "spec.selector"),
        (json!({"lifecycle": {"preDelete": {"labelsHandler": {"app": "web"}}}}), "hook preDelete"),
        (
            json!({"lifecycle": {"inPlaceUpdate": {"labelsHandler": {"controller-revision-hash": "x"}}}}),
            "hook inPlaceUpdate",
        ),
        (json!({"volumeClaimTemplates": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]}), "two entries"),
    ];
    for (fields, words) in faults {
        let mut cluster = Cluster::running(2, &json!({}));
        let before = cluster.uids();
        cluster.change(|spec| {
            for (key, value) in fields.as_object().unwrap() {
                spec[key] = value.clone();
            }
        });
        let plan = settle(&mut cluster);
        assert!(
            matches!(&plan.stage, Stage::Refused(because) if because.text.contains(words)),
            "{fields}: {:?}",
            plan.stage
        );
        assert_eq!(cluster.uids(), before);
        let condition = &cluster.set()["status"]["conditions"][0];
        assert!(
            condition["reason"] == "InvalidSpec" && condition["message"].as_str().unwrap().contains(words),
            "{condition}"
        );
    }
}

#[test]
fn nothing_is_done_for_one_that_is_being_deleted() {
    let mut cluster = Cluster::running(2, &json!({}));
    let set = cluster.objects.get_mut(&("CloneSet".to_owned(), "web".to_owned())).unwrap();
    set["metadata"]["deletionTimestamp"] = json!(super::cluster::NOW);
    let first = cluster.pod_names().into_iter().next().unwrap();
    cluster.delete_pod(&first);
    let mut seen = Seen::of(&cluster);
    let plan = seen.plan(&cluster.left);
    assert!(!carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX) && plan.desired.is_empty());
}
