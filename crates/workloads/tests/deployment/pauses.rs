//! Pauses: the owner's own, and those by annotation.

use std::collections::BTreeSet;

use hitless_workloads::{Pause, Stage};
use serde_json::json;

use crate::steps::verbs_until_idle;
use crate::world::{MARK, World, image};

#[test]
fn under_its_owners_pause_nothing_begins_and_what_was_collected_goes_in_place_on_resume() {
    let mut world = World::new("in-place", 2);
    world.deployment["spec"]["paused"] = json!(true);
    for number in [2, 3] {
        world.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(number));
        world.settle();
        let plan = world.plan(&BTreeSet::new());
        assert_eq!((plan.stage, world.pause(), plan.behind.len()), (Stage::Rolling, Some(Pause::Owner), 2));
        assert_eq!(world.images(), BTreeSet::from([image(1)]));
    }
    // As the guard stores `kubectl rollout resume`.
    world.deployment["metadata"]["annotations"][MARK] = json!("held");
    assert_eq!(
        verbs_until_idle(&mut world),
        ["create-history", "set-mixed", "operate", "operate", "set-exact", "unpause"]
    );
    assert_eq!((world.images(), &world.deployment["spec"]["paused"]), (BTreeSet::from([image(3)]), &json!(false)));
}

#[test]
fn under_a_pause_by_annotation_the_operation_under_way_ends_and_no_template_is_written() {
    let mut world = World::new("in-place", 2);
    let before = world.sets.clone();
    world.deployment["metadata"]["annotations"]["hitless.dev/paused"] = json!("true");
    world.set_image(2);
    world.settle();
    assert_eq!((world.images(), &world.sets), (BTreeSet::from([image(1)]), &before), "new pods get the version before");
    let mut empty = world.clone();
    empty.pods.clear();
    assert!(empty.plan(&BTreeSet::new()).writes.is_empty(), "nor where all its pods are gone for a moment");
    // A change that can't be made in place is not handed to the Deployment controller either.
    world.deployment["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
    world.settle();
    assert_eq!((&world.deployment["spec"]["paused"], &world.sets), (&json!(true), &before));
    world.deployment["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("env");
    world.deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/paused");
    world.settle();
    assert_eq!((world.images(), &world.deployment["spec"]["paused"]), (BTreeSet::from([image(2)]), &json!(false)));
}

#[test]
fn a_pause_of_the_owners_own_is_never_lifted() {
    let mut world = World::new("in-place", 2);
    world.deployment["spec"]["paused"] = json!(true);
    world.deployment["metadata"]["annotations"]["hitless.dev/paused"] = json!("false");
    world.settle();
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
    world.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(2));
    assert!(world.plan(&BTreeSet::new()).permanent);
    assert_eq!(verbs_until_idle(&mut world), ["create-history", "set-mixed", "operate", "operate", "set-exact"]);
    assert_eq!(world.deployment["spec"]["paused"], true);
    assert!(world.rollout_status_is_done());
}
