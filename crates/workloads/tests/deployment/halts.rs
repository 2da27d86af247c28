//! Halts: what becomes of a version that was judged bad.

use std::collections::BTreeSet;

use hitless_workloads::Stage;
use serde_json::json;

use crate::world::{World, image};

/// Version 2 is on its way, and the first pod has been brought back from it: it was judged bad.
fn judged_bad(replicas: u32) -> World {
    let mut world = World::new("in-place", replicas);
    world.set_image(2);
    let mut verbs = Vec::new();
    while verbs.last() != Some(&"set-mixed") {
        let plan = world.plan(&BTreeSet::new());
        verbs.push(plan.writes[0].verb);
        assert!(world.apply(&plan.writes[0]));
    }
    let write = world.halt().unwrap();
    let told = write.tells.clone().unwrap();
    assert_eq!(told.reason, "RolloutHalted");
    for words in
        [image(2).as_str(), "by pod echo-1", "ErrImagePull: not found", "kubectl hitless undo -n shop deployment/web"]
    {
        assert!(told.text.contains(words), "{words} in {}", told.text);
    }
    assert!(world.apply(&write));
    world
}

#[test]
fn nothing_is_made_of_a_version_that_was_judged_bad() {
    let mut world = judged_bad(2);
    world.settle();
    let plan = world.plan(&BTreeSet::new());
    assert!(matches!(&plan.stage, Stage::Halted(because) if because.text.contains(&image(2))), "{:?}", plan.stage);
    assert_eq!((plan.behind.len(), plan.total), (2, 2));
    world.scale(4);
    world.delete_pod(0);
    world.settle();
    assert_eq!((world.pods.len(), world.images()), (4, BTreeSet::from([image(1)])));
    assert!(!world.rollout_status_is_done(), "it has not succeeded");
    assert_eq!(world.deployment["spec"]["paused"], true, "natively it would roll");
}

/// What `kubectl rollout status` goes by, whatever its generation.
fn progressing(world: &World) -> Option<(&str, &str)> {
    let conditions = world.deployment["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == "Progressing")?;
    Some((condition["reason"].as_str()?, condition["message"].as_str()?))
}

#[test]
fn kubectls_rollout_status_fails_as_long_as_a_rollout_is_halted() {
    let mut world = judged_bad(2);
    let conditions = json!([{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}]);
    world.deployment["status"]["conditions"] = conditions;
    world.settle();
    let (reason, message) = progressing(&world).unwrap();
    assert_eq!(reason, "ProgressDeadlineExceeded");
    assert!(message.starts_with("hitless: ") && message.contains("kubectl hitless undo"), "{message}");
    assert_eq!(world.deployment["status"]["conditions"][0]["type"], "Available", "the others stay");
    assert!(world.plan(&BTreeSet::new()).writes.is_empty(), "it is said once");
    let mut again = world.clone();
    again.set_image(3);
    again.settle();
    assert_eq!(again.images(), BTreeSet::from([image(3)]));
    assert_eq!(progressing(&again), Some(("DeploymentPaused", "Deployment is paused")));
    world.user(|deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/halted");
    });
    world.settle();
    assert_eq!(progressing(&world), Some(("DeploymentPaused", "Deployment is paused")), "it is tried again");
}

#[test]
fn another_version_ends_a_halt_and_the_old_one_keeps_it_in_mind() {
    let halted = |world: &World| world.deployment["metadata"]["annotations"].get("hitless.dev/halted").is_some();
    let mut other = judged_bad(2);
    other.set_image(3);
    other.settle();
    assert_eq!((other.images(), halted(&other)), (BTreeSet::from([image(3)]), false));
    assert_eq!(other.deployment["spec"]["paused"], false);

    let mut back = judged_bad(2);
    back.set_image(1);
    back.settle();
    assert_eq!((back.images(), halted(&back)), (BTreeSet::from([image(1)]), true));
    assert_eq!(
        (back.deployment["spec"]["paused"].clone(), back.plan(&BTreeSet::new()).stage),
        (json!(false), Stage::Idle)
    );
    // Somebody's tool applies the bad one again.
    back.set_image(2);
    back.settle();
    assert!(matches!(back.plan(&BTreeSet::new()).stage, Stage::Halted(_)));
    assert_eq!(back.images(), BTreeSet::from([image(1)]));

    let mut again = judged_bad(2);
    again.settle();
    again.user(|deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/halted");
    });
    again.settle();
    assert_eq!((again.images(), again.sets_with_pods()), (BTreeSet::from([image(2)]), 1), "it is tried again");
}

#[test]
fn under_the_owners_own_pause_a_halt_holds_too() {
    let mut world = World::new("in-place", 2);
    world.deployment["spec"]["paused"] = json!(true);
    world.deployment["metadata"]["annotations"]["hitless.dev/paused"] = json!("false");
    world.settle();
    world.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(2));
    let _ = (world.step(), world.step());
    let write = world.halt().unwrap();
    assert!(world.apply(&write));
    world.settle();
    world.scale(3);
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([image(1)]));
    world.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(3));
    world.settle();
    assert!(world.deployment["metadata"]["annotations"].get("hitless.dev/halted").is_none());
    assert_eq!((world.images(), world.deployment["spec"]["paused"].clone()), (BTreeSet::from([image(3)]), json!(true)));
}

#[test]
fn without_a_history_there_is_nothing_to_go_back_to() {
    let mut world = World::new("in-place", 2);
    world.deployment["spec"]["revisionHistoryLimit"] = json!(1);
    world.set_image(2);
    assert_eq!(world.plan(&BTreeSet::new()).writes[0].verb, "set-mixed");
    let _ = world.step();
    assert!(world.halt().is_none());
}

#[test]
fn who_wants_it_tried_again_takes_the_mark_off_and_it_goes_on_from_there() {
    let mut world = judged_bad(2);
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([image(1)]));
    let write = world.retry().unwrap();
    assert!(world.apply(&write));
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([image(2)]));
    assert!(world.rollout_status_is_done());
    assert!(world.retry().unwrap_err().contains("judged bad"), "there is nothing to try again");
}
