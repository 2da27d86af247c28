//! A workload that is paused: no operation of its pods begins, whoever wants it, and what is under way ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::Grant;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{Explanation, Round, WaitReason, explain};
use hitless_rollout::snapshot::Snapshot;
use hitless_workloads::{Pause, registry};
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, decide, now, read, template, transition, view};

fn meta(name: &str) -> Value {
    let mut meta = scene::meta(name);
    meta["generation"] = 2.into();
    meta["annotations"] = json!({});
    meta
}

fn owned(mut object: Value, kind: &str, name: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": name,
        "uid": format!("uid-{name}"), "controller": true}]);
    object
}

pub(crate) fn pod(owner: (&str, &str), change: impl FnOnce(&mut Value)) -> Value {
    let id = format!("r.io/web@sha256:{}", "1".repeat(64));
    let mut pod = owned(scene::pod(&meta("pod"), "r.io/web:v1", &id, LONG_AGO), owner.0, owner.1);
    change(&mut pod);
    pod
}

/// Deployment `web` in the middle of a rollout.
pub(crate) fn deployment(change: impl FnOnce(&mut Value)) -> Vec<Value> {
    let mut root = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web"),
        "spec": {"replicas": 1, "paused": true, "template": template("r.io/web:v2")}});
    root["metadata"]["annotations"] =
        json!({"hitless.dev/update": "in-place", "hitless.dev/rollout": "held", "hitless.dev/companion": "Never"});
    change(&mut root);
    let mut live = template("r.io/web:v2");
    live["metadata"]["annotations"] = json!({"hitless.dev/mixed": "1"});
    let mut set = owned(
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta("set"),
            "spec": {"replicas": 1, "selector": {}, "template": live}, "status": {"replicas": 1, "observedGeneration": 2}}),
        "Deployment",
        "web",
    );
    set["metadata"]["labels"] = json!({"hitless.dev/live": "x"});
    vec![root, set]
}

/// StatefulSet or DaemonSet `set` in the middle of a rollout.
fn on_delete(kind: &str) -> Vec<Value> {
    let mut root = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": meta("set"),
        "spec": {"replicas": 1, "template": template("r.io/web:v2"), "updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 2, "updateRevision": "new", "currentRevision": "old", "desiredNumberScheduled": 1}});
    root["metadata"]["annotations"] =
        json!({"hitless.dev/update": "in-place", "deprecated.daemonset.template.generation": "2"});
    let root = registry::of_workload(&registry::read(root.clone()).unwrap().unwrap().id.group_kind).unwrap().held(root);
    let revision = |name: &str, number: i64, image: &str| {
        let mut object = owned(
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name), "revision": number,
                "data": {"spec": {"template": template(image)}}}),
            kind,
            "set",
        );
        object["metadata"]["labels"] = json!({"controller-revision-hash": name});
        object
    };
    vec![root, revision("old", 1, "r.io/web:v1"), revision("new", 2, "r.io/web:v2")]
}

fn colla_set() -> Vec<Value> {
    let mut root = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": meta("set"),
        "spec": {"replicas": 1, "selector": {}, "template": {"spec": {"containers": []}}}});
    root["metadata"]["annotations"] = json!({});
    vec![root]
}

fn snapshot(objects: &[Value], pod: &Value) -> Snapshot {
    scene::snapshot(objects, view(pod), &["r.io/web:v1", "r.io/web:v2"])
}

fn explained(snapshot: &Snapshot) -> Explanation {
    explain(snapshot, &mut GateCache::default(), now(), |_| true)
}

fn grants(round: &Round) -> Vec<Grant> {
    scene::grants(round).unwrap_or_default()
}

fn pauses(round: &Round) -> Vec<Option<Pause>> {
    let pause = |waiting: &WaitReason| match waiting {
        WaitReason::Paused { pause, .. } => Some(*pause),
        _ => None,
    };
    round.verdicts.iter().map(|verdict| verdict.waiting.as_ref().and_then(pause)).collect()
}

fn paused(mut objects: Vec<Value>, value: &str) -> Vec<Value> {
    objects[0]["metadata"]["annotations"]["hitless.dev/paused"] = value.into();
    objects
}

fn labelled(pod: &mut Value) {
    pod["metadata"]["name"] = "set-0".into();
    pod["metadata"]["labels"] =
        json!({"app": "web", "controller-revision-hash": "old", "pod-template-generation": "1"});
}

#[test]
fn the_annotation_stops_every_kind_and_nobody_else_decides() {
    for (objects, pod) in [
        (deployment(|_| {}), pod(("ReplicaSet", "set"), |_| {})),
        (on_delete("StatefulSet"), pod(("StatefulSet", "set"), labelled)),
        (on_delete("DaemonSet"), pod(("DaemonSet", "set"), labelled)),
    ] {
        let kind = &objects[0]["kind"];
        let goes = decide(&snapshot(&objects, &pod));
        assert!(!scene::ledgers(&goes).is_empty(), "{kind}: {:?}", goes.verdicts);
        for value in ["true", "since the incident", "flase"] {
            let stands = explained(&snapshot(&paused(objects.clone(), value), &pod));
            assert_eq!(pauses(&stands.round), [Some(Pause::Annotation)], "{kind}");
            assert!(scene::ledgers(&stands.round).is_empty(), "{kind}");
            assert_eq!(stands.workloads[0].paused, Some(Pause::Annotation));
            let told = stands.round.events.iter().find(|event| event.reason == "RolloutPaused").unwrap();
            assert!(told.text.contains("kubectl hitless resume"), "{}", told.text);
            assert_eq!(stands.pods["uid-pod"].details.as_ref().unwrap().in_the_way[0].reason(), "Paused");
        }
        let goes = decide(&snapshot(&paused(objects.clone(), "false"), &pod));
        assert_eq!(pauses(&goes), [None], "{kind}");
    }
}

