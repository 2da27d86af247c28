//! What an opt-in means where pods are not updated in place, and what is said when it goes.

use std::collections::BTreeSet;

use hitless_workloads::{Cause, Stage};
use serde_json::json;

use crate::world::World;

#[test]
fn in_place_only_holds_over_a_native_rollout_that_is_stuck_and_says_the_way_out() {
    let mut world = World::new("in-place", 3);
    world.deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
    world.set_image(9);
    // The new ReplicaSet is made and has pods, and nothing has been taken from the old one.
    assert!(world.deployment_controller() && world.replica_set_controller());
    assert_eq!(world.sets_with_pods(), 2);
    let before = world.pods.clone();
    world.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    world.set_image(2);
    let plan = world.plan(&BTreeSet::new());
    let Stage::Refused(because) = &plan.stage else { panic!("{:?}", plan.stage) };
    assert_eq!((because.cause, plan.writes), (Cause::NativeRollout, vec![]));
    assert!(because.text.contains(" has 3 pods ("), "{}", because.text);
    let way_out = "kubectl scale -n shop replicaset/NAME --replicas=0";
    assert!(plan.notes[0].text.contains(way_out), "{}", plan.notes[0].text);
    assert_eq!(world.pods.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    world.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place");
    assert!(matches!(world.plan(&BTreeSet::new()).stage, Stage::SteppingAside(_)));
}

#[test]
fn a_change_that_takes_the_opt_in_away_is_told_until_its_pods_are_new() {
    let mut world = World::new("in-place", 2);
    let live = world.sets.values_mut().next().unwrap();
    live["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    world.deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
    assert!(world.plan(&BTreeSet::new()).notes.is_empty(), "nothing has changed");
    world.set_image(2);
    let notes = world.plan(&BTreeSet::new()).notes;
    assert_eq!(notes[0].reason, "OptInRemoved");
    assert!(notes[0].text.contains("hitless.dev/update=in-place-only no more"), "{}", notes[0].text);
    world.settle();
    assert!(world.plan(&BTreeSet::new()).notes.is_empty());
}

#[test]
fn neither_the_clusters_own_programs_nor_pods_on_their_nodes_network_are_updated_in_place() {
    let mut world = World::new("in-place", 2);
    world.deployment["metadata"]["namespace"] = json!("kube-system");
    world.set_image(2);
    assert!(
        matches!(&world.plan(&BTreeSet::new()).stage, Stage::SteppingAside(because) if because.cause == Cause::SystemNamespace)
    );
    let mut world = World::new("in-place", 2);
    world.deployment["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    for set in world.sets.values_mut() {
        set["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    }
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
    world.set_image(2);
    assert!(
        matches!(&world.plan(&BTreeSet::new()).stage, Stage::SteppingAside(because) if because.cause == Cause::HostNetwork)
    );
}
