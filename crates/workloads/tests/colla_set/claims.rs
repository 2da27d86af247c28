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

fn keep(when_deleted: &str) -> Value {
    json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted}})
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// All of them, changed like this by somebody.
fn touch(cluster: &mut Cluster, change: impl Fn(&mut Value)) {
    let version = cluster.next_version();
    for (_, claim) in cluster.objects.iter_mut().filter(|((kind, _), _)| kind == CLAIM) {
        change(&mut claim["metadata"]);
        claim["metadata"]["resourceVersion"] = json!(version);
    }
}

#[test]
fn claims_of_an_earlier_version_lose_their_owner_at_once_and_nobody_elses() {
    let mut cluster = running(2, &with(&json!({"scaleStrategy": keep("Retain")})));
    assert_eq!(owned(&cluster), 0, "there is none");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "backup", "uid": "other"});
    let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "web", "uid": "set-uid",
        "controller": true, "blockOwnerDeletion": true});
    touch(&mut cluster, |meta| {
        meta["labels"].as_object_mut().unwrap().remove("hitless.dev/claim-of");
        meta["ownerReferences"] = json!([other, owner]);
    });
    settle(&mut cluster, false);
    assert_eq!(cluster.names(CLAIM).len(), 2);
    touch(&mut cluster, |meta| {
        assert_eq!(meta["ownerReferences"], json!([other]));
        assert_eq!(meta["labels"]["hitless.dev/claim-of"], "set-uid");
    });
    // They are its own without an owner: they go with their ids, and get it back, beside the other one.
    cluster.change(|spec| {
        spec["replicas"] = json!(1);
        spec["scaleStrategy"] = keep("Delete");
    });
    settle(&mut cluster, true);
    assert_eq!(cluster.names(CLAIM), mounted(&cluster));
    touch(&mut cluster, |meta| {
        assert_eq!(meta["ownerReferences"][0], other);
        assert_eq!(meta["ownerReferences"][1]["uid"], "set-uid");
    });
}

#[test]
fn a_claim_that_a_template_names_as_any_other_volume_is_its_owners() {
    let made = json!({"collaset.kusionstack.io/instance-id": "0", "collaset.kusionstack.io/pvc-template-name": "data",
        "collaset.kusionstack.io/orphaned": "true"});
    for marks in [json!({}), made] {
        let mut labels = json!({"kusionstack.io/control": "true"});
        labels.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        let shared = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared", "namespace": "shop", "uid": "shared", "resourceVersion": "1", "labels": labels}, "spec": {}});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:v1"}],
            "volumes": [{"name": "old", "persistentVolumeClaim": {"claimName": "shared"}}]}});
        let mut cluster = Cluster::with(2, &with(&json!({"template": template})));
        cluster.objects.insert((CLAIM.to_owned(), "shared".to_owned()), shared.clone());
        settle(&mut cluster, true);
        assert_eq!(cluster.names(CLAIM).len(), 3);
        cluster.change(|spec| spec["replicas"] = json!(0));
        settle(&mut cluster, true);
        assert_eq!(cluster.names(CLAIM), ["shared"], "what was made for the pods is gone");
        assert_eq!(cluster.objects[&(CLAIM.to_owned(), "shared".to_owned())], shared);
    }
}

#[test]
fn a_claim_of_a_collaset_that_is_there_is_never_taken_on_by_another() {
    let mut cluster = running(1, &with(&json!({"scaleStrategy": keep("Retain")})));
    let mut other = cluster.set().clone();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("other-uid");
    cluster.objects.insert(("CollaSet".to_owned(), "other".to_owned()), other);
    let first = cluster.names(CLAIM)[0].to_owned();
    for _ in 0..20 {
        let mut seen = Seen::of(&cluster);
        let plan = seen.plan_of("other", &cluster.left, crate::cluster::NOW);
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
        cluster.kubelets();
    }
    let of = |name: &str| cluster.objects[&(CLAIM.to_owned(), name.to_owned())]["metadata"]["labels"].clone();
    assert_eq!(cluster.names(CLAIM).len(), 2);
    assert_eq!(of(&first)["hitless.dev/claim-of"], "set-uid");
    assert!(cluster.names(CLAIM).into_iter().any(|name| of(name)["hitless.dev/claim-of"] == "other-uid"));
}

