//! What happens in order.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GrantOp;
use hitless_workloads::{Plan, Request, Stage};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};

pub(crate) fn running(replicas: i64, more: &Value) -> Cluster {
    let mut cluster = Cluster::with(replicas, more);
    settle(&mut cluster, true);
    cluster
}

pub(crate) fn image(cluster: &mut Cluster, image: &str) {
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!(image));
}

pub(crate) fn next(cluster: &Cluster) -> Plan {
    Seen::of(cluster).plan(&cluster.left)
}

pub(crate) fn operations(plan: &Plan) -> Vec<GrantOp> {
    plan.desired.iter().filter_map(|wanted| Some(wanted.intent.as_ref().ok()?.operation.op.clone())).collect()
}

pub(crate) fn context(cluster: &Cluster) -> Vec<(i64, Value)> {
    let contexts = cluster.objects[&("ResourceContext".to_owned(), "web".to_owned())]["spec"]["contexts"].clone();
    contexts.as_array().unwrap().iter().map(|each| (each["id"].as_i64().unwrap(), each["data"].clone())).collect()
}

#[test]
fn pods_are_made_with_ids_and_labels_and_the_status_says_so() {
    let mut cluster = Cluster::with(3, &json!({}));
    let plan = settle(&mut cluster, true);
    assert_eq!(plan.stage, Stage::Idle);
    assert_eq!(cluster.ids(), [0, 1, 2]);
    let revision = cluster.set()["status"]["updatedRevision"].clone();
    for pod in cluster.pods() {
        assert_eq!(pod["metadata"]["labels"]["kusionstack.io/control"], "true");
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], revision);
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "set-uid");
        assert_eq!(pod["spec"]["readinessGates"][0]["conditionType"], "hitless.dev/InService");
    }
    let status = &cluster.set()["status"];
    assert_eq!((&status["replicas"], &status["availableReplicas"]), (&json!(3), &json!(3)));
    assert_eq!((&status["currentRevision"], &status["labelSelector"]), (&revision, &json!("app=web")));
    assert!(context(&cluster).iter().all(|(_, data)| data["Owner"] == "web" && data["Revision"] == revision));
    assert!(context(&cluster).iter().all(|(_, data)| data.get("PodJustCreate").is_none()));
}

#[test]
fn many_pods_are_made_in_bursts_that_double() {
    let mut cluster = Cluster::with(20, &json!({}));
    let (mut seen, mut bursts) = (Seen::of(&cluster), Vec::new());
    for _ in 0..9 {
        let plan = seen.plan(&cluster.left);
        let before = cluster.pods().len();
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
        bursts.extend(Some(cluster.pods().len() - before).filter(|made| *made > 0));
    }
    assert_eq!(bursts, [1, 1, 2, 4, 8, 4]);
}

#[test]
fn a_template_that_is_refused_is_refused_once_a_round_and_mended_by_the_next() {
    let mut cluster = Cluster::with(5, &json!({}));
    cluster.refused.insert("create-pod");
    settle(&mut cluster, true);
    let creations = next(&cluster).writes.iter().filter(|write| write.verb == "create-pod").count();
    assert_eq!((cluster.pods().len(), creations), (0, 1));
    image(&mut cluster, "web:v2");
    cluster.refused.clear();
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v2"; 5], "no pod is made from what was refused");
}

#[test]
fn while_a_new_pod_is_not_accepted_no_other_one_leaves_to_be_made_anew() {
    let mut cluster = running(3, &json!({}));
    cluster.change(|spec| spec["template"]["spec"]["hostPID"] = json!(true));
    settle(&mut cluster, false);
    assert_eq!(operations(&next(&cluster)), [GrantOp::Drain, GrantOp::Drain, GrantOp::Drain]);
    // One has left and is not made anew.
    let gone = cluster.pod_names()[0].to_owned();
    cluster.refused.insert("create-pod");
    cluster.delete_pod(&gone);
    settle(&mut cluster, false);
    let write = next(&cluster).writes.into_iter().find(|write| write.verb == "create-pod").unwrap();
    let words = "an administrator labels namespace shop hitless.dev/node-access=allowed";
    let plan = Seen::of(&cluster).plan_refusing(&[(write.key(), words.to_owned())].into());
    assert_eq!(operations(&plan), []);
    assert!(plan.writes.iter().any(|write| write.verb == "create-pod"), "it is tried again");
    assert!(matches!(&plan.stage, Stage::Refused(because) if because.text.contains(words)), "{:?}", plan.stage);
    // It is accepted, and the others follow.
    cluster.refused.clear();
    settle(&mut cluster, true);
    assert!(cluster.pods().iter().all(|pod| pod["spec"]["hostPID"] == true));
}

