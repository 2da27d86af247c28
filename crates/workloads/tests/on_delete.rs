//! StatefulSets and DaemonSets: who goes when, what is written when, and what is left alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_workloads::{BadVersion, Object, Obstacle, Plan, Stage, Template, World, kind};
use hitless_world::native::{self, Act, Seen};
use hitless_world::{WorkloadObject, carry_out};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A workload in the middle of a change from `web:v1` to `web:v2`, as the guard has stored it and the native controller has seen it.
struct Scene {
    workload: Value,
    revisions: Vec<Value>,
    pods: Vec<Value>,
    operating: BTreeSet<String>,
}
const BAD: BadVersion<'_> = BadVersion { pod: "web-2", reason: "CrashLoopBackOff", message: "" };

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn owner(kind: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "uid-web", "controller": true}])
}

fn revision(kind: &str, name: &str, number: i64, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": owner(kind),
            "labels": {"controller-revision-hash": name}},
        "revision": number, "data": {"spec": {"template": template}},
    })
}

fn pod(kind: &str, name: &str, revision: &str, image: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": owner(kind),
            "labels": {"controller-revision-hash": revision, "pod-template-generation": "1"}},
        "spec": {"nodeName": format!("node-of-{name}"), "containers": [{"name": "web", "image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn view(pod: &Value) -> Arc<PodView> {
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()))
}

impl Scene {
    fn new(kind: &str, names: &[&str], strategy: &Value) -> Self {
        let (old, new) = (template("web:v1"), template("web:v2"));
        let workload = json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "1", "generation": 2,
                "annotations": {"hitless.dev/update": "in-place", "deprecated.daemonset.template.generation": "2"}},
            "spec": {"replicas": names.len(), "template": new, "updateStrategy": strategy},
            "status": {"observedGeneration": 2, "updateRevision": "new", "desiredNumberScheduled": names.len()},
        });
        Self {
            workload,
            revisions: vec![revision(kind, "old", 1, &old), revision(kind, "new", 2, &new)],
            pods: names.iter().map(|name| pod(kind, name, "old", "web:v1")).collect(),
            operating: BTreeSet::new(),
        }
    }

    /// A StatefulSet of three, held.
    fn stateful_set(strategy: &Value) -> Self {
        Self::new("StatefulSet", &["web-0", "web-1", "web-2"], strategy).held()
    }

    fn held(mut self) -> Self {
        self.workload = self.kind().held(self.workload.clone());
        self
    }

    fn root(&self) -> Object {
        kind::read(self.workload.clone()).unwrap().unwrap()
    }

    fn kind(&self) -> &'static dyn kind::Kind {
        kind::of_workload(&self.root().id.group_kind).unwrap()
    }

    fn with<R>(&self, look: impl FnOnce(&World<'_>, &Object) -> R) -> R {
        let all = std::iter::once(&self.workload).chain(&self.revisions);
        let objects: Vec<Arc<Object>> = all.map(|each| Arc::new(kind::read(each.clone()).unwrap().unwrap())).collect();
        let pods: Vec<Arc<PodView>> = self.pods.iter().map(view).collect();
        let world = World::new(&objects, &pods, self.operating.clone());
        look(&world, &objects[0])
    }

    fn plan(&self) -> Plan {
        self.with(|world, root| self.kind().plan(root, world))
    }

    /// Names of the pods that may go now.
    fn due(&self) -> Vec<String> {
        self.plan().wishes.into_iter().filter(|wish| wish.intent.is_ok()).map(|wish| wish.pod.name).collect()
    }

    /// What an agent and the native controller make of the pod's operation.
    fn operate(&mut self, name: &str) {
        let plan = self.plan();
        let wish = plan.wishes.into_iter().find(|wish| wish.pod.name == name).unwrap();
        let operation = wish.intent.unwrap().operation;
        let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["name"] == name).unwrap();
        pod["spec"]["containers"][0]["image"] = json!(operation.containers["web"].to);
        for (label, change) in &operation.labels {
            assert_eq!(pod["metadata"]["labels"][label].as_str(), change.from.as_deref());
            pod["metadata"]["labels"][label] = json!(change.to);
        }
        self.count();
    }

    /// The native controller counts the pods; what else it does is not looked at here.
    fn count(&mut self) {
        let read = |object: &Value| WorkloadObject::read(object.clone()).unwrap();
        let (workload, revisions) = (read(&self.workload), self.revisions.iter().map(read).collect::<Vec<_>>());
        let pods: Vec<Arc<PodView>> = self.pods.iter().map(view).collect();
        let nodes = pods.iter().filter_map(|pod| pod.node.clone()).collect();
        for act in native::sync(&Seen::new(&workload, &revisions, &pods).on_nodes(nodes)) {
            if let Act::Status(status) = act {
                native::report(&mut self.workload, &status);
            }
        }
    }

    /// Carries the plan's only write out.
    fn write(&mut self) -> &'static str {
        let write = self.plan().writes.remove(0);
        self.workload = carry_out(&write, Some(&self.workload), "2", "").unwrap().unwrap();
        write.verb
    }
}

