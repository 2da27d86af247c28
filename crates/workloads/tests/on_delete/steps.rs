//! Images, step by step: order, partition, strategy, bad versions, and what is left to the native controller.

use hitless_workloads::{Cause, Obstacle, Removal, Stage, Template, registry};
use hitless_world::carry_out;
use serde_json::{Value, json};

use crate::scene::{BAD, Scene, pod, revision, template};

#[test]
fn the_last_ordinal_goes_first_and_the_others_say_whose_turn_it_is() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    assert_eq!((scene.plan().stage, scene.due()), (Stage::Rolling, vec!["web-2".to_owned()]));
    let waits = scene.plan().desired.into_iter().find(|wanted| wanted.pod.name == "web-0").unwrap();
    assert!(matches!(waits.intent, Err(Obstacle::NotItsTurn { first, .. }) if first == "web-2"));
    scene.operate("web-2");
    assert_eq!(scene.due(), ["web-1"]);
    scene.operating.insert("web-2".to_owned());
    assert_eq!(scene.due(), Vec::<String>::new(), "the first one has not come back");
    scene.operating.clear();
    scene.pods[2]["status"]["conditions"] = json!([]);
    assert_eq!(scene.due(), Vec::<String>::new(), "it is not Ready");
    scene.pods[0]["status"]["conditions"] = json!([]);
    assert_eq!(scene.due(), ["web-0"], "it is not available anyway, and may need it");
}

#[test]
fn as_many_go_at_a_time_as_the_owner_says_and_missing_pods_count() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "70%"}}));
    assert_eq!(scene.due(), ["web-2", "web-1"], "70% of 3 is 2, rounded down");
    scene.pods.remove(0);
    assert_eq!(scene.due(), ["web-2"], "web-0 is not there");
}

#[test]
fn pods_below_the_partition_keep_their_version_and_the_strategy_is_put_back_all_the_same() {
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    let mut scene = Scene::stateful_set(&partition);
    assert_eq!(scene.workload["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    scene.operate("web-2");
    assert_eq!(scene.write(), "put-strategy-back");
    assert_eq!(scene.workload["spec"]["updateStrategy"], partition);
    let annotations = scene.workload["metadata"]["annotations"].as_object().unwrap();
    assert!(annotations.keys().all(|name| name != "hitless.dev/rollout" && name != "hitless.dev/update-strategy"));
    scene.count();
    assert_eq!(scene.plan().stage, Stage::Idle);
}

#[test]
fn a_pod_below_the_partition_that_came_up_new_is_brought_back_to_the_current_revision() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}));
    scene.workload["status"]["currentRevision"] = json!("old");
    for (revision, at) in [(0, "2026-01-01T00:00:00Z"), (1, "2026-01-02T00:00:00Z")] {
        scene.revisions[revision]["metadata"]["creationTimestamp"] = json!(at);
    }
    for name in ["web-2", "web-1"] {
        scene.operate(name);
    }
    let below = pod("StatefulSet", "web-0", "new", "web:v2");
    scene.pods[0] = below.clone();
    scene.pods[0]["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:01Z");
    // As after an undo: the revision that the template goes back to becomes the newest.
    let before_undo = scene.due();
    scene.revisions[0]["revision"] = json!(3);
    assert_eq!((before_undo, scene.due()), (vec!["web-0".to_owned()], vec!["web-0".to_owned()]));
    let back = scene.plan().desired.remove(0).intent.unwrap().operation;
    assert_eq!(back.containers["web"].to, "web:v1");
    assert_eq!(back.labels["controller-revision-hash"].to.as_deref(), Some("old"));
    scene.operate("web-0");
    assert_eq!((scene.due(), scene.write()), (vec![], "put-strategy-back"));
    // Brought to it before the partition was raised: its owner has seen it there.
    let mut scene = Scene { pods: vec![below], ..scene.held() };
    scene.pods[0]["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:01Z");
    assert_eq!(scene.due(), Vec::<String>::new());
}

