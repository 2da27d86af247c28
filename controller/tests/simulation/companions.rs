//! Stories of companion pods.

use std::sync::Arc;

use hitless_api::{Grant, GrantMode, GrantOp, Outcome, Phase};
use hitless_rollout::snapshot::{AgentState, NodeView};
use hitless_workloads::Template;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::node::Fate;
use crate::scenarios::turns;
use crate::test_controller::{ALL, TestController};

fn reasons(cluster: &Cluster, controller: &mut TestController) -> Vec<&'static str> {
    controller.refresh(cluster, ALL);
    controller.said(cluster.now).into_iter().map(|(reason, _)| reason).collect()
}

/// A single pod behind a Service, changed; its companion is made.
fn changed() -> (Cluster, TestController) {
    let mut cluster = Cluster::new(1, 1).service("web").with_companions();
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 6);
    assert_eq!(cluster.companions.len(), 1);
    assert_eq!(reasons(&cluster, &mut controller), ["Companion"]);
    assert!(cluster.grants().is_empty());
    (cluster, controller)
}

fn crashed() -> Value {
    json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}})
}

/// Started at the first second, ready at this one.
fn ready(cluster: &mut Cluster, second: u8, more: &Value) {
    let conditions = json!([{"type": "ContainersReady", "status": "True", "lastTransitionTime": format!("2026-11-22T00:00:{second:02}Z")}]);
    let conditions: Vec<Value> =
        [conditions, more.clone()].iter().flat_map(|list| list.as_array().unwrap().clone()).collect();
    cluster.companion_is(&json!({"running": {"startedAt": "2026-11-22T00:00:01Z"}}), &json!(conditions));
}

#[test]
fn a_version_that_does_not_run_takes_nobody_out_and_goes_on_once_it_runs() {
    let (mut cluster, mut controller) = changed();
    cluster.companion_is(&crashed(), &json!([]));
    turns(&mut cluster, &mut controller, 5);
    assert_eq!(reasons(&cluster, &mut controller), ["CompanionFailed"]);
    assert!(cluster.grants().is_empty());
    // It runs now. A start of no time says nothing of how long the pod takes to stop: the companion serves meanwhile.
    cluster.pass(10_000);
    ready(&mut cluster, 1, &json!([]));
    turns(&mut cluster, &mut controller, 2);
    assert_eq!((cluster.written["in-service-fallback"], cluster.companions.len()), (1, 1));
    serves(&mut cluster);
    turns(&mut cluster, &mut controller, 2);
    let grants = cluster.grants();
    assert_eq!((grants.len(), &grants[0].mode, &grants[0].op), (1, &GrantMode::Leave, &GrantOp::Update));
    assert!(grants[0].mode_reason.starts_with("Companion"), "{}", grants[0].mode_reason);
}

/// What was learned of gaps makes no difference to a companion that is there.
#[test]
fn a_companion_that_is_ready_is_not_deleted_before_the_pod_has_its_version_however_short_gaps_were() {
    let mut cluster = Cluster::new(1, 1).service("web").with_companions();
    cluster.deployment["metadata"]["annotations"]["hitless.dev/gap"] = json!("{\"r\": 300}");
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 6);
    ready(&mut cluster, 1, &json!([]));
    cluster.pass(10_000);
    turns(&mut cluster, &mut controller, 2);
    serves(&mut cluster);
    turns(&mut cluster, &mut controller, 2);
    let grant = cluster.grants().pop().unwrap();
    assert!(grant.mode == GrantMode::Leave && grant.mode_reason.starts_with("Companion"), "{grant:?}");
    for _ in 0..6 {
        assert!(cluster.companions.len() == 1 && cluster.grants().iter().all(|grant| grant.op != GrantOp::Drain));
        if cluster.images().iter().all(|image| image.ends_with(":v2")) {
            break;
        }
        let _ = cluster.agent(0, Fate::Done);
        turns(&mut cluster, &mut controller, 1);
    }
}