#[test]
fn the_last_ordinal_goes_first_and_the_others_say_whose_turn_it_is() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    assert_eq!((scene.plan().stage, scene.due()), (Stage::Rolling, vec!["web-2".to_owned()]));
    let waits = scene.plan().wishes.into_iter().find(|wish| wish.pod.name == "web-0").unwrap();
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
    let back = scene.plan().wishes.remove(0).intent.unwrap().operation;
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
        let is_way_back = |scene: &Scene| scene.with(|world, root| scene.kind().is_way_back(root, world));
        assert!(!is_way_back(&scene), "when they were made is not known");
        for (revision, day) in scene.revisions.iter_mut().zip(1..) {
            revision["metadata"]["creationTimestamp"] = json!(format!("2026-01-0{day}T00:00:00Z"));
        }
        assert!(!is_way_back(&scene));
        let undo = scene.with(|world, root| scene.kind().undo(root, world, None)).unwrap();
        scene.workload = carry_out(&undo, Some(&scene.workload), "2", "").unwrap().unwrap();
        assert_eq!(scene.workload["spec"]["template"], template("web:v1"));
        assert!(is_way_back(&scene), "another undo would go forward again");
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
}

#[test]
fn before_the_native_controller_has_made_the_revision_nobody_goes() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    scene.workload["metadata"]["generation"] = json!(3);
    let plan = scene.plan();
    assert_eq!((plan.stage, plan.wishes.len(), plan.behind.len()), (Stage::Rolling, 0, 3));
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
    scene.workload = carry_out(&write, Some(&scene.workload), "2", "").unwrap().unwrap();
    assert_eq!(scene.workload["spec"]["template"], template("web:v1"));
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
    let size = kind::size(&scene.root()).unwrap();
    assert_eq!((size.desired, size.max_unavailable), (2, Some(1)));
    scene.operate("web-a");
    assert_eq!(scene.pods[0]["metadata"]["labels"]["pod-template-generation"], "2");
    scene.operate("web-b");
    assert_eq!(scene.write(), "put-strategy-back");
}

#[test]
fn pods_on_their_nodes_network_are_refused_by_name() {
    let mut scene = Scene::new("DaemonSet", &["web-a"], &json!({"type": "RollingUpdate"}));
    scene.workload["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let scene = scene.held();
    assert!(matches!(scene.plan().stage, Stage::SteppingAside(because) if because.reason == "HostNetwork"));
}

#[test]
fn a_kind_of_the_same_name_in_another_group_is_none_of_ours() {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    scene.workload["apiVersion"] = json!("apps.kruise.io/v1beta1");
    assert!(kind::read(scene.workload).is_none());
}

fn annotated(template: &mut Value, annotations: &Value) {
    template["metadata"]["annotations"] = annotations.clone();
}

/// From annotations to others, the image is the same.
fn restart(from: &Value, to: &Value) -> Scene {
    let mut scene = Scene::stateful_set(&json!({"type": "RollingUpdate"}));
    let mut set = |number: usize, annotations: &Value| {
        let template = &mut scene.revisions[number]["data"]["spec"]["template"];
        template["spec"]["containers"][0]["image"] = json!("web:v1");
        annotated(template, annotations);
        template.clone()
    };
    let (_, new) = (set(0, from), set(1, to));
    scene.workload["spec"]["template"] = new;
    for pod in &mut scene.pods {
        pod["status"]["containerStatuses"] =
            json!([{"name": "web", "image": "", "imageID": "web@sha256:1", "ready": true, "restartCount": 0}]);
    }
    scene
}

#[test]
fn changes_of_restart_annotations_are_restarts_in_order() {
    let sums = [json!({}), json!({"checksum/config": "a"}), json!({"checksum/config": "b", "rollme": "x"})];
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        let mut scene = restart(&sums[from], &sums[to]);
        assert_eq!(scene.due(), ["web-2"]);
        for name in ["web-2", "web-1", "web-0"] {
            scene.operate(name);
        }
        assert_eq!((scene.due(), scene.write()), (vec![], "put-strategy-back"));
        assert!(scene.pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "web:v1@sha256:1"));
    }
}

