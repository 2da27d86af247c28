//! Changes of restart annotations: every pod is restarted once, also those that were made in between, and never one too many (the
//! model of the agent fails then).

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use hitless_workloads::{Cause, Pause, Stage};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{MARK, RUNS, World, image, runs};

fn annotate(world: &mut World, annotations: &Value) {
    world.user(|deployment| {
        let all = &mut deployment["spec"]["template"]["metadata"]["annotations"];
        for (key, value) in annotations.as_object().unwrap() {
            match value {
                Value::Null => _ = all.as_object_mut().and_then(|all| all.remove(key)),
                value => all[key] = value.clone(),
            }
        }
        // As the API server returns it.
        if all.as_object().is_some_and(serde_json::Map::is_empty) {
            *all = Value::Null;
        }
    });
}

/// Until the live ReplicaSet has the template: pods go next.
fn prepare(world: &mut World) {
    while world.plan(&BTreeSet::new()).desired.is_empty() {
        assert!(world.step());
    }
}

fn checksum(value: u8) -> Value {
    json!({"checksum/config": format!("sum-{value}")})
}

fn uids(world: &World) -> BTreeSet<String> {
    world.pods.values().map(|pod| pod["metadata"]["uid"].to_string()).collect()
}

fn assert_all_run_the_template(world: &World) {
    let template = runs(&world.deployment["spec"]["template"]);
    for (name, pod) in &world.pods {
        assert_eq!(pod["metadata"]["annotations"][RUNS], template, "{name}");
    }
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
}

fn note_of(world: &World) -> Option<String> {
    let notes = world.plan(&BTreeSet::new()).notes;
    notes.into_iter().find(|note| note.reason == "RestartAnnotationsInvalid").map(|note| note.text)
}

#[test]
fn a_new_checksum_restarts_the_same_pods_and_so_do_another_one_and_none() {
    let mut world = World::new("in-place", 3);
    let before = uids(&world);
    for annotations in [checksum(1), checksum(2), json!({"checksum/config": null}), checksum(1)] {
        annotate(&mut world, &annotations);
        prepare(&mut world);
        let desired = world.plan(&BTreeSet::new()).desired;
        assert_eq!(desired.len(), 3, "{annotations}");
        assert!(desired.iter().all(|wanted| wanted.intent.as_ref().unwrap().operation.op == GrantOp::Restart));
        world.settle();
        assert_all_run_the_template(&world);
        assert_eq!(uids(&world), before);
    }
}

#[test]
fn a_checksum_and_an_image_are_one_operation() {
    let mut world = World::new("in-place", 2);
    annotate(&mut world, &checksum(1));
    world.set_image(2);
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([image(2)]), "no other name beside the new image");
    assert_all_run_the_template(&world);
}

#[test]
fn a_pod_that_is_made_in_mid_rollout_is_known_by_its_mark_in_the_next_one() {
    for limit in [1, 10] {
        let mut world = World::new("in-place", 1);
        world.deployment["spec"]["revisionHistoryLimit"] = json!(limit);
        annotate(&mut world, &checksum(1));
        prepare(&mut world);
        world.scale(3);
        let _ = (world.deployment_controller(), world.replica_set_controller());
        assert_eq!(world.plan(&BTreeSet::new()).desired.len(), 1, "the new ones are as they should be");
        // Before it ends: the first one is as before, the others as the change that was overtaken.
        annotate(&mut world, &checksum(2));
        world.settle();
        assert_all_run_the_template(&world);
        annotate(&mut world, &checksum(3));
        world.settle();
        assert_all_run_the_template(&world);
    }
}

#[test]
fn what_a_version_before_this_one_left_in_mid_rollout_is_restarted() {
    let mut world = World::new("in-place", 2);
    annotate(&mut world, &json!({"kubectl.kubernetes.io/restartedAt": "t1"}));
    prepare(&mut world);
    let live = world.sets.values_mut().find(|set| set["spec"]["replicas"] != 0).unwrap();
    live["metadata"]["labels"]["hitless.dev/live"] = json!("true");
    live["spec"]["template"]["metadata"]["annotations"]["hitless.dev/mixed"] = json!("1");
    assert_eq!(world.plan(&BTreeSet::new()).desired.len(), 2);
    assert!(world.step(), "the first pod");
    annotate(&mut world, &checksum(1));
    world.settle();
    assert_all_run_the_template(&world);
}