#[test]
fn where_no_companion_may_serve_a_single_pod_goes_natively_or_waits_for_a_wish() {
    let never = |update: &str| {
        let mut cluster = Cluster::new(1, 1).service("web").with_companions();
        cluster.deployment["metadata"]["annotations"] =
            json!({"hitless.dev/update": update, "hitless.dev/companion": "Never"});
        let controller = TestController::new(1, &cluster);
        cluster.set_image(2);
        (cluster, controller)
    };
    let (mut cluster, mut controller) = never("in-place");
    let way = |cluster: &Cluster| {
        cluster.deployment["metadata"]["annotations"]["hitless.dev/way"].as_str().map(str::to_owned)
    };
    let said = (0..10).find_map(|_| {
        turns(&mut cluster, &mut controller, 1);
        way(&cluster)
    });
    let said = said.unwrap();
    assert!(said.contains("hitless.dev/companion is Never") && said.contains("is not known"), "{said}");
    assert!(cluster.grants().is_empty());

    let (mut cluster, mut controller) = never("in-place-only");
    turns(&mut cluster, &mut controller, 8);
    assert!(cluster.grants().is_empty() && way(&cluster).is_none());
    controller.refresh(&cluster, ALL);
    let said = controller.said(cluster.now);
    assert!(said.iter().any(|(reason, text)| *reason == "LossExpected" && text.contains("wish a mode")), "{said:?}");
    for pod in cluster.pods.values_mut() {
        pod["metadata"]["annotations"]["hitless.dev/mode"] = json!("Hold");
    }
    turns(&mut cluster, &mut controller, 8);
    let grant = cluster.grants().pop().unwrap();
    assert!(grant.mode == GrantMode::Hold && grant.mode_reason.starts_with("Wished"), "{grant:?}");

    // A gap that was seen to be short needs neither.
    let (mut cluster, mut controller) = never("in-place");
    cluster.deployment["metadata"]["annotations"]["hitless.dev/gap"] = json!("{\"r\": 300}");
    turns(&mut cluster, &mut controller, 8);
    let grant = cluster.grants().pop().unwrap();
    assert!(grant.mode == GrantMode::Hold && grant.mode_reason.starts_with("ShortGap"), "{grant:?}");
}

fn way(cluster: &Cluster) -> Option<String> {
    cluster.deployment["metadata"]["annotations"]["hitless.dev/way"].as_str().map(str::to_owned)
}

/// The words with which the only pod is left to its native controller, and is not operated before.
fn goes_natively(cluster: &mut Cluster, controller: &mut TestController) -> Option<String> {
    (0..20).find_map(|_| {
        turns(cluster, controller, 1);
        assert!(cluster.grants().is_empty());
        way(cluster)
    })
}

/// The new pod fetches its image itself.
#[test]
fn for_a_single_pod_that_goes_natively_nothing_is_fetched_before() {
    let mut cluster = Cluster::new(1, 1).service("web").with_companions().without_images();
    cluster.deployment["metadata"]["annotations"] =
        json!({"hitless.dev/update": "in-place", "hitless.dev/companion": "Never"});
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let said = (0..10).find_map(|_| {
        turns(&mut cluster, &mut controller, 1);
        assert!(cluster.prefetches.is_empty());
        way(&cluster)
    });
    assert!(said.is_some_and(|said| said.contains("hitless.dev/companion is Never")));
}

#[test]
fn where_no_node_has_room_for_its_companion_a_single_pod_serves_on_until_natively_one_has() {
    let (mut cluster, mut controller) = changed();
    for pod in cluster.companions.values_mut() {
        pod["spec"]["nodeName"] = Value::Null;
        pod["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available"}]});
    }
    cluster.pass(31_000);
    let said = goes_natively(&mut cluster, &mut controller);
    assert!(said.is_some_and(|said| said.contains("no node has room for it")));
}

/// It would never leave service again: no agent could drain it.
#[test]
fn a_companion_on_a_node_without_an_agent_does_not_serve_and_its_pod_goes_natively() {
    let (mut cluster, mut controller) = changed();
    cluster.agents.insert("n1".to_owned(), AgentState::Never);
    cluster.pass(10_000);
    let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T00:00:01Z"}]);
    ready(&mut cluster, 1, &bound);
    for _ in 0..2 {
        turns(&mut cluster, &mut controller, 2);
        assert_eq!(cluster.companions.len(), 1, "an agent may be late, and is away while it is updated");
        cluster.pass(30_000);
    }
    let said = goes_natively(&mut cluster, &mut controller);
    assert!(said.is_some_and(|said| said.contains("it was put on node n1, which has no agent that could drain it")));
    assert!(!cluster.written.contains_key("in-service-fallback") && cluster.companions.is_empty());
}

