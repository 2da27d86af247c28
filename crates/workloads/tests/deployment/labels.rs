//! Labels of the template: with an image in one operation, alone without a restart, there and back.

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use hitless_workloads::{Cause, Operation, Stage};
use serde_json::json;

use crate::steps::verbs_until_idle;
use crate::world::{CHART, World, image};

fn uids(world: &World) -> BTreeSet<String> {
    world.pods.values().map(|pod| pod["metadata"]["uid"].to_string()).collect()
}

/// Up to the first operation.
fn operations(world: &mut World) -> Vec<Operation> {
    for _ in 0..10 {
        let plan = world.plan(&BTreeSet::new());
        if plan.writes.is_empty() {
            return plan
                .desired
                .iter()
                .map(|wanted| Operation::clone(&wanted.intent.as_ref().unwrap().operation))
                .collect();
        }
        let _ = world.step();
    }
    panic!("no operation");
}

fn charts(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|chart| (*chart).to_owned()).collect()
}

#[test]
fn a_label_and_an_image_are_one_operation_of_the_same_pods() {
    let mut world = World::new("in-place", 3);
    let before = uids(&world);
    world.set_chart(1);
    world.set_image(2);
    let all = operations(&mut world);
    assert_eq!(all.len(), 3);
    for operation in &all {
        assert_eq!((&operation.op, operation.containers.len()), (&GrantOp::Update, 1));
        let chart = &operation.labels[CHART];
        assert_eq!((chart.from.as_deref(), chart.to.as_deref()), (None, Some("1")));
        assert_eq!(operation.labels.len(), 1);
    }
    assert_eq!(verbs_until_idle(&mut world), ["operate", "operate", "operate", "set-exact", "unpause"]);
    assert_eq!((world.images(), world.charts(), uids(&world)), (BTreeSet::from([image(2)]), charts(&["1"]), before));
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
}

#[test]
fn a_label_alone_restarts_nothing_and_an_undo_takes_it_back() {
    let mut world = World::new("in-place", 2);
    let (before, pods) = (uids(&world), world.pods.clone());
    let give = |world: &mut World, chart: u8, to: &str| {
        world.set_chart(chart);
        let all = operations(world);
        assert_eq!(world.plan(&BTreeSet::new()).behind.len(), 2, "the image is right, and the label is not");
        assert!(all.iter().all(|operation| operation.op == GrantOp::Relabel && operation.containers.is_empty()));
        assert!(all.iter().all(|operation| operation.labels[CHART].to.as_deref().unwrap_or_default() == to));
        world.settle();
        assert_eq!((world.charts(), uids(world)), (charts(&[to]), before.clone()));
    };
    give(&mut world, 1, "1");
    world.undo();
    world.settle();
    assert_eq!(world.charts(), charts(&[""]));
    for (chart, to) in [(1, "1"), (2, "2"), (0, "")] {
        give(&mut world, chart, to);
    }
    for (name, pod) in &world.pods {
        assert_eq!(pod["spec"], pods[name]["spec"], "nothing was replaced");
    }
}

#[test]
fn a_pod_that_is_made_in_mid_rollout_has_the_label_and_one_that_was_overtaken_gets_the_next() {
    let mut world = World::new("in-place", 1);
    world.set_chart(1);
    let _ = operations(&mut world);
    world.scale(3);
    let _ = (world.deployment_controller(), world.replica_set_controller());
    assert_eq!(world.plan(&BTreeSet::new()).behind.len(), 1, "the new ones are as they should be");
    world.set_chart(2);
    let before = uids(&world);
    world.settle();
    assert_eq!((world.charts(), uids(&world)), (charts(&["2"]), before));
}

#[test]
fn a_label_that_is_changed_back_or_on_in_mid_rollout_restarts_nobody() {
    for next in [1, 3] {
        let mut world = World::new("in-place", 3);
        world.set_chart(1);
        world.settle();
        let before = world.pods.clone();
        world.set_chart(2);
        let _ = (operations(&mut world), world.step());
        assert_eq!(world.charts(), charts(&["1", "2"]));
        world.set_chart(next);
        world.settle();
        assert_eq!(world.charts(), charts(&[&next.to_string()]));
        assert!(before.iter().all(|(name, pod)| world.pods[name]["spec"] == pod["spec"]));
    }
}

#[test]
fn labels_that_nobody_keeps_go_natively() {
    let mut world = World::new("in-place", 1);
    world.set_chart(1);
    let _ = operations(&mut world);
    world.set_chart(0);
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert!(because.text.ends_with(
        "labels[helm.sh/chart] can't be made to running pods, because a version had it that has not reached all pods"
    ));

    // Where its ReplicaSet gets its last complete template back, what shows that goes with it: the mark keeps which kind of reason it was.
    let mut world = World::new("in-place", 1);
    world.set_chart(1);
    let _ = operations(&mut world);
    world.set_chart(0);
    world.set_image(2);
    let mut is_marked = false;
    while let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage {
        assert_eq!(because.cause, Cause::Field);
        is_marked |= world.deployment["metadata"]["annotations"].get("hitless.dev/way").is_some();
        assert!(world.step());
    }
    assert!(is_marked);

    let mut short = World::new("in-place", 1);
    short.deployment["spec"]["revisionHistoryLimit"] = json!(1);
    short.set_chart(1);
    let Stage::SteppingAside(because) = short.plan(&BTreeSet::new()).stage else { panic!("it goes in place") };
    assert!(because.text.contains("revisionHistoryLimit"), "{because:?}");
}