#[test]
fn a_rollout_to_a_revision_that_was_made_before_another_is_a_way_back() {
    for kind in ["StatefulSet", "DaemonSet"] {
        let mut scene = Scene::new(kind, &["web-0", "web-1"], &json!({"type": "RollingUpdate"})).held();
        scene.revisions.insert(0, revision(kind, "first", 0, &template("web:v0")));
        let is_way_back = |scene: &Scene| scene.with(|world, root| scene.kind().way_back(root, world).is_some());
        assert!(!is_way_back(&scene), "when they were made is not known");
        for (revision, day) in scene.revisions.iter_mut().zip(1..) {
            revision["metadata"]["creationTimestamp"] = json!(format!("2026-01-0{day}T00:00:00Z"));
        }
        assert!(!is_way_back(&scene));
        let undo = scene.with(|world, root| scene.kind().undo(root, world, None)).unwrap();
        scene.workload = carry_out(&undo.write, Some(&scene.workload), "2", "").unwrap().unwrap();
        assert_eq!(scene.workload["spec"]["template"], template("web:v1"));
        assert!(is_way_back(&scene), "another undo would go forward again");
        let again = |under_way: bool| {
            let undo =
                scene.with(|world, root| hitless_workloads::undo::undo(scene.kind(), root, world, None, under_way));
            undo.map(|undo| undo.to.to_string())
        };
        let refused = again(true).unwrap_err();
        assert!(refused.starts_with("it goes back to revision 1 (web:v1) already"), "{refused}");
        assert!(refused.contains("--to-revision 2"), "{refused}");
        assert_eq!(again(false), Ok("revision 2 (web:v2)".to_owned()), "as kubectl's own");
        // The native controller gives it a new number.
        scene.revisions[1]["revision"] = json!(3);
        assert!(is_way_back(&scene));
        scene.workload["spec"]["template"] = template("web:v2");
        scene.revisions[2]["revision"] = json!(4);
        assert!(!is_way_back(&scene));
    }
}

#[test]
fn the_strategy_is_put_back_only_when_the_native_controller_counts_every_pod() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    for name in ["web-2", "web-1", "web-0"] {
        scene.operate(name);
    }
    scene.workload["status"]["updatedReplicas"] = json!(2);
    let plan = scene.plan();
    assert_eq!((plan.stage, plan.writes), (Stage::Finishing, vec![]), "it would delete the third one");
    scene.workload["status"]["updatedReplicas"] = json!(3);
    scene.operating.insert("web-0".to_owned());
    assert_eq!(scene.plan().writes, [], "an operation has not ended");
    scene.operating.clear();
    assert_eq!(scene.write(), "put-strategy-back");
    // The native controller has not looked at what was put back.
    scene.workload["metadata"]["generation"] = json!(9);
    let plan = scene.plan();
    assert_eq!((plan.stage, plan.behind.len(), plan.total), (Stage::Idle, 0, 3), "nobody counts backwards");
    scene.workload["spec"]["template"] = template("web:v3");
    let plan = scene.plan();
    assert_eq!((plan.stage, plan.behind.len()), (Stage::Native, 3), "a change that nobody holds");
}

#[test]
fn before_the_native_controller_has_made_the_revision_nobody_goes() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    scene.workload["metadata"]["generation"] = json!(3);
    let plan = scene.plan();
    assert_eq!((plan.stage, plan.desired.len(), plan.behind.len()), (Stage::Rolling, 0, 3));
}

#[test]
fn who_takes_the_opt_in_off_is_told_that_the_hold_is_lifted() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"})).held();
    scene.workload["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
    let plan = scene.plan();
    let [write] = &plan.writes[..] else { panic!("{:?}", plan.writes) };
    let told = write.tells.as_ref().unwrap();
    assert_eq!((plan.stage, told.reason), (Stage::NotOurs, "OptInRemoved"));
    assert!(told.text.contains("the native controller rolls"), "{}", told.text);
}

#[test]
fn an_owners_own_on_delete_is_driven_and_never_put_back() {
    let mut scene = Scene::new("StatefulSet", &["web-0"], &json!({"type": "OnDelete"}));
    assert!(scene.plan().permanent);
    scene.operate("web-0");
    let plan = scene.plan();
    assert_eq!((plan.stage, plan.writes), (Stage::Idle, vec![]));
}

