//! Restarts: what changes of annotations in the template lead to.

use hitless_workloads::{Cause, Stage, Template};
use hitless_world::carry_out;
use serde_json::{Value, json};

use crate::scene::{BAD, Scene};

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
fn a_restart_of_an_image_that_was_loaded_into_the_nodes_is_left_to_the_native_controller() {
    let mut scene = restart(&json!({}), &json!({"checksum/config": "a"}));
    for pod in &mut scene.pods {
        pod["status"]["containerStatuses"][0]["imageID"] = json!("sha256:1");
    }
    let Stage::SteppingAside(because) = scene.plan().stage else { panic!("it goes in place") };
    assert_eq!(because.cause, Cause::DigestUnknown);
    scene.workload["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    assert!(matches!(scene.plan().stage, Stage::Refused(_)));
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
    let back = scene.plan().desired.remove(0).intent.unwrap().operation;
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

#[test]
fn a_checksum_of_what_an_init_container_reads_needs_new_pods_and_a_plain_restart_says_what_it_left() {
    let init = json!([{"name": "render", "envFrom": [{"secretRef": {"name": "db"}}]}]);
    let with_init = |key: &str| {
        let mut scene = restart(&json!({}), &json!({key: "2"}));
        scene.workload["spec"]["template"]["spec"]["initContainers"] = init.clone();
        for revision in &mut scene.revisions {
            revision["data"]["spec"]["template"]["spec"]["initContainers"] = init.clone();
        }
        scene
    };
    let mut scene = with_init("checksum/config");
    let Stage::SteppingAside(because) = scene.plan().stage else { panic!("it goes in place") };
    assert!(because.text.contains("init container render reads Secret db"), "{}", because.text);
    scene.workload["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    assert!(matches!(scene.plan().stage, Stage::Refused(_)));

    let mut scene = with_init("rollme");
    let held = scene.plan().notes.remove(0);
    assert!(held.text.contains("but init container render is not run again"), "{}", held.text);
    for name in ["web-2", "web-1", "web-0"] {
        scene.operate(name);
    }
    let told = scene.plan().writes.remove(0).tells.unwrap().text;
    assert!(told.ends_with("new pods: kubectl hitless restart --new-pods -n shop statefulset/web"), "{told}");
}

#[test]
fn a_restart_of_pods_with_an_injected_container_is_native_where_that_is_allowed() {
    let mut scene = restart(&json!({}), &json!({"rollme": "2"}));
    for pod in &mut scene.pods {
        pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "proxy", "image": "proxy:v1"}));
    }
    assert!(matches!(scene.plan().stage, Stage::SteppingAside(because) if because.cause == Cause::InjectionChanged));
    scene.workload["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    assert_eq!(scene.due(), ["web-2"]);
    let held = scene.plan().notes.remove(0);
    assert!(held.text.contains("but container proxy is left as it is; only pods that are made anew"), "{}", held.text);
}
