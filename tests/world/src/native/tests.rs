#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use k8s_openapi::api::core::v1::Pod;

use super::*;

const STRATEGY: &str = r#"{"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}"#;

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "spec": spec, "status": {"currentRevision": "old"},
        "metadata": {"namespace": "shop", "name": name, "uid": name, "generation": 3, "annotations": {}}})
}

fn read(object: &Value) -> WorkloadObject {
    WorkloadObject::read(object.clone()).unwrap()
}

fn own(owner: &Value, mut child: Value) -> WorkloadObject {
    child["metadata"]["ownerReferences"] = owned_by(owner);
    read(&child)
}

fn replica_set(name: &str, image: &str, replicas: i32, created: &str) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = json!(name);
    let mut set = object("ReplicaSet", name, &json!({"replicas": replicas, "template": template}));
    set["metadata"]["creationTimestamp"] = json!(created);
    set
}

fn pod(owner: &Value, name: &str, label: &str, ready: &str) -> Arc<PodView> {
    let pod = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": owned_by(owner),
            "labels": {"controller-revision-hash": label}},
        "spec": {"nodeName": name, "containers": []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
}

fn scaled(acts: &[Act]) -> Vec<(&str, i32)> {
    let scaled = acts.iter().map(|act| match act {
        Act::Scale { child, replicas } => (child.name.as_str(), *replicas),
        other => panic!("{other:?}"),
    });
    scaled.collect()
}

fn removed(acts: &[Act]) -> Vec<&str> {
    acts.iter().filter_map(|act| if let Act::RemovePod(uid) = act { Some(uid.as_str()) } else { None }).collect()
}

fn made(acts: &[Act]) -> Vec<&NewPod> {
    acts.iter().filter_map(|act| if let Act::MakePod(pod) = act { Some(pod) } else { None }).collect()
}

fn status(acts: &[Act]) -> &Value {
    acts.iter().find_map(|act| if let Act::Status(status) = act { Some(status) } else { None }).unwrap()
}

#[test]
fn a_deployment_is_scaled_where_its_pods_are_and_rolls_when_nobody_has_its_template() {
    let acts = |paused: bool, image: &str, sets: [(&str, &str, i32); 3]| {
        let root = object("Deployment", "web", &json!({"replicas": 5, "paused": paused, "template": template(image)}));
        let sets = sets.map(|(name, image, replicas)| {
            own(&root, replica_set(name, image, replicas, &format!("2026-01-0{}T00:00:00Z", &name[1..])))
        });
        sync(&Seen::new(&read(&root), &sets, []))
    };
    let idle = [("r1", "a", 0), ("r2", "b", 0), ("r3", "b", 0)];
    assert_eq!(scaled(&acts(true, "a", idle)), [("r1", 5)], "of none with pods the new one");
    assert_eq!(scaled(&acts(true, "c", idle)), [("r3", 5)], "or else the newest");
    assert_eq!(scaled(&acts(true, "a", [("r1", "a", 0), ("r2", "b", 2), ("r3", "b", 0)])), [("r2", 5)]);
    assert_eq!(acts(true, "a", [("r1", "a", 1), ("r2", "b", 2), ("r3", "b", 0)]), [], "in proportion is not modelled");
    assert_eq!(scaled(&acts(false, "b", [("r1", "a", 3), ("r2", "b", 0), ("r3", "b", 0)])), [("r1", 0), ("r2", 5)]);

    let rolled = acts(false, "c", idle);
    let [Act::Rolls(what), Act::Make(set)] = rolled.as_slice() else { panic!("{rolled:?}") };
    assert!(what.contains("web is not paused"), "{what}");
    let made = read(&set.clone());
    let made = made.view.replica_set().unwrap();
    assert_eq!((made.body.replicas, made.body.template.image("web")), (5, Some("c")));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], made.body.template.hash().unwrap());
}

#[test]
fn a_rolling_update_makes_new_pods_first_and_takes_old_ones_as_others_are_available() {
    let root = object("Deployment", "web", &json!({"replicas": 3, "template": template("b")}));
    let deployment = read(&root);
    let body = deployment.view.deployment().unwrap().body;
    // Of the old and of the new ReplicaSet: replicas, and how many of the pods are available.
    let step = |strategy: Value, old: (i32, i32), new: (i32, i32)| {
        let sets = [("old", "a", old.0), ("new", "b", new.0)]
            .map(|(name, image, replicas)| own(&root, replica_set(name, image, replicas, "2026-01-01T00:00:00Z")));
        let share =
            |index: usize, available| rolling::Share { set: sets[index].view.replica_set().unwrap(), available };
        let acts = rolling::sync(body, &strategy, share(1, new.1), &[share(0, old.1)]);
        scaled(&acts).into_iter().map(|(name, replicas)| (name.to_owned(), replicas)).collect::<Vec<_>>()
    };
    let to = |name: &str, replicas| vec![(name.to_owned(), replicas)];
    assert_eq!(step(json!({}), (3, 3), (0, 0)), to("new", 1), "one more than there are to be");
    assert_eq!(step(json!({}), (3, 3), (1, 0)), [], "it is not available yet");
    assert_eq!(step(json!({}), (3, 3), (1, 1)), to("old", 2));
    assert_eq!(step(json!({}), (2, 2), (1, 1)), to("new", 2));
    assert_eq!(step(json!({}), (3, 2), (1, 1)), to("old", 2), "the one that nobody misses");
    assert_eq!(step(json!({}), (0, 0), (3, 3)), []);
    assert_eq!(step(json!({"rollingUpdate": {"maxSurge": 0}}), (3, 3), (0, 0)), to("old", 2), "never both 0");
    assert_eq!(step(json!({"type": "Recreate"}), (3, 3), (0, 0)), to("old", 0), "all of them");
}