#[test]
fn a_version_that_was_judged_bad_is_put_back_and_not_tried_again() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    let write = scene.with(|world, root| scene.kind().halt(root, world, BAD)).unwrap();
    let told = write.tells.clone().unwrap().text;
    let on = scene.root().id.arguments();
    assert!(
        told.contains(&format!("kubectl hitless retry {on};")) && !told.contains("undo"),
        "it is back already: {told}"
    );
    scene.workload = carry_out(&write, Some(&scene.workload), "2", "").unwrap().unwrap();
    assert_eq!(scene.workload["spec"]["template"], template("web:v1"));
    let undo = scene.with(|world, root| hitless_workloads::undo::undo(scene.kind(), root, world, None, false));
    assert!(undo.unwrap_err().starts_with("it is back at revision 1 (web:v1) already"));
    scene.count();
    assert_eq!(scene.write(), "put-strategy-back");
    let halted: Value =
        serde_json::from_str(scene.workload["metadata"]["annotations"]["hitless.dev/halted"].as_str().unwrap())
            .unwrap();
    assert_eq!(halted["revision"], Template::new(template("web:v2")).revision(), "it stays known");

    // Somebody applies the same manifest again.
    scene.workload["spec"]["template"] = template("web:v2");
    let mut scene = scene.held();
    assert!(
        matches!(scene.plan().stage, Stage::Halted(because) if because.text.contains("by pod web-2: CrashLoopBackOff"))
    );
    assert_eq!(scene.write(), "restore-template");
    assert_eq!(scene.workload["spec"]["template"], template("web:v1"));
}

#[test]
fn another_change_than_of_images_is_left_to_the_native_controller() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    scene.workload["spec"]["template"]["spec"]["hostPID"] = json!(true);
    scene.revisions[1]["data"]["spec"]["template"] = scene.workload["spec"]["template"].clone();
    assert!(matches!(scene.plan().stage, Stage::SteppingAside(_)));
    assert_eq!(scene.write(), "put-strategy-back");
    scene.count();
    assert_eq!(scene.plan().stage, Stage::Native);
}

#[test]
fn a_daemon_set_gets_both_labels_in_the_same_operation_and_the_gate_says_how_many_go() {
    let mut scene = Scene::new("DaemonSet", &["web-a", "web-b"], &json!({"type": "RollingUpdate"})).held();
    assert_eq!(scene.due(), ["web-a", "web-b"]);
    let size = registry::size(&scene.root()).unwrap();
    assert_eq!((size.desired, size.max_unavailable), (2, Some(1)));
    scene.operate("web-a");
    assert_eq!(scene.pods[0]["metadata"]["labels"]["pod-template-generation"], "2");
    scene.operate("web-b");
    assert_eq!(scene.write(), "put-strategy-back");
}

/// Its node was tainted meanwhile: the pod runs on, and the native controller counts it nowhere.
#[test]
fn a_pod_on_a_node_that_would_get_none_today_is_brought_along_and_keeps_the_hold_from_ending_no_longer() {
    let mut scene = Scene::new("DaemonSet", &["web-a", "web-b"], &json!({"type": "RollingUpdate"})).held();
    let counts = |scene: &mut Scene, updated: u32| {
        let counts = json!({"observedGeneration": 2, "desiredNumberScheduled": 1, "numberMisscheduled": 1,
            "updatedNumberScheduled": updated});
        scene.workload["status"] = counts;
    };
    counts(&mut scene, 0);
    let size = registry::size(&scene.root()).unwrap();
    assert_eq!((size.desired, size.surplus), (1, 1));
    for name in ["web-a", "web-b"] {
        assert!(scene.due().contains(&name.to_owned()));
        scene.operate(name);
        counts(&mut scene, 0);
        assert!(scene.plan().writes.is_empty());
    }
    counts(&mut scene, 1);
    // The one on the tainted node is being deleted, and goes only once its node is back.
    let mut leaving = scene.clone();
    leaving.pods[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(leaving.write(), "put-strategy-back");
    assert_eq!(scene.write(), "put-strategy-back");
}

#[test]
fn pods_on_their_nodes_network_are_refused_by_name() {
    let mut scene = Scene::new("DaemonSet", &["web-a"], &json!({"type": "RollingUpdate"}));
    scene.workload["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let scene = scene.held();
    assert!(matches!(scene.plan().stage, Stage::SteppingAside(because) if because.cause == Cause::HostNetwork));
}

#[test]
fn what_belongs_to_the_cluster_is_refused_by_name() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    scene.workload["metadata"]["namespace"] = json!("kube-system");
    let scene = scene.held();
    assert!(matches!(scene.plan().stage, Stage::SteppingAside(because) if because.cause == Cause::SystemNamespace));
}

#[test]
fn a_kind_of_the_same_name_in_another_group_is_none_of_ours() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    scene.workload["apiVersion"] = json!("apps.kruise.io/v1beta1");
    assert!(registry::read(scene.workload).is_none());
}

