//! Hooks: other operators prepare a pod before it is updated or deleted, and say so by labels and finalizers.

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use serde_json::{Value, json};

use super::cluster::{Cluster, Seen, rest, settle};

const LABEL: &str = "example.com/registered";
const STATE: &str = "lifecycle.apps.kruise.io/state";

/// Two pods with the label, which a registry takes off while it lets no client come.
fn with(lifecycle: &Value, more: &Value) -> Cluster {
    let mut spec = json!({"updateStrategy": {"type": "InPlaceIfPossible"}, "lifecycle": lifecycle,
        "template": {"metadata": {"labels": {"app": "web", LABEL: "yes"}}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    Cluster::running(2, &spec)
}

fn registered() -> Value {
    json!({"labelsHandler": {LABEL: "yes"}})
}

fn is_hooked(cluster: &Cluster, op: &GrantOp) -> Vec<bool> {
    let seen = Seen::of(cluster);
    cluster.pod_names().iter().map(|pod| seen.hook(pod, op).is_some()).collect()
}

fn unregister(cluster: &mut Cluster) {
    for pod in cluster.pod_names() {
        cluster.unlabel(&pod, LABEL);
    }
}

#[test]
fn an_update_waits_until_the_hook_is_off_and_a_pod_is_normal_once_it_is_back() {
    let mut cluster = with(&json!({"inPlaceUpdate": registered()}), &json!({}));
    assert_eq!(cluster.states(), BTreeSet::new(), "a hook of updates says nothing of new pods");
    cluster.image("web:v2");
    let plan = rest(&mut cluster, true);
    assert_eq!(plan.desired.len(), 2);
    assert_eq!(
        (is_hooked(&cluster, &GrantOp::Update), is_hooked(&cluster, &GrantOp::Drain)),
        (vec![true; 2], vec![false; 2])
    );
    cluster.operating = cluster.uids();
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::new(), "they have been granted and serve");
    cluster.begin();
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::from(["PreparingUpdate"]));
    let times: Vec<&Value> = cluster
        .pods()
        .into_iter()
        .map(|pod| &pod["metadata"]["annotations"]["lifecycle.apps.kruise.io/timestamp"])
        .collect();
    assert_eq!(times, [super::cluster::NOW; 2]);
    unregister(&mut cluster);
    assert_eq!(is_hooked(&cluster, &GrantOp::Update), [false, false]);
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::from(["Updating"]));
    cluster.operate(&plan, 2);
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::from(["Updating"]), "the operation is not over");
    cluster.end();
    let plan = rest(&mut cluster, true);
    assert_eq!((cluster.states(), cluster.status("updatedAvailableReplicas")), (BTreeSet::from(["Updated"]), 0));
    assert_eq!(plan.unsettled, cluster.uids(), "the rules count them as unavailable");
    for pod in cluster.pod_names() {
        cluster.label(&pod, LABEL, "yes");
    }
    let plan = rest(&mut cluster, true);
    assert_eq!((cluster.states(), cluster.status("updatedAvailableReplicas")), (BTreeSet::from(["Normal"]), 2));
    assert_eq!(plan.unsettled, BTreeSet::new());
}

/// The registry never took the pod in again, because the version was bad: it is asked once more before the next one.
#[test]
fn a_hook_that_is_not_back_is_put_back_before_the_next_update() {
    let hook = json!({"labelsHandler": {LABEL: "yes"}, "finalizersHandler": ["example.com/registry"]});
    let mut cluster = with(&json!({"inPlaceUpdate": hook}), &json!({}));
    unregister(&mut cluster);
    for pod in cluster.pod_names() {
        cluster.label(&pod, STATE, "Updated");
    }
    cluster.image("web:v2");
    let plan = rest(&mut cluster, true);
    assert_eq!((plan.desired.len(), cluster.states()), (2, BTreeSet::from(["Updated"])));
    assert_eq!(is_hooked(&cluster, &GrantOp::Update), [true, true], "nobody has been asked");
    cluster.begin();
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::from(["PreparingUpdate"]));
    for pod in cluster.pods() {
        let meta = &pod["metadata"];
        assert_eq!((&meta["labels"][LABEL], &meta["finalizers"]), (&json!("yes"), &json!(["example.com/registry"])));
    }
}