/// Its name is taken, and nothing ends it before somebody deletes the Node.
#[test]
fn a_companion_that_is_being_deleted_on_a_node_that_does_not_answer_is_not_waited_for() {
    let (mut cluster, mut controller) = changed();
    cluster.companion_is(&json!({"running": {"startedAt": "2026-11-22T00:00:01Z"}}), &json!([]));
    for pod in cluster.companions.values_mut() {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:02Z");
    }
    let mut node = NodeView::clone(&cluster.nodes["n1"]);
    node.not_ready_since = Some(cluster.now);
    cluster.nodes.insert("n1".to_owned(), Arc::new(node));
    cluster.agents.insert("n1".to_owned(), AgentState::MissingSince(cluster.now));
    turns(&mut cluster, &mut controller, 3);
    assert_eq!(reasons(&cluster, &mut controller), ["Companion"], "the node may be back in a moment");
    cluster.pass(61_000);
    let said = goes_natively(&mut cluster, &mut controller);
    assert!(said.is_some_and(|said| said.contains("being deleted on node n1, which does not answer")));
}

#[test]
fn a_version_that_does_not_run_is_not_rolled_out_because_the_workload_gets_more_pods() {
    let (mut cluster, mut controller) = changed();
    cluster.companion_is(&crashed(), &json!([]));
    cluster.deployment["spec"]["replicas"] = json!(2);
    turns(&mut cluster, &mut controller, 5);
    assert!(cluster.grants().is_empty());
    assert!(reasons(&cluster, &mut controller).contains(&"CompanionFailed"));
    // Nor once it was given up.
    cluster.pass(600_000);
    turns(&mut cluster, &mut controller, 5);
    assert!(cluster.companions.is_empty() && cluster.grants().is_empty());
    assert!(reasons(&cluster, &mut controller).contains(&"CompanionFailed"));
}

#[test]
fn another_version_ends_the_companion_of_the_one_before() {
    let (mut cluster, mut controller) = changed();
    cluster.companion_is(&crashed(), &json!([]));
    let first: Vec<String> = cluster.companions.keys().cloned().collect();
    cluster.set_image(3);
    turns(&mut cluster, &mut controller, 6);
    let second: Vec<String> = cluster.companions.keys().cloned().collect();
    assert!(second.len() == 1 && first != second, "{first:?} {second:?}");
    cluster.set_image(1);
    turns(&mut cluster, &mut controller, 6);
    assert!(cluster.companions.is_empty(), "nothing is to be done any more");
}