#[test]
fn a_change_that_takes_the_opt_in_away_is_told_until_its_pods_are_new() {
    for kind in ["StatefulSet", "DaemonSet"] {
        let mut scene = Scene::new(kind, &["web-0", "web-1"], &json!({"type": "RollingUpdate"}));
        scene.workload["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
        assert!(scene.plan().notes.is_empty(), "it had not opted in");
        scene.revisions[0]["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
        let note = scene.plan().notes.remove(0);
        assert_eq!(note.reason, "OptInRemoved");
        for pod in &mut scene.pods {
            pod["metadata"]["labels"]["controller-revision-hash"] = json!("new");
        }
        assert!(scene.plan().notes.is_empty(), "{kind}");
    }
}

/// A pod that has crashed with both versions, and is as the way back has left it.
fn dead(scene: &mut Scene, name: &str) {
    let pod = scene.pods.iter_mut().find(|pod| pod["metadata"]["name"] == name).unwrap();
    pod["status"] = json!({"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
        {"name": "web", "image": "web:v1", "imageID": "", "ready": false, "restartCount": 3, "containerID": "c://1",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
}

#[test]
fn a_version_that_goes_natively_first_makes_those_pods_anew_for_which_the_stateful_set_controller_waits() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    dead(&mut scene, "web-2");
    let mark = scene.with(|_, root| scene.kind().natively(root, "pod web-2 does not start")).unwrap();
    scene.workload = carry_out(&mark, Some(&scene.workload), "2", "").unwrap().unwrap();
    let plan = scene.plan();
    let Stage::SteppingAside(because) = &plan.stage else { panic!("{:?}", plan.stage) };
    assert_eq!(because.text, "pod web-2 does not start");
    let desired: Vec<_> = plan.desired.iter().map(|wanted| (wanted.pod.name.as_str(), wanted.removal)).collect();
    assert_eq!(desired, [("web-2", Some(Removal::Anew { room: 1 }))]);
    assert_eq!(plan.writes, [], "the rules are asked, and the strategy stays");
    scene.removable.insert("web-2".to_owned());
    let writes = scene.plan().writes;
    let writes: Vec<_> = writes.iter().map(|write| (write.verb, write.on.name.as_str())).collect();
    assert_eq!(writes, [("delete-pod", "web-2")]);
    // It was made anew, at whatever version.
    let pod = scene.pods.iter_mut().find(|pod| pod["metadata"]["name"] == "web-2").unwrap();
    *pod = crate::scene::pod("StatefulSet", "web-2", "new", "web:v2");
    assert_eq!(scene.write(), "put-strategy-back");
    assert!(scene.workload["metadata"]["annotations"].get("hitless.dev/way").is_none());
    assert_eq!(scene.workload["spec"]["updateStrategy"]["type"], "RollingUpdate");
}

/// Its owner has gone back meanwhile, so it has the version that is wanted.
#[test]
fn a_pod_that_does_not_start_again_at_its_target_is_made_anew_if_it_was_operated_and_only_then() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    for pod in &mut scene.pods {
        *pod = crate::scene::pod("StatefulSet", pod["metadata"]["name"].as_str().unwrap(), "new", "web:v2");
    }
    dead(&mut scene, "web-1");
    let mark = scene.with(|_, root| scene.kind().natively(root, "pod web-1 does not start again")).unwrap();
    scene.workload = carry_out(&mark, Some(&scene.workload), "2", "").unwrap().unwrap();
    let operated = |scene: &mut Scene, annotations: serde_json::Value| {
        let pod = scene.pods.iter_mut().find(|pod| pod["metadata"]["name"] == "web-1").unwrap();
        pod["metadata"]["annotations"] = annotations;
    };
    operated(&mut scene, json!({"hitless.dev/revision": "some"}));
    let plan = scene.plan();
    let desired: Vec<_> = plan.desired.iter().map(|wanted| (wanted.pod.name.as_str(), wanted.removal)).collect();
    assert_eq!(desired, [("web-1", Some(Removal::Anew { room: 1 }))]);
    operated(&mut scene, json!({}));
    assert_eq!(scene.write(), "put-strategy-back", "a new pod of a version that does not start stays");
}

#[test]
fn a_daemon_set_goes_natively_at_once_because_its_controller_waits_for_no_pod() {
    let mut scene = Scene::new("DaemonSet", &["web-a", "web-b"], &json!({"type": "RollingUpdate"})).held();
    dead(&mut scene, "web-a");
    let mark = scene.with(|_, root| scene.kind().natively(root, "pod web-a does not start")).unwrap();
    scene.workload = carry_out(&mark, Some(&scene.workload), "2", "").unwrap().unwrap();
    assert_eq!((scene.plan().desired.len(), scene.write()), (0, "put-strategy-back"));
}