#[test]
fn an_update_that_is_taken_back_while_it_waits_leaves_the_pod_normal() {
    let mut cluster = with(&json!({"inPlaceUpdate": registered()}), &json!({}));
    cluster.image("web:v2");
    rest(&mut cluster, true);
    cluster.begin();
    rest(&mut cluster, true);
    cluster.image("web:v1");
    cluster.end();
    rest(&mut cluster, true);
    assert_eq!((cluster.states(), cluster.status("availableReplicas")), (BTreeSet::from(["Normal"]), 2));
}

/// Labels alone change in pods that serve.
#[test]
fn a_change_of_labels_alone_asks_no_hook() {
    let mut cluster = with(&json!({"inPlaceUpdate": registered()}), &json!({}));
    cluster.change(|spec| spec["template"]["metadata"]["labels"]["tier"] = json!("front"));
    let plan = rest(&mut cluster, true);
    let ops: Vec<GrantOp> =
        plan.desired.iter().map(|wanted| wanted.intent.as_ref().unwrap().operation.op.clone()).collect();
    assert_eq!(ops, [GrantOp::Relabel, GrantOp::Relabel]);
    assert_eq!(is_hooked(&cluster, &GrantOp::Relabel), [false, false]);
    cluster.operating = cluster.uids();
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::new());
}

#[test]
fn a_pod_is_deleted_only_once_its_hook_is_off_whether_it_serves_or_not() {
    for serves in [true, false] {
        let mut cluster = with(&json!({"preDelete": registered()}), &json!({}));
        let pod = cluster.pod_names().first().unwrap().clone();
        if !serves {
            cluster.breaks(&pod);
        }
        cluster.change(|spec| spec["replicas"] = json!(1));
        let plan = rest(&mut cluster, true);
        let [wanted] = plan.desired.as_slice() else { panic!("{:?}", plan.desired) };
        assert_eq!(wanted.removal.is_some(), !serves);
        let pod = wanted.pod.clone();
        assert_eq!(is_hooked(&cluster, &GrantOp::Drain), [true, true]);
        cluster.operating.insert(pod.uid.clone());
        if !serves {
            cluster.removable.insert(pod.uid.clone());
        }
        rest(&mut cluster, true);
        assert_eq!(cluster.pods().len(), 2, "serves: {serves}");
        let key = ("Pod".to_owned(), pod.name.clone());
        assert_eq!(cluster.objects[&key]["metadata"]["labels"][STATE], "PreparingDelete");
        if serves {
            // Its agent has ended, and somebody has put the hook on again.
            cluster.left.insert(pod.uid.clone());
            rest(&mut cluster, true);
            assert_eq!(cluster.pods().len(), 2);
        }
        cluster.unlabel(&pod.name, LABEL);
        rest(&mut cluster, true);
        assert_eq!(cluster.pods().len(), 1, "serves: {serves}");
    }
}

/// A pod that is made anew is deleted as well.
#[test]
fn pods_that_are_made_anew_wait_for_the_hook_of_deletions() {
    let mut cluster = with(&json!({"preDelete": registered()}), &json!({"updateStrategy": {"type": "ReCreate"}}));
    cluster.image("web:v2");
    let plan = rest(&mut cluster, true);
    let ops: Vec<GrantOp> =
        plan.desired.iter().map(|wanted| wanted.intent.as_ref().unwrap().operation.op.clone()).collect();
    assert_eq!(ops, [GrantOp::Drain, GrantOp::Drain]);
    cluster.begin();
    rest(&mut cluster, true);
    assert_eq!((cluster.states(), cluster.count("web:v1")), (BTreeSet::from(["PreparingDelete"]), 2));
    unregister(&mut cluster);
    cluster.left = cluster.uids();
    cluster.operating.clear();
    settle(&mut cluster);
    assert_eq!((cluster.count("web:v1"), cluster.count("web:v2")), (0, 2));
}