#[test]
fn the_downward_api_and_annotations_that_nobody_listed_go_native_and_the_event_says_why() {
    let mut world = World::new("in-place-only", 2);
    annotate(&mut world, &json!({"argocd.argoproj.io/tracking-id": "x"}));
    let Stage::Refused(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert_eq!(
        because.text,
        "a change of spec.template.metadata.annotations[argocd.argoproj.io/tracking-id] can't be made to running pods"
    );

    let mut world = World::new("in-place", 2);
    let items = json!([{"path": "all", "fieldRef": {"fieldPath": "metadata.annotations"}}]);
    world.user(|deployment| {
        deployment["spec"]["template"]["spec"]["volumes"] = json!([{"name": "info", "downwardAPI": {"items": items}}]);
    });
    world.settle();
    annotate(&mut world, &checksum(1));
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert_eq!(
        because.text,
        "a change of spec.template.metadata.annotations[checksum/config] can't be made to running pods, because \
         spec.template.spec.volumes[info].downwardAPI.items[all] reads it"
    );
    world.settle();
    assert_all_run_the_template(&world);
}

#[test]
fn a_workload_has_restart_annotations_of_its_own_and_a_wrong_one_is_named() {
    let mut world = World::new("in-place", 2);
    let before = uids(&world);
    let list = "hitless.dev/restart-annotations";
    world.user(|deployment| deployment["metadata"]["annotations"][list] = json!("example.com/config-*, started"));
    assert_eq!(note_of(&world), None);
    for annotations in [json!({"example.com/config-a": "1"}), json!({"started": "now", "example.com/config-a": null})] {
        annotate(&mut world, &annotations);
        world.settle();
        assert_all_run_the_template(&world);
    }
    assert_eq!(uids(&world), before);
    world.user(|deployment| deployment["metadata"]["annotations"][list] = json!("exa mple, started"));
    assert!(note_of(&world).is_some_and(|text| text.contains("\"exa mple\"")));
    annotate(&mut world, &json!({"started": "later"}));
    world.settle();
    assert_eq!(uids(&world), before, "the other entry counts");
    annotate(&mut world, &json!({"example": "x"}));
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert!(because.text.contains("\"exa mple\""), "{}", because.text);
}

#[test]
fn what_reloader_collects_under_its_own_pause_is_one_restart_when_it_resumes() {
    let mut world = World::new("in-place", 2);
    let before = uids(&world);
    let paused_at = "deployment.reloader.stakater.com/paused-at";
    world.deployment["spec"]["paused"] = json!(true);
    world.deployment["metadata"]["annotations"][paused_at] = json!("2026-01-01T00:00:00Z");
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
    for value in [1, 2] {
        world.deployment["spec"]["template"]["metadata"]["annotations"] = checksum(value);
        let plan = world.plan(&BTreeSet::new());
        assert_eq!(
            (plan.stage, world.pause(), plan.writes, plan.behind.len()),
            (Stage::Rolling, Some(Pause::Reloader), vec![], 2)
        );
        world.settle();
        assert!(plan.notes.iter().any(|note| note.reason == "PausedByReloader"));
    }
    // What Reloader writes, and what the guard makes of it.
    world.deployment["metadata"]["annotations"].as_object_mut().unwrap().remove(paused_at);
    world.deployment["metadata"]["annotations"][MARK] = json!("held");
    world.settle();
    assert_all_run_the_template(&world);
    assert_eq!((uids(&world), &world.deployment["spec"]["paused"]), (before, &json!(false)));
}

#[derive(Clone, Debug)]
enum Action {
    Step,
    DeploymentController,
    ReplicaSetController,
    SetChecksum(u8),
    RemoveChecksum,
    SetImage(u8),
    Scale(u32),
    DeletePod(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => Just(Action::Step),
        4 => Just(Action::DeploymentController),
        4 => Just(Action::ReplicaSetController),
        4 => (1..4_u8).prop_map(Action::SetChecksum),
        1 => Just(Action::RemoveChecksum),
        1 => (1..3_u8).prop_map(Action::SetImage),
        2 => (1..5_u32).prop_map(Action::Scale),
        1 => (0..4_usize).prop_map(Action::DeletePod),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_the_end_every_pod_was_started_from_the_template(actions in prop::collection::vec(action(), 0..60)) {
        let mut world = World::new("in-place", 3);
        for action in actions {
            match action {
                Action::Step => _ = world.step(),
                Action::DeploymentController => _ = world.deployment_controller(),
                Action::ReplicaSetController => _ = world.replica_set_controller(),
                Action::SetChecksum(value) => annotate(&mut world, &checksum(value)),
                Action::RemoveChecksum => annotate(&mut world, &json!({"checksum/config": null})),
                Action::SetImage(version) => world.set_image(version),
                Action::Scale(replicas) => world.scale(replicas),
                Action::DeletePod(index) => world.delete_pod(index),
            }
            prop_assert!(world.sets_with_pods() <= 1);
        }
        world.settle();
        assert_all_run_the_template(&world);
        annotate(&mut world, &checksum(9));
        let before = uids(&world);
        world.settle();
        assert_all_run_the_template(&world);
        prop_assert_eq!(uids(&world), before);
    }
}

/// With an init container that renders ConfigMap `conf` into a volume of the others.
fn rendering(update: &str) -> World {
    let mut world = World::new("in-place", 2);
    world.user(|deployment| {
        let spec = &mut deployment["spec"]["template"]["spec"];
        spec["volumes"] = json!([{"name": "in", "configMap": {"name": "conf"}}, {"name": "out", "emptyDir": {}}]);
        spec["initContainers"] = json!([{"name": "render", "image": "render:v1",
            "volumeMounts": [{"name": "in", "mountPath": "/in"}, {"name": "out", "mountPath": "/out"}]}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "out", "mountPath": "/out"}]);
    });
    world.settle();
    world.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!(update);
    world
}

#[test]
fn a_checksum_of_what_an_init_container_renders_needs_new_pods() {
    for (update, key) in [("in-place", "checksum/config"), ("in-place", "reloader.stakater.com/last-reloaded-from")] {
        let mut world = rendering(update);
        let before = uids(&world);
        annotate(&mut world, &json!({key: "2"}));
        let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("{key} goes in place") };
        assert_eq!(because.cause, Cause::InitContainer);
        let end = "init container render mounts ConfigMap conf, and runs only when a pod is started";
        assert!(because.text.ends_with(end), "{}", because.text);
        world.settle();
        assert!(uids(&world).is_disjoint(&before), "all pods are new");
    }
    let mut only = rendering("in-place-only");
    annotate(&mut only, &checksum(2));
    let plan = only.plan(&BTreeSet::new());
    assert!(matches!(plan.stage, Stage::Refused(because) if because.cause == Cause::InitContainer));
    assert_eq!(plan.writes, []);
}