#[test]
fn the_guard_lets_no_history_entry_be_raised() {
    let root = object("Deployment", "web", &json!({"replicas": 2, "paused": true, "template": template("a")}));
    let mut set = replica_set("r1", "a", 0, "2026-01-01T00:00:00Z");
    set["metadata"]["labels"]["hitless.dev/history"] = json!("true");
    assert_eq!(sync(&Seen::new(&read(&root), &[own(&root, set)], [])), []);
}

#[test]
fn a_replica_set_removes_pods_that_are_not_ready_first() {
    let set = replica_set("r1", "a", 1, "2026-01-01T00:00:00Z");
    let pods = [pod(&set, "p1", "", "True"), pod(&set, "p2", "", "False"), pod(&set, "p3", "", "False")];
    let acts = sync(&Seen::new(&read(&set), [], &pods));
    assert_eq!(removed(&acts), ["p2", "p3"]);
    let acts = sync(&Seen::new(&read(&set), [], []));
    assert_eq!((made(&acts).len(), status(&acts)), (1, &json!({"replicas": 1, "observedGeneration": 3})));
}

#[test]
fn a_stateful_set_makes_pods_below_the_partition_from_its_current_revision() {
    let strategy: Value = serde_json::from_str(STRATEGY).unwrap();
    let root = object(
        "StatefulSet",
        "web",
        &json!({"replicas": 3, "ordinals": {"start": 1}, "template": template("b"), "updateStrategy": strategy}),
    );
    let revision = |name: &str, image: &str, number| {
        let mut made = revisions::make(&root, &Template::new(template(image)), number);
        made["metadata"]["name"] = json!(name);
        read(&made)
    };
    let children = [revision("old", "a", 2), revision("new", "b", 1)];
    let pods = [pod(&root, "web-3", "old", "True"), pod(&root, "web-0", "old", "True")];
    let acts = sync(&Seen::new(&read(&root), &children, &pods));
    assert!(matches!(&acts[0], Act::Renumber { child, number: 3 } if child.name == "new"), "{acts:?}");
    assert_eq!(removed(&acts), ["web-0", "web-3"], "one is too many, the other one is rolled");
    assert!(acts.iter().any(|act| matches!(act, Act::Rolls(what) if what.contains("pod web-3"))), "{acts:?}");
    let pods: Vec<_> = made(&acts).into_iter().map(|pod| (pod.name.as_deref(), pod.template.image("web"))).collect();
    assert_eq!(pods, [(Some("web-1"), Some("a")), (Some("web-2"), Some("b"))]);
    assert_eq!((&status(&acts)["updateRevision"], &status(&acts)["currentRevision"]), (&json!("new"), &Value::Null));
}

#[test]
fn a_daemon_set_has_a_pod_on_each_node_and_leaves_them_alone_under_on_delete() {
    let acts = |strategy: &str| {
        let spec = json!({"template": template("b"), "updateStrategy": {"type": strategy}});
        let root = object("DaemonSet", "web", &spec);
        let pods = [pod(&root, "n1", "old", "True")];
        sync(&Seen::new(&read(&root), [], &pods).on_nodes(vec!["n1".into(), "n2".into()]))
    };
    let acts_on_delete = acts("OnDelete");
    let Act::Make(revision) = &acts_on_delete[0] else { panic!("{acts_on_delete:?}") };
    let pods = made(&acts_on_delete);
    assert_eq!((pods.len(), pods[0].node.as_deref()), (1, Some("n2")));
    assert_eq!(pods[0].labels["controller-revision-hash"], revision["metadata"]["labels"]["controller-revision-hash"]);
    assert_eq!(status(&acts_on_delete)["desiredNumberScheduled"], 2);
    assert_eq!((removed(&acts_on_delete), removed(&acts("RollingUpdate"))), (vec![], vec!["n1"]));
}

#[test]
fn a_late_report_does_not_take_back_what_was_observed() {
    let mut object = json!({"status": {"observedGeneration": 5, "replicas": 1, "conditions": []}});
    report(&mut object, &json!({"observedGeneration": 4, "replicas": 2}));
    assert_eq!(object["status"], json!({"observedGeneration": 5, "replicas": 2, "conditions": []}));
}