#[test]
fn a_pod_that_is_wanted_again_while_its_hook_is_waited_for_stays() {
    let mut cluster = with(&json!({"preDelete": registered()}), &json!({}));
    cluster.change(|spec| spec["replicas"] = json!(1));
    let plan = rest(&mut cluster, true);
    let pod = plan.desired[0].pod.clone();
    cluster.operating.insert(pod.uid.clone());
    rest(&mut cluster, true);
    assert_eq!(cluster.states(), BTreeSet::from(["PreparingDelete"]));
    cluster.change(|spec| spec["replicas"] = json!(2));
    cluster.operating.clear();
    let plan = rest(&mut cluster, true);
    assert!(plan.desired.is_empty(), "{:?}", plan.desired);
    assert_eq!((cluster.pods().len(), cluster.status("availableReplicas")), (2, 2));
    assert_eq!(cluster.states(), BTreeSet::from(["Normal"]));
}

#[test]
fn a_new_pod_counts_once_all_of_its_hook_is_on_it() {
    let hook = json!({"labelsHandler": {"example.com/warm": "yes"}});
    let mut cluster = with(&json!({"preNormal": hook}), &json!({}));
    assert_eq!((cluster.states(), cluster.status("availableReplicas")), (BTreeSet::from(["PreparingNormal"]), 0));
    assert_eq!(cluster.status("readyReplicas"), 2);
    for pod in cluster.pod_names() {
        cluster.label(&pod, "example.com/warm", "yes");
    }
    rest(&mut cluster, true);
    assert_eq!((cluster.states(), cluster.status("availableReplicas")), (BTreeSet::from(["Normal"]), 2));
}

/// Data is moved off a pod that its owner has named, and another one is there meanwhile.
#[test]
fn a_named_pod_is_replaced_while_its_hook_is_waited_for_where_that_is_wanted() {
    let beta = json!({"scaleStrategy": {"excludePreparingDelete": true},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}}});
    let alpha = json!({"apps.kruise.io/cloneset-scaling-exclude-preparing-delete": "true"});
    for (spec, labels, excludes) in [(beta, json!({}), true), (json!({}), alpha, true), (json!({}), json!({}), false)] {
        let mut cluster = with(&json!({"preDelete": registered()}), &spec);
        let set = cluster.objects.get_mut(&("CloneSet".to_owned(), "web".to_owned())).unwrap();
        set["metadata"]["labels"] = labels;
        let pod = cluster.pod_names().first().unwrap().clone();
        cluster.label(&pod, "apps.kruise.io/specified-delete", "true");
        let plan = rest(&mut cluster, true);
        let wanted = plan.desired.iter().find(|wanted| wanted.pod.name == pod).unwrap();
        cluster.operating.insert(wanted.pod.uid.clone());
        rest(&mut cluster, true);
        assert_eq!(cluster.pods().len(), if excludes { 3 } else { 2 }, "excludes: {excludes}");
        cluster.unlabel(&pod, LABEL);
        cluster.left.insert(wanted.pod.uid.clone());
        cluster.operating.clear();
        settle(&mut cluster);
        assert_eq!((cluster.pods().len(), cluster.pod_names().contains(&pod)), (2, false), "excludes: {excludes}");
    }
}

/// Upstream waits for ever and says nothing.
#[test]
fn a_hook_that_nobody_answers_is_told_after_five_minutes() {
    let mut cluster = with(&json!({"inPlaceUpdate": registered()}), &json!({}));
    cluster.image("web:v2");
    rest(&mut cluster, true);
    cluster.begin();
    let plan = rest(&mut cluster, true);
    let told = |plan: &hitless_workloads::Plan| {
        plan.notes.iter().find(|note| note.reason == "HookPending").map(|note| note.text.clone())
    };
    assert_eq!((told(&plan), plan.wake_at), (None, Some("2026-11-23T00:05:00Z".parse().unwrap())));
    let text = told(&Seen::of(&cluster).plan_at(&BTreeSet::new(), "2026-11-23T00:05:00Z")).unwrap_or_default();
    let first = cluster.pod_names().first().unwrap().clone();
    assert!(text.contains(&format!("pod {first} is in state PreparingUpdate since 2026-11-23T00:00:00Z")), "{text}");
    assert!(
        text.contains(&format!("waits until {LABEL} is taken off the pod")) && text.contains("another pod"),
        "{text}"
    );
}