/// A controller and agents for a while, in a cluster in which no pod with another claim than these gets ready.
fn go_on_with_crashes(cluster: &mut Cluster, known: &[String]) {
    for _ in 0..20 {
        let mut seen = Seen::of(cluster);
        let plan = seen.plan(&cluster.left);
        carry_out_plan(cluster, &mut seen, &plan, usize::MAX);
        cluster.operate(&plan);
        let crashes = |pod: &Value| {
            let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
            pod["metadata"]["deletionTimestamp"].is_null() && !known.iter().any(|known| claim == known.as_str())
        };
        let pods = cluster.objects.iter().filter(|((kind, _), pod)| kind == "Pod" && !crashes(pod));
        for key in pods.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            cluster.kubelet(&key);
        }
    }
}

#[test]
fn a_version_that_fails_with_its_new_volumes_has_not_taken_the_old_ones_with_it() {
    let mut cluster = running(3, &with(&json!({})));
    let before = sorted(mounted(&cluster));
    cluster.change(|spec| spec["volumeClaimTemplates"] = data("2Gi"));
    go_on_with_crashes(&mut cluster, &before);
    let claims = cluster.names(CLAIM);
    assert!(claims.len() > 3, "a pod has got a new one");
    assert!(before.iter().all(|claim| claims.contains(&claim.as_str())), "{before:?} {claims:?}");
    // Back to where it was: the same volumes, and those of the attempt go once all serve.
    cluster.change(|spec| spec["volumeClaimTemplates"] = data("1Gi"));
    settle(&mut cluster, true);
    assert_eq!(sorted(mounted(&cluster)), before);
    assert_eq!(cluster.names(CLAIM), before);
}

#[test]
fn superseded_claims_stay_for_a_partition_and_until_pods_count_as_available_and_their_end_is_told() {
    let partition = |kept: u64| json!({"rollingUpdate": {"byPartition": {"partition": kept}}});
    let ready_now = |cluster: &mut Cluster| {
        for (_, pod) in cluster.objects.iter_mut().filter(|((kind, _), _)| kind == "Pod") {
            pod["status"]["conditions"][0]["lastTransitionTime"] = json!(crate::cluster::NOW);
        }
    };
    let mut cluster = running(3, &with(&json!({})));
    let before = sorted(mounted(&cluster));
    cluster.change(|spec| {
        spec["volumeClaimTemplates"] = data("2Gi");
        spec["updateStrategy"] = partition(1);
        spec["minReadySeconds"] = json!(30);
    });
    settle(&mut cluster, true);
    assert_eq!(cluster.names(CLAIM).len(), 5, "one pod is still to come");
    cluster.change(|spec| spec["updateStrategy"] = partition(0));
    for _ in 0..20 {
        ready_now(&mut cluster);
        let mut seen = Seen::of(&cluster);
        let plan = seen.plan(&cluster.left);
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
        cluster.operate(&plan);
        cluster.kubelets();
    }
    ready_now(&mut cluster);
    let deleted = |now: &str| -> Vec<hitless_workloads::Write> {
        let plan = Seen::of(&cluster).plan_at(&cluster.left, now);
        plan.writes.into_iter().filter(|write| write.verb == "delete-claim").collect()
    };
    assert_eq!((cluster.names(CLAIM).len(), deleted("2026-11-23T00:00:29Z").len()), (6, 0));
    let writes = deleted("2026-11-23T00:00:30Z");
    assert_eq!(sorted(writes.iter().map(|write| write.on.name.clone()).collect()), before);
    let told: Vec<&str> = writes.iter().filter_map(|write| Some(write.tells.as_ref()?.text.as_str())).collect();
    assert!(told.len() == 1 && before.iter().all(|claim| told[0].contains(claim)), "{told:?}");
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