#[test]
fn another_annotation_and_one_that_the_pods_read_are_left_to_the_native_controller() {
    let scene = restart(&json!({"example.com/a": "1"}), &json!({"example.com/a": "2"}));
    let Stage::SteppingAside(because) = scene.plan().stage else { panic!("it goes in place") };
    assert!(because.text.contains("metadata.annotations[example.com/a] can't"), "{}", because.text);

    let mut own = scene;
    own.workload["metadata"]["annotations"]["hitless.dev/restart-annotations"] = json!("example.com/*");
    assert_eq!(own.due(), ["web-2"]);

    let items = json!([{"path": "sum", "fieldRef": {"fieldPath": "metadata.annotations['example.com/a']"}}]);
    let volumes = json!([{"name": "info", "downwardAPI": {"items": items}}]);
    own.workload["spec"]["template"]["spec"]["volumes"] = volumes.clone();
    for revision in &mut own.revisions {
        revision["data"]["spec"]["template"]["spec"]["volumes"] = volumes.clone();
    }
    let Stage::SteppingAside(because) = own.plan().stage else { panic!("it goes in place") };
    assert!(because.text.ends_with("because spec.template.spec.volumes[info].downwardAPI.items[sum] reads it"));
    assert!(own.with(|world, root| own.kind().halt(root, world, BAD)).is_none(), "nor is it put back in place");
}

#[test]
fn a_bad_version_is_put_back_with_its_restart_annotations() {
    let (good, bad) = (json!({"checksum/a": "1", "rollme": "x"}), json!({"checksum/a": "2", "checksum/b": "3"}));
    let scene = restart(&good, &bad);
    let write = scene.with(|world, root| scene.kind().halt(root, world, BAD)).unwrap();
    let workload = carry_out(&write, Some(&scene.workload), "2", "").unwrap().unwrap();
    assert_eq!(workload["spec"]["template"], scene.revisions[0]["data"]["spec"]["template"]);
}

#[test]
fn a_pod_below_the_partition_goes_back_to_the_annotations_of_the_current_revision() {
    let mut scene = restart(&json!({"checksum/a": "1"}), &json!({"checksum/a": "2"}));
    scene.workload["metadata"]["annotations"]["hitless.dev/update-strategy"] =
        json!(r#"{"type":"RollingUpdate","rollingUpdate":{"partition":1}}"#);
    scene.workload["status"]["currentRevision"] = json!("old");
    for (revision, at) in [(0, "2026-01-01T00:00:00Z"), (1, "2026-01-02T00:00:00Z")] {
        scene.revisions[revision]["metadata"]["creationTimestamp"] = json!(at);
    }
    for name in ["web-2", "web-1"] {
        scene.operate(name);
    }
    scene.pods[0]["metadata"]["labels"]["controller-revision-hash"] = json!("new");
    scene.pods[0]["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:01Z");
    assert_eq!(scene.due(), ["web-0"]);
    let back = scene.plan().wishes.remove(0).intent.unwrap().operation;
    let of_old = Template::new(scene.revisions[0]["data"]["spec"]["template"].clone());
    assert_eq!(back.annotations["hitless.dev/revision"].to.as_deref(), Some(of_old.revision()));
}

#[test]
fn a_wrong_entry_among_the_own_restart_annotations_is_told_to_the_owner() {
    let mut scene = restart(&json!({"rollme": "1"}), &json!({"rollme": "2"}));
    scene.workload["metadata"]["annotations"]["hitless.dev/restart-annotations"] = json!("*,example.com/a");
    let notes = scene.plan().notes;
    let note = notes.iter().find(|note| note.reason == "RestartAnnotationsInvalid").unwrap();
    assert!(note.text.contains("the entry \"*\" of hitless.dev/restart-annotations"), "{}", note.text);
    assert_eq!(scene.due(), ["web-2"]);
}