#[test]
fn before_the_first_pod_leaves_the_api_server_is_asked_whether_it_accepts_the_one_in_its_place() {
    let mut cluster = running(3, &json!({}));
    cluster.change(|spec| spec["template"]["spec"]["hostPID"] = json!(true));
    settle(&mut cluster, false);
    let plan_of = |accepted: &[String], refused: BTreeMap<String, String>| {
        Seen::of(&cluster).asking(accepted).plan_refusing(&refused)
    };
    let tried = |plan: &Plan| plan.writes.iter().find(|write| write.verb == "try-pod").cloned();
    let asks = plan_of(&[], BTreeMap::new());
    assert_eq!((operations(&asks), &asks.stage), (vec![], &Stage::Rolling));
    let attempt = tried(&asks).unwrap();
    let Request::Try(pod) = &attempt.request else { panic!("{attempt:?}") };
    assert_eq!(pod["spec"]["hostPID"], true);
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], attempt.on.name.as_str());

    let words = "an administrator labels namespace shop hitless.dev/node-access=allowed";
    let refused = plan_of(&[], [(attempt.key(), words.to_owned())].into());
    assert_eq!(operations(&refused), []);
    assert!(matches!(&refused.stage, Stage::Refused(because) if because.text.contains(words)), "{:?}", refused.stage);
    assert!(tried(&refused).is_some(), "it is asked again");

    let accepted = plan_of(&[attempt.key()], BTreeMap::new());
    assert_eq!(operations(&accepted), [GrantOp::Drain, GrantOp::Drain, GrantOp::Drain]);
    assert!(tried(&accepted).is_none());
    // One that is there was accepted, whoever leads now.
    settle(&mut cluster, true);
    cluster.change(|spec| spec["replicas"] = json!(4));
    assert!(tried(&Seen::of(&cluster).asking(&[]).plan(&BTreeSet::new())).is_none());
}

#[test]
fn an_image_goes_in_place_and_the_same_pods_have_the_revision() {
    let mut cluster = running(3, &json!({}));
    let before: Vec<String> = cluster.pod_names().into_iter().map(ToOwned::to_owned).collect();
    image(&mut cluster, "web:v2");
    settle(&mut cluster, false);
    let plan = next(&cluster);
    assert_eq!(plan.stage, Stage::Rolling);
    assert_eq!(operations(&plan), [GrantOp::Update, GrantOp::Update, GrantOp::Update]);
    let plan = settle(&mut cluster, true);
    assert_eq!(plan.stage, Stage::Idle);
    assert_eq!(cluster.pod_names(), before);
    assert_eq!(cluster.images(), ["web:v2"; 3]);
    let revision = cluster.set()["status"]["currentRevision"].clone();
    assert!(context(&cluster).iter().all(|(_, data)| data["Revision"] == revision), "the ids follow their pods");
}

#[test]
fn what_can_not_go_in_place_leaves_service_and_is_made_anew_under_its_id() {
    let mut cluster = running(3, &json!({}));
    let before: Vec<String> = cluster.pod_names().into_iter().map(ToOwned::to_owned).collect();
    let uids = cluster.uids();
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["command"] = json!(["/other"]));
    settle(&mut cluster, false);
    assert_eq!(operations(&next(&cluster)), [GrantOp::Drain, GrantOp::Drain, GrantOp::Drain]);
    assert_eq!(cluster.pod_names(), before, "nobody is deleted who serves");
    settle(&mut cluster, true);
    assert_eq!(cluster.ids(), [0, 1, 2]);
    assert!(cluster.pods().iter().all(|pod| pod["spec"]["containers"][0]["command"] == json!(["/other"])));
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
    assert!(context(&cluster).iter().all(|(_, data)| data.get("PodRecreateUpdate").is_none()));
}

