//! Whatever happens in whatever order: one ReplicaSet has pods, `rollout status` is never done too early, and in the end the
//! Deployment is un-paused with exactly its template and no pod of another version.

use std::collections::BTreeSet;

use hitless_workloads::{Stage, Write};
use proptest::prelude::*;

use crate::world::{CHART, MARK, World, image};

#[derive(Clone, Debug)]
enum Action {
    /// Our controller decides, and is interrupted before it writes.
    Decide,
    /// It writes what it decided, however long ago.
    Commit,
    Step,
    DeploymentController,
    ReplicaSetController,
    SetImage(u8),
    /// A label of the template; 0: it goes.
    SetChart(u8),
    /// A change that a running pod can't take.
    SetEnv(u8),
    Scale(u32),
    DeletePod(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Decide),
        2 => Just(Action::Commit),
        6 => Just(Action::Step),
        4 => Just(Action::DeploymentController),
        4 => Just(Action::ReplicaSetController),
        3 => (1..4_u8).prop_map(Action::SetImage),
        2 => (0..3_u8).prop_map(Action::SetChart),
        1 => (1..3_u8).prop_map(Action::SetEnv),
        2 => prop_oneof![Just(0_u32), 1..5_u32].prop_map(Action::Scale),
        1 => (0..4_usize).prop_map(Action::DeletePod),
    ]
}

fn run(actions: &[Action]) -> World {
    let mut world = World::new("in-place", 3);
    let mut decided: Option<Write> = None;
    // At 0 replicas the guard lets a change go the native way, and a change that can't be made in place goes it in any case.
    let mut native = false;
    for action in actions {
        match action {
            Action::Decide => decided = world.plan(&BTreeSet::new()).writes.pop(),
            Action::Commit => {
                if let Some(write) = decided.take() {
                    let _ = world.apply(&write);
                }
            }
            Action::Step => {
                let _ = world.step();
            }
            Action::DeploymentController => {
                let _ = world.deployment_controller();
            }
            Action::ReplicaSetController => {
                let _ = world.replica_set_controller();
            }
            Action::SetImage(version) => {
                native |= world.deployment["spec"]["replicas"] == 0;
                world.set_image(*version);
            }
            Action::SetChart(chart) => {
                // One that goes before its version has reached all pods goes natively.
                native |= world.deployment["spec"]["replicas"] == 0 || *chart == 0;
                world.set_chart(*chart);
            }
            Action::SetEnv(value) => {
                native = true;
                world.user(|deployment| {
                    deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] =
                        value.to_string().into();
                });
            }
            Action::Scale(replicas) => {
                native |= *replicas == 0;
                world.scale(*replicas);
            }
            Action::DeletePod(index) => world.delete_pod(*index),
        }
        if !native {
            assert!(world.sets_with_pods() <= 1, "two ReplicaSets have pods after {action:?}");
            if world.rollout_status_is_done() {
                let target = world.deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
                assert!(world.images().iter().all(|image| image == target), "rollout status is done too early");
                assert!(world.charts().iter().all(|chart| *chart == chart_of(&world)), "a label is not there yet");
            }
        }
    }
    world
}

/// As the template has it.
fn chart_of(world: &World) -> String {
    world.deployment["spec"]["template"]["metadata"]["labels"][CHART].as_str().unwrap_or_default().to_owned()
}

fn assert_at_rest(world: &World) {
    let target = world.deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let replicas = world.deployment["spec"]["replicas"].as_u64().unwrap();
    assert_ne!(world.deployment["spec"]["paused"], true);
    assert!(world.deployment["metadata"]["annotations"].get(MARK).is_none());
    assert_eq!(world.pods.len() as u64, replicas);
    assert!(world.images().iter().all(|image| *image == target), "{:?} but wanted {target}", world.images());
    assert!(world.charts().iter().all(|chart| *chart == chart_of(world)), "{:?}", world.charts());
    assert!(world.rollout_status_is_done());
    let new = world.new_set().unwrap();
    assert_eq!(new["spec"]["replicas"], replicas, "the pods are of another ReplicaSet");
    for set in world.sets.values() {
        let mark = &set["spec"]["template"]["metadata"]["annotations"]["hitless.dev/mixed"];
        assert!(mark.is_null() || set["spec"]["replicas"] == 0, "pods are made with a mark");
    }
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_rollout_ends_with_the_exact_target(actions in prop::collection::vec(action(), 0..60)) {
        let mut world = run(&actions);
        world.settle();
        assert_at_rest(&world);
        // And it is ready for the next one.
        world.scale(2);
        world.settle();
        let uids: BTreeSet<String> = world.pods.keys().cloned().collect();
        let next = if world.images().contains(&image(9)) { 8 } else { 9 };
        world.set_image(next);
        world.settle();
        assert_at_rest(&world);
        prop_assert_eq!(uids, world.pods.keys().cloned().collect::<BTreeSet<_>>(), "the same pods");
    }

    #[test]
    fn planning_twice_gives_the_same(actions in prop::collection::vec(action(), 0..30)) {
        let world = run(&actions);
        prop_assert_eq!(world.plan(&BTreeSet::new()), world.plan(&BTreeSet::new()));
    }
}

#[test]
fn scaled_to_nothing_and_back_in_the_middle() {
    use Action::{DeploymentController, ReplicaSetController, Scale, SetImage, Step};
    let mut world =
        run(&[SetImage(2), Step, Step, Step, Scale(0), DeploymentController, ReplicaSetController, Scale(3)]);
    world.settle();
    assert_at_rest(&world);
}

#[test]
fn a_pod_made_between_two_versions_that_nobody_numbered_in_between_gets_its_labels() {
    use Action::{Decide, DeploymentController, ReplicaSetController, Scale, SetChart, SetEnv, SetImage, Step};
    let mut world = run(&[
        SetChart(2),
        SetEnv(1),
        Step,
        DeploymentController,
        DeploymentController,
        SetImage(2),
        Step,
        SetChart(0),
        Step,
        ReplicaSetController,
        Step,
        Scale(4),
        Decide,
        SetChart(2),
    ]);
    world.settle();
    assert_at_rest(&world);
}

#[test]
fn scaled_to_nothing_and_back_before_a_pod_has_gone() {
    let mut world = run(&[Action::SetChart(1), Action::Step, Action::Scale(0), Action::Step, Action::Scale(1)]);
    world.settle();
    assert_at_rest(&world);
}

#[test]
fn what_was_decided_before_its_owner_changed_the_template_once_more_makes_nobody_restart() {
    use Action::{Commit, Decide, SetChart, SetImage, Step};
    let mut world = run(&[SetImage(2), Step, SetChart(1), Step, SetChart(0), SetImage(1), Decide, SetChart(1), Commit]);
    world.settle();
    assert_at_rest(&world);
}