#[test]
fn images_beside_an_init_container_go_in_place_and_a_plain_restart_says_what_it_left() {
    let mut world = rendering("in-place");
    let before = uids(&world);
    world.set_image(2);
    assert_eq!(told_until_idle(&mut world).last().unwrap().split_once(", in place").unwrap().1, "", "no restart");
    annotate(&mut world, &json!({"kubectl.kubernetes.io/restartedAt": "t1"}));
    let told = told_until_idle(&mut world);
    assert!(
        told.last().unwrap().ends_with(
            ", in place, but init container render is not run again; new pods: kubectl hitless restart --new-pods -n shop deployment/web"
        ),
        "{told:?}"
    );
    assert_eq!(uids(&world), before);
}

#[test]
fn a_reload_for_an_init_container_is_native_and_the_next_one_in_place() {
    let mut world = rendering("in-place");
    world.deployment["metadata"]["annotations"]["hitless.dev/init-config"] =
        json!(r#"{"containers":{"render":"1"},"newPods":{"config":"aa","for":["render"]}}"#);
    annotate(&mut world, &json!({"hitless.dev/config": "aa"}));
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert!(because.text.contains("init container render uses"), "{}", because.text);
    world.settle();
    annotate(&mut world, &json!({"hitless.dev/config": "bb"}));
    prepare(&mut world);
}

#[test]
fn a_restart_beside_a_volume_that_is_mounted_once_is_native_and_an_image_goes_in_place() {
    let mut world = World::new("in-place", 2);
    world.user(|deployment| {
        deployment["spec"]["template"]["spec"]["volumes"] = json!([{"name": "keys", "csi": {"driver": "x"}}]);
    });
    world.settle();
    let before = uids(&world);
    world.set_image(2);
    world.settle();
    assert_eq!(uids(&world), before);
    let mut only = world.clone();
    let restart = json!({"kubectl.kubernetes.io/restartedAt": "t1"});
    annotate(&mut world, &restart);
    world.settle();
    assert!(uids(&world).is_disjoint(&before));
    only.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    annotate(&mut only, &restart);
    let Stage::Refused(because) = only.plan(&BTreeSet::new()).stage else { panic!("it is not refused") };
    assert!(because.cause == Cause::VolumeMountedOnce && because.text.contains("volume keys"), "{}", because.text);
}

#[test]
fn a_restart_of_pods_with_an_injected_container_is_native_where_that_is_allowed_and_an_image_goes_in_place() {
    let injected = || {
        let mut world = World::new("in-place", 2);
        for pod in world.pods.values_mut() {
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.push(json!({"name": "proxy", "image": "proxy:v1"}));
        }
        world
    };
    let restart = json!({"kubectl.kubernetes.io/restartedAt": "t1"});
    let mut image = injected();
    let before = uids(&image);
    image.set_image(2);
    image.settle();
    assert_eq!(uids(&image), before);
    let mut world = injected();
    annotate(&mut world, &restart);
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert_eq!(because.cause, Cause::InjectionChanged);
    assert!(because.text.contains("container proxy is left as it is"), "{}", because.text);
    for (name, value) in [("hitless.dev/restarts", "containers"), ("hitless.dev/update", "in-place-only")] {
        let mut world = injected();
        let before = uids(&world);
        world.deployment["metadata"]["annotations"][name] = json!(value);
        annotate(&mut world, &restart);
        let told = told_until_idle(&mut world);
        assert!(told.last().unwrap().contains(", but container proxy is left as it is; "), "{told:?}");
        assert_eq!(uids(&world), before, "{name}");
    }
}

/// What its Events say on the way.
fn told_until_idle(world: &mut World) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let next = world.plan(&BTreeSet::new()).writes.into_iter().next();
        told.extend(next.and_then(|write| write.tells).map(|note| note.text));
        let acted = [world.step(), world.deployment_controller(), world.replica_set_controller()];
        if acted == [false; 3] {
            return told;
        }
    }
}