#[test]
fn one_that_never_runs_is_given_up_with_the_deadline_of_its_owner() {
    let (mut cluster, mut controller) = changed();
    cluster.companion_is(&crashed(), &json!([]));
    cluster.pass(600_000);
    turns(&mut cluster, &mut controller, 3);
    assert!(cluster.companions.is_empty());
    assert_eq!(reasons(&cluster, &mut controller), ["CompanionFailed"]);
    let tried = cluster.deployment["metadata"]["annotations"]["hitless.dev/tried"].as_str().unwrap();
    assert!(tried.contains(r#""outcome":"Bad""#) && tried.contains("CrashLoopBackOff"), "{tried}");
    turns(&mut cluster, &mut controller, 5);
    assert!(cluster.companions.is_empty() && cluster.grants().is_empty());
}

#[test]
fn one_that_starts_slowly_serves_while_the_pod_is_away_and_is_drained_then() {
    let (mut cluster, mut controller) = changed();
    cluster.pass(30_000);
    ready(&mut cluster, 21, &json!([]));
    turns(&mut cluster, &mut controller, 1);
    assert_eq!(cluster.written["in-service-fallback"], 1);
    assert!(cluster.grants().is_empty(), "not before it is Ready");
    let in_service = |status: &str| json!([{"type": "Ready", "status": status}, {"type": "hitless.dev/InService", "status": status}]);
    ready(&mut cluster, 21, &in_service("True"));
    turns(&mut cluster, &mut controller, 2);
    let grants = cluster.grants();
    assert_eq!((grants.len(), &grants[0].mode), (1, &GrantMode::Leave), "{grants:?}");
    assert!(grants[0].mode_reason.starts_with("Companion"), "{}", grants[0].mode_reason);
    for _ in 0..12 {
        let _ = cluster.agent(0, Fate::Done);
        turns(&mut cluster, &mut controller, 1);
        if cluster.grants().iter().any(|grant| grant.op == GrantOp::Drain) {
            break;
        }
    }
    let drain = cluster.grants().into_iter().find(|grant| grant.op == GrantOp::Drain).unwrap();
    assert!(drain.pod.name.contains("-companion-"), "{drain:?}");
    ready(&mut cluster, 21, &in_service("False"));
    turns(&mut cluster, &mut controller, 3);
    assert_eq!(cluster.companions.len(), 1, "its connections are not gone yet");
    cluster.report(&drain, Phase::Draining, Some((Outcome::Done, "Done")));
    turns(&mut cluster, &mut controller, 4);
    assert!(cluster.companions.is_empty());
    assert!(cluster.grants().is_empty(), "it is gone: {:?}", cluster.grants());
}

#[test]
fn a_version_that_is_known_needs_a_companion_where_the_pod_is_away_for_long_and_none_where_it_is_not() {
    for (gap, made) in [(9000, 1), (300, 0)] {
        let mut cluster = Cluster::new(1, 1).service("web").with_companions();
        let mut controller = TestController::new(1, &cluster);
        cluster.set_image(2);
        let revision = Template::new(cluster.deployment["spec"]["template"].clone()).revision().to_owned();
        cluster.deployment["metadata"]["annotations"]["hitless.dev/gap"] = json!(json!({revision: gap}).to_string());
        turns(&mut cluster, &mut controller, 6);
        assert_eq!((cluster.companions.len(), cluster.grants().len()), (made, 1 - made), "{gap}");
        let version = |cluster: &Cluster| -> Vec<Value> {
            cluster.companions.values().map(|pod| pod["metadata"]["resourceVersion"].clone()).collect()
        };
        let before = version(&cluster);
        turns(&mut cluster, &mut controller, 4);
        assert_eq!(before, version(&cluster), "it is not made again and again");
    }
}

/// The companion is in service and Ready.
fn serves(cluster: &mut Cluster) {
    let in_service = json!([{"type": "Ready", "status": "True"}, {"type": "hitless.dev/InService", "status": "True"}]);
    ready(cluster, 1, &in_service);
}

#[test]
fn where_a_disruption_budget_lets_nobody_go_a_companion_that_serves_makes_room_for_one_after_the_other() {
    for spec in [json!({"minAvailable": 2}), json!({"minAvailable": "100%"}), json!({"maxUnavailable": 0})] {
        let mut cluster = Cluster::new(2, 1).service("web").with_companions().disruption_budget(&spec);
        let mut controller = TestController::new(1, &cluster);
        cluster.set_image(2);
        turns(&mut cluster, &mut controller, 6);
        assert_eq!((cluster.companions.len(), cluster.grants().len()), (1, 0), "{spec}");
        assert_eq!(reasons(&cluster, &mut controller), ["Companion", "Companion"], "{spec}");
        cluster.pass(10_000);
        ready(&mut cluster, 1, &json!([]));
        turns(&mut cluster, &mut controller, 1);
        assert_eq!(cluster.written["in-service-fallback"], 1, "{spec}");
        assert!(cluster.grants().is_empty(), "not before it is Ready");
        serves(&mut cluster);
        for _ in 0..40 {
            turns(&mut cluster, &mut controller, 2);
            assert!(cluster.grants().len() <= 1, "{spec}: {:?}", cluster.grants());
            let Some(grant) = cluster.grants().first().cloned() else { continue };
            if grant.op == GrantOp::Drain {
                assert!(cluster.images().iter().all(|image| image.ends_with(":v2")), "{spec}: {:?}", cluster.images());
                drained(&mut cluster, &grant);
            } else {
                let _ = cluster.agent(0, Fate::Done);
            }
        }
        turns(&mut cluster, &mut controller, 6);
        assert!(cluster.companions.is_empty(), "{spec} {:?}", cluster.grants());
        cluster.assert_at_rest();
    }
}

/// The companion has left service, and its connections are gone.
fn drained(cluster: &mut Cluster, grant: &Grant) {
    let in_service =
        json!([{"type": "Ready", "status": "False"}, {"type": "hitless.dev/InService", "status": "False"}]);
    ready(cluster, 1, &in_service);
    cluster.report(grant, Phase::Draining, Some((Outcome::Done, "Done")));
}

#[test]
fn a_budget_that_one_pod_more_does_not_satisfy_makes_no_companion() {
    let spec = json!({"minAvailable": 5});
    let mut cluster = Cluster::new(2, 1).service("web").with_companions().disruption_budget(&spec);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 6);
    assert!(cluster.companions.is_empty() && cluster.grants().is_empty());
}