#[test]
fn in_place_only_refuses_what_can_not_be_done_and_recreate_never_patches() {
    let policy = |policy: &str| json!({"updateStrategy": {"podUpgradePolicy": policy}});
    let mut only = running(2, &policy("InPlaceOnly"));
    only.change(|spec| spec["template"]["spec"]["containers"][0]["command"] = json!(["/other"]));
    settle(&mut only, true);
    assert!(matches!(next(&only).stage, Stage::Refused(_)), "{:?}", next(&only).stage);
    let mut anew = running(2, &policy("ReCreate"));
    image(&mut anew, "web:v2");
    settle(&mut anew, false);
    assert_eq!(operations(&next(&anew)), [GrantOp::Drain, GrantOp::Drain]);
}

#[test]
fn a_partition_keeps_so_many_and_what_comes_meanwhile_has_the_revision_of_its_place() {
    let mut cluster = running(4, &json!({"updateStrategy": {"rollingUpdate": {"byPartition": {"partition": 3}}}}));
    image(&mut cluster, "web:v2");
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v1", "web:v1", "web:v2"]);
    cluster.change(|spec| spec["replicas"] = json!(6));
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v1", "web:v1", "web:v2", "web:v2", "web:v2"]);
    let old = cluster.pods().into_iter().find(|pod| pod["spec"]["containers"][0]["image"] == "web:v1").unwrap();
    let name = old["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.delete_pod(&name);
    settle(&mut cluster, true);
    let images = cluster.images();
    assert_eq!(images.iter().filter(|image| *image == "web:v1").count(), 3, "it comes back as it was: {images:?}");
}

#[test]
fn fewer_pods_leave_service_first_and_their_ids_become_free() {
    let mut cluster = running(4, &json!({}));
    cluster.change(|spec| spec["replicas"] = json!(2));
    settle(&mut cluster, false);
    assert_eq!((cluster.pods().len(), operations(&next(&cluster))), (4, vec![GrantOp::Drain, GrantOp::Drain]));
    settle(&mut cluster, true);
    assert_eq!((cluster.ids().len(), context(&cluster).len()), (2, 2));
    cluster.change(|spec| spec["replicas"] = json!(4));
    settle(&mut cluster, true);
    assert_eq!(cluster.ids(), [0, 1, 2, 3], "the lowest free ids are taken");
}

#[test]
fn who_is_named_goes_first_and_one_that_is_labelled_comes_back() {
    let mut cluster = running(3, &json!({}));
    let named = cluster.pod_names()[1].to_owned();
    cluster.change(|spec| {
        spec["replicas"] = json!(2);
        spec["scaleStrategy"] = json!({"podToDelete": [named.clone()]});
    });
    settle(&mut cluster, true);
    assert!(!cluster.pod_names().contains(&named.as_str()));
    let (labelled, before) = (cluster.pod_names()[0].to_owned(), cluster.uids());
    cluster.objects.get_mut(&("Pod".to_owned(), labelled.clone())).unwrap()["metadata"]["labels"]["collaset.kusionstack.io/to-delete"] =
        json!("true");
    settle(&mut cluster, true);
    let kept = cluster.uids().into_iter().filter(|uid| before.contains(uid)).count();
    assert_eq!((cluster.pods().len(), kept), (2, 1));
}

#[test]
fn pods_in_sequence_have_the_name_of_their_id() {
    let mut cluster = running(2, &json!({"namingStrategy": {"podNamingSuffixPolicy": "PersistentSequence"}}));
    assert_eq!(cluster.pod_names(), ["web-0", "web-1"]);
    assert!(cluster.pods().iter().all(|pod| pod["spec"]["hostname"] == pod["metadata"]["name"]));
    cluster.delete_pod("web-0");
    let plan = next(&cluster);
    assert!(plan.writes.iter().all(|write| write.verb != "create-pod"), "the name is taken: {:?}", plan.writes);
    settle(&mut cluster, true);
    assert_eq!(cluster.pod_names(), ["web-0", "web-1"]);
    // A new pod of the name would be named, too, and so on.
    let before = cluster.uids();
    cluster.change(|spec| spec["scaleStrategy"] = json!({"podToDelete": ["web-0"]}));
    settle(&mut cluster, true);
    assert_eq!(cluster.uids(), before);
    cluster.change(|spec| spec["replicas"] = json!(1));
    settle(&mut cluster, true);
    assert_eq!(cluster.pod_names(), ["web-1"]);
}

#[test]
fn a_template_that_comes_again_is_the_same_revision_and_old_ones_go() {
    let mut cluster = running(1, &json!({"historyLimit": 1}));
    let first = cluster.set()["status"]["updatedRevision"].clone();
    for version in ["web:v2", "web:v1", "web:v3", "web:v4"] {
        image(&mut cluster, version);
        settle(&mut cluster, true);
        if version == "web:v1" {
            assert_eq!(cluster.set()["status"]["updatedRevision"], first);
        }
    }
    let revisions = cluster.objects.keys().filter(|(kind, _)| kind == "ControllerRevision").count();
    assert_eq!(revisions, 2, "the one in use and one more");
}

/// Its operation may still be rolled back, and then it is at the revision that it had.
#[test]
fn no_revision_goes_while_a_pod_of_the_new_one_is_being_operated() {
    let mut cluster = running(1, &json!({"historyLimit": 0}));
    image(&mut cluster, "web:v2");
    let deletes = |plan: &Plan| plan.writes.iter().any(|write| write.verb == "delete-revision");
    for _ in 0..20 {
        let mut seen = Seen::of(&cluster);
        seen.operating = cluster.uids().into_iter().collect();
        let plan = seen.plan(&cluster.left);
        assert!(!deletes(&plan));
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
        cluster.operate(&plan);
        cluster.kubelets();
    }
    assert_eq!(cluster.images(), ["web:v2"]);
    // The status says first that no pod is at the old one any more.
    settle(&mut cluster, true);
    let revisions = cluster.objects.keys().filter(|(kind, _)| kind == "ControllerRevision").count();
    assert_eq!(revisions, 1, "once it is over");
}

/// One can follow, the other one can't: what is under way ends.
#[test]
fn an_operation_is_not_taken_back_because_other_pods_are_refused() {
    let mut cluster = running(
        2,
        &json!({"updateStrategy": {"podUpgradePolicy": "InPlaceOnly", "rollingUpdate": {"byPartition": {"partition": 1}}}}),
    );
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["command"] = json!(["/other"]));
    settle(&mut cluster, true);
    let mut seen = Seen::of(&cluster);
    let refused = |seen: &Seen| matches!(seen.plan(&BTreeSet::new()).stage, Stage::Refused(_));
    assert!(refused(&seen));
    seen.operating = cluster.uids().into_iter().collect();
    assert!(!refused(&seen));
}

#[test]
fn pods_and_ids_of_kuperators_are_taken_on_as_they_are() {
    let mut cluster = running(2, &json!({}));
    let names: Vec<String> = cluster.pod_names().into_iter().map(ToOwned::to_owned).collect();
    // Upstream keeps no names.
    let key = ("ResourceContext".to_owned(), "web".to_owned());
    let contexts = &mut cluster.objects.get_mut(&key).unwrap()["spec"]["contexts"];
    for each in contexts.as_array_mut().unwrap() {
        each["data"].as_object_mut().unwrap().remove("hitless.dev/pod");
    }
    settle(&mut cluster, true);
    assert_eq!(cluster.pod_names(), names);
    assert!(context(&cluster).iter().all(|(_, data)| data["hitless.dev/pod"].is_string()));
}
