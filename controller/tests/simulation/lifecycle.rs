//! Operators that know nothing but PodOpsLifecycle's labels: the real round, agents in miniature, old caches, controllers that are
//! killed between two writes.

use hitless_api::lifecycle::{self, Step, is_operating};
use hitless_api::names::DRAINED;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, Outcome, Phase};
use hitless_workloads::{COMPONENTS, Installed};
use serde_json::json;

use crate::cluster::{Cluster, view};
use crate::test_controller::{ALL, PODS, TRANSITIONS, TestController, Writing};

/// `replicas` pods that take part, of which one at a time may go.
fn cluster(replicas: u32) -> Cluster {
    let mut cluster = Cluster::new(replicas, 1);
    cluster.installed = Installed::with(&COMPONENTS);
    cluster.agent.features.push(GrantOp::FOREIGN_FEATURE.to_owned());
    for pod in cluster.pods.values_mut() {
        pod["metadata"]["labels"][lifecycle::CONTROL] = json!("true");
    }
    cluster
}

fn uids(cluster: &Cluster) -> Vec<String> {
    cluster.pods.keys().cloned().collect()
}

fn pod(cluster: &Cluster, uid: &str) -> PodView {
    view(&cluster.pods[uid])
}

fn has(cluster: &Cluster, uid: &str, step: Step, id: &str) -> bool {
    pod(cluster, uid).labels.contains_key(&step.key(id))
}

fn begin(cluster: &mut Cluster, uid: &str, id: &str, kind: &str) {
    cluster.change_pod(uid, |pod| {
        pod["metadata"]["labels"][Step::Operating.key(id)] = json!("1");
        pod["metadata"]["labels"][Step::OperationType.key(id)] = json!(kind);
        // Admission's, in the same write.
        pod["metadata"]["labels"][Step::PreCheck.key(id)] = json!("1");
    });
}

fn finish(cluster: &mut Cluster, uid: &str, id: &str) {
    cluster
        .change_pod(uid, |pod| _ = pod["metadata"]["labels"].as_object_mut().unwrap().remove(&Step::Operating.key(id)));
}

fn undo(cluster: &mut Cluster, uid: &str, id: &str) {
    cluster.change_pod(uid, |pod| pod["metadata"]["labels"][Step::UndoOperationType.key(id)] = json!("update"));
}

fn set(cluster: &mut Cluster, uid: &str, is_in: bool, reason: &str, message: &str) {
    let status = if is_in { "True" } else { "False" };
    cluster.change_pod(uid, |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-11-22T00:00:00Z"},
            {"type": "hitless.dev/InService", "status": status, "reason": reason, "message": message}]);
    });
}

/// One step of the agent that has this grant.
fn agent(cluster: &mut Cluster, grant: &Grant) {
    let uid = grant.pod.uid.as_str();
    if !cluster.pods.contains_key(uid) {
        return cluster.report(grant, Phase::Returning, Some((Outcome::Cancelled, "PodGone")));
    }
    let pod = pod(cluster, uid);
    let operates = is_operating(&pod.labels);
    let has_permission = lifecycle::at(&pod.labels, Step::Operate).next().is_some();
    let is_allowed = operates && lifecycle::at(&pod.labels, Step::Operate).next().is_some();
    match pod.in_service() {
        Some(condition) if condition.is_true && condition.message == "back" => {
            cluster.report(grant, Phase::Returning, Some((Outcome::Done, "Done")));
        }
        Some(condition)
            if !condition.is_true && ((!operates && !has_permission) || (grant.cancel.is_some() && !is_allowed)) =>
        {
            set(cluster, uid, true, "InService", "back");
        }
        Some(condition) if !condition.is_true && condition.reason != DRAINED => {
            set(cluster, uid, false, DRAINED, &grant.id);
        }
        Some(condition) if !condition.is_true => {}
        _ if !operates || grant.cancel.is_some() => {
            cluster.report(grant, Phase::Returning, Some((Outcome::Cancelled, "NotOperated")));
        }
        _ if lifecycle::at(&pod.labels, Step::Preparing).next().is_some() => {
            set(cluster, uid, false, "Leaving", &grant.id);
        }
        _ => {}
    }
}

fn agents(cluster: &mut Cluster) {
    cluster.agents_forget();
    let live = cluster.transitions.values().flat_map(|node| node.unfinished().cloned().collect::<Vec<_>>());
    for grant in live.collect::<Vec<_>>() {
        agent(cluster, &grant);
    }
}

fn turns(cluster: &mut Cluster, controller: &mut TestController, count: usize) {
    for _ in 0..count {
        controller.turns(cluster, 1, 100);
        agents(cluster);
        assert_safe(cluster);
    }
}

/// No more pods out than the rule allows, each reserved, and nobody is allowed to operate a pod that serves.
fn assert_safe(cluster: &Cluster) {
    cluster.assert_within_budget(1);
    for pod in cluster.pods.values().map(view) {
        let has = |step: Step, id: &str| pod.labels.contains_key(&step.key(id));
        let works = |id: &str| has(Step::Operating, id) && !has(Step::UndoOperationType, id);
        let allowed = lifecycle::at(&pod.labels, Step::Operate).any(works);
        let is_drained = pod.in_service().is_some_and(|it| !it.is_true && it.reason == DRAINED);
        assert!(!allowed || is_drained, "{} may be operated and is not drained: {:?}", pod.id.name, pod.labels);
    }
}