#[test]
fn restarts_and_operations_of_others_wait_too_also_without_opt_in() {
    let restart = |pod: &mut Value| pod["metadata"]["annotations"]["hitless.dev/restart"] = "now".into();
    let foreign = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"kusionstack.io/control": "true",
            "operating.podopslifecycle.kusionstack.io/a": "1", "operation-type.podopslifecycle.kusionstack.io/a": "upgrade"});
    };
    let plain = |root: &mut Value| {
        root["spec"]["paused"] = false.into();
        root["metadata"]["annotations"] = json!({});
    };
    let mut native = deployment(plain);
    native[1]["metadata"]["labels"] = json!({});
    native[1]["spec"]["template"] = native[0]["spec"]["template"].clone();
    let mut colla = pod(("CollaSet", "set"), foreign);
    colla["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kusionstack.io/v1alpha1".into();
    for (objects, pod) in [
        (native.clone(), pod(("ReplicaSet", "set"), restart)),
        (native, pod(("ReplicaSet", "set"), foreign)),
        (colla_set(), colla),
    ] {
        assert_eq!(pauses(&decide(&snapshot(&objects, &pod))), [None], "{pod}");
        assert_eq!(pauses(&decide(&snapshot(&paused(objects, "true"), &pod))), [Some(Pause::Annotation)], "{pod}");
    }
}

#[test]
fn an_owners_pause_of_a_deployment_is_one_unless_it_is_driven_under_it_for_good() {
    let by_owner =
        |root: &mut Value| _ = root["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    let pod = pod(("ReplicaSet", "set"), |_| {});
    let stands = decide(&snapshot(&deployment(by_owner), &pod));
    assert_eq!((pauses(&stands), grants(&stands).len()), (vec![Some(Pause::Owner)], 0));
    assert!(stands.verdicts[0].text().unwrap().contains("kubectl rollout resume"), "{:?}", stands.verdicts[0].text());
    assert_eq!(pauses(&decide(&snapshot(&paused(deployment(by_owner), "false"), &pod))), [None]);
    let reloader = |root: &mut Value| {
        by_owner(root);
        root["metadata"]["annotations"]["deployment.reloader.stakater.com/paused-at"] = LONG_AGO.into();
    };
    let stands = decide(&snapshot(&deployment(reloader), &pod));
    assert_eq!((pauses(&stands), grants(&stands).len()), (vec![Some(Pause::Reloader)], 0));
    // OnDelete is no pause: that is how its owner wants the pods of a StatefulSet left to somebody else.
    let mut own = on_delete("StatefulSet");
    own[0]["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
    let pod = self::pod(("StatefulSet", "set"), labelled);
    assert_eq!(pauses(&decide(&snapshot(&own, &pod))), [None]);
}

#[test]
fn what_is_under_way_is_neither_taken_back_nor_forgotten() {
    let (objects, pod) = (deployment(|_| {}), pod(("ReplicaSet", "set"), |_| {}));
    let mut seen = snapshot(&objects, &pod);
    // As the next round sees what this one reserves and grants.
    let first = decide(&seen);
    let grant = grants(&first).remove(0);
    assert!(!scene::ledgers(&first).is_empty());
    let running = json!([{"id": grant.id, "granted": grant.granted, "phase": "Draining", "since": grant.granted}]);
    seen.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant], &running)))]);
    let under_pause = paused(objects, "true");
    seen.objects = under_pause.iter().map(read).collect();
    let round = decide(&seen);
    assert!(grants(&round).iter().all(|grant| grant.cancel.is_none()), "it is not taken back");
    assert_eq!(round.verdicts[0].waiting, Some(WaitReason::InProgress));
}

#[test]
fn an_opt_in_that_means_nothing_is_said_on_the_workload() {
    let said = |value: &str| {
        let objects = deployment(|root| {
            root["spec"]["paused"] = false.into();
            root["metadata"]["annotations"] = json!({"hitless.dev/update": value});
        });
        let round = decide(&snapshot(&objects, &pod(("ReplicaSet", "set"), |_| {})));
        round.events.into_iter().find(|event| event.reason == "OptInInvalid").map(|event| event.text)
    };
    assert!(said("inplace").unwrap().contains("write in-place, in-place-only or native"));
    assert_eq!((said("in-place"), said("in-place-only"), said("native")), (None, None, None));
    // What has no pods of its own has nothing to opt in.
    let decoration = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration",
        "metadata": {"name": "log", "namespace": "shop", "uid": "log", "annotations": {"hitless.dev/update": "inplace"}},
        "spec": {"template": {}}});
    let decoration = read(&decoration);
    assert!(decide(&Snapshot { objects: vec![decoration], ..Snapshot::default() }).events.is_empty());
}
