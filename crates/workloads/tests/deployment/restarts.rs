//! Changes of restart annotations: every pod is restarted once, also those that were made in between, and never one too many (the
//! model of the agent fails then).

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use hitless_workloads::{Pause, Stage};
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
    while world.plan(&BTreeSet::new()).wishes.is_empty() {
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
        let wishes = world.plan(&BTreeSet::new()).wishes;
        assert_eq!(wishes.len(), 3, "{annotations}");
        assert!(wishes.iter().all(|wish| wish.intent.as_ref().unwrap().operation.op == GrantOp::Restart));
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
        assert_eq!(world.plan(&BTreeSet::new()).wishes.len(), 1, "the new ones are as they should be");
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
    assert_eq!(world.plan(&BTreeSet::new()).wishes.len(), 2);
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