fn assert_over(cluster: &Cluster) {
    assert!(cluster.grants().is_empty(), "{:#?}", cluster.grants());
    assert!(cluster.ledgers.values().all(|ledger| ledger.spec.reservations.is_empty()), "{:#?}", cluster.ledgers);
    for pod in cluster.pods.values().map(view) {
        assert!(pod.ready() && lifecycle::ids(&pod.labels).is_empty(), "{}: {:?}", pod.id.name, pod.labels);
        assert!(pod.labels.contains_key(lifecycle::SERVICE_AVAILABLE), "{:?}", pod.labels);
    }
}

#[test]
fn one_pod_at_a_time_goes_for_an_operator_that_wants_all() {
    let mut cluster = cluster(3);
    let mut controller = TestController::new(1, &cluster);
    let all = uids(&cluster);
    for uid in &all {
        begin(&mut cluster, uid, "x", "update");
    }
    for _ in 0..200 {
        turns(&mut cluster, &mut controller, 1);
        let allowed: Vec<_> = all.iter().filter(|uid| has(&cluster, uid, Step::Operate, "x")).cloned().collect();
        for uid in &allowed {
            finish(&mut cluster, uid, "x");
        }
    }
    assert_over(&cluster);
    assert!(cluster.written["ledger"] <= 4, "a pod that is back hands its place on: {:?}", cluster.written);
}

#[test]
fn an_operator_that_never_finishes_keeps_its_place_and_the_others_wait() {
    let mut cluster = cluster(3);
    let mut controller = TestController::new(1, &cluster);
    let all = uids(&cluster);
    begin(&mut cluster, &all[0], "dead", "update");
    turns(&mut cluster, &mut controller, 30);
    assert!(has(&cluster, &all[0], Step::Operate, "dead"));
    begin(&mut cluster, &all[1], "x", "update");
    cluster.set_image(2);
    cluster.pass(3_600_000);
    let mut next = TestController::new(2, &cluster);
    turns(&mut cluster, &mut next, 100);
    assert!(!pod(&cluster, &all[0]).ready() && cluster.ledgers["shop"].spec.reservations.contains_key(&all[0]));
    assert!(has(&cluster, &all[1], Step::PreCheck, "x") && pod(&cluster, &all[1]).ready());
    assert!(
        cluster.images().iter().all(|image| *image == "web:v1"),
        "one reservation a pod, and the rule's place is taken"
    );
}

#[test]
fn without_the_component_nobody_looks_at_the_labels() {
    let mut cluster = cluster(2);
    cluster.installed = Installed::default();
    let mut controller = TestController::new(1, &cluster);
    let first = uids(&cluster)[0].clone();
    begin(&mut cluster, &first, "x", "update");
    let before = cluster.pods.clone();
    turns(&mut cluster, &mut controller, 10);
    assert_eq!((cluster.pods, cluster.ledgers.len()), (before, 0));
}

#[test]
fn a_pod_is_deleted_by_its_label_after_it_has_left() {
    let mut cluster = cluster(2);
    let mut controller = TestController::new(1, &cluster);
    turns(&mut cluster, &mut controller, 3);
    let first = uids(&cluster)[0].clone();
    cluster.change_pod(&first, |pod| pod["metadata"]["labels"][lifecycle::TO_DELETE] = json!("true"));
    let mut was_drained = false;
    for _ in 0..60 {
        was_drained |= cluster.pods.get(&first).map(view).is_some_and(|pod| !pod.ready());
        assert!(was_drained || cluster.pods.contains_key(&first), "deleted in service");
        turns(&mut cluster, &mut controller, 1);
    }
    assert!(was_drained && !cluster.pods.contains_key(&first));
    assert!(cluster.grants().is_empty() && cluster.ledgers["shop"].spec.reservations.is_empty());
}

/// Operators that begin, join, take back, finish and die; controllers that are killed or see old objects.
#[test]
fn whatever_operators_do_and_whoever_is_killed_no_rule_is_broken_and_all_ends_well() {
    for seed in 0..150_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut chance = |sides: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % sides
        };
        let mut cluster = cluster(3);
        let all = uids(&cluster);
        let mut epoch = 1;
        let mut controller = TestController::new(epoch, &cluster);
        for _ in 0..120 {
            let uid = all[usize::try_from(chance(3)).unwrap()].clone();
            let id = ["x", "y"][usize::try_from(chance(2)).unwrap()];
            match chance(8) {
                0 | 1 => begin(&mut cluster, &uid, id, "update"),
                2 => finish(&mut cluster, &uid, id),
                3 if has(&cluster, &uid, Step::Operating, id) => undo(&mut cluster, &uid, id),
                _ => {}
            }
            cluster.pass(300);
            controller.refresh(&cluster, [ALL, ALL, PODS, TRANSITIONS][usize::try_from(chance(4)).unwrap()]);
            if chance(10) == 0 {
                let _ = controller.turn(&mut cluster, Writing::Killed(usize::try_from(chance(4)).unwrap()));
                epoch += 1;
                controller = TestController::new(epoch, &cluster);
            } else {
                let _ = controller.turn(&mut cluster, Writing::All);
            }
            assert_safe(&cluster);
            if chance(3) > 0 {
                agents(&mut cluster);
            }
            assert_safe(&cluster);
        }
        for uid in &all {
            finish(&mut cluster, uid, "x");
            finish(&mut cluster, uid, "y");
        }
        turns(&mut cluster, &mut controller, 100);
        assert_over(&cluster);
    }
}
