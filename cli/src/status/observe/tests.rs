use std::sync::Arc;

use super::*;
use crate::scene::{
    idle, pod, restarting, rollout, with_annotation, with_event, with_grant, with_object, with_reservation, with_rule,
};
use crate::status::WorkloadStatus;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn web(snapshot: &Snapshot) -> WorkloadStatus {
    let mut report = observe(snapshot, now());
    assert_eq!(report.workloads.len(), 1);
    report.workloads.remove(0)
}

fn old(name: &str) -> Value {
    pod(name, "web:v1")
}

#[test]
fn a_pod_that_waits_says_which_rule_is_in_the_way() {
    let status = web(&with_rule(rollout(&[pod("a", "web:v2"), old("b")]), 0));
    assert_eq!((status.stage, status.held, status.updated, status.total), ("Rolling", true, 1, 2));
    assert_eq!(status.pods[0].state, State::UpToDate);
    let waiting = &status.pods[1];
    assert_eq!((waiting.state, waiting.blocked), (State::Waiting, true));
    assert!(waiting.why.starts_with("never/budget: "), "{}", waiting.why);
}

#[test]
fn without_a_rule_the_implicit_budget_lets_one_begin_and_the_other_wait() {
    let status = web(&rollout(&[old("a"), old("b")]));
    let blocked: Vec<bool> = status.pods.iter().map(|pod| pod.blocked).collect();
    assert_eq!(blocked, [false, true]);
    assert!(status.pods[0].why.contains("no rule"), "{}", status.pods[0].why);
    assert!(status.pods[1].why.starts_with("implicit: "), "{}", status.pods[1].why);
}

#[test]
fn where_no_rule_is_in_the_way_the_controllers_last_event_tells_unless_it_only_reports() {
    let base = rollout(&[old("a")]);
    let blocked = with_event(base.clone(), "RolloutBlocked", "no agent on node n1");
    assert_eq!(web(&blocked).pods[0].why, "RolloutBlocked: no agent on node n1");
    let held = with_event(blocked, "RolloutHeld", "revision x");
    assert!(!web(&held).pods[0].why.contains("no agent"));
}

#[test]
fn what_is_wrong_with_the_pod_itself_comes_first() {
    let mut ungated = old("a");
    ungated["spec"]["readinessGates"] = json!([]);
    ungated["metadata"]["annotations"]["hitless.dev/mode"] = json!("Leave");
    let status = web(&with_rule(rollout(&[ungated]), 0));
    assert!(status.pods[0].why.starts_with("NoReadinessGate"), "{}", status.pods[0].why);
    assert!(!status.pods[0].blocked);
}

#[test]
fn an_operation_shows_phase_connections_and_times() {
    let draining = json!({"id": "g", "phase": "Draining", "since": "2026-01-01T00:00:20.000000Z",
        "deadline": "2026-01-01T00:01:20.000000Z", "connections": 7, "message": "7 connections"});
    let status = web(&with_grant(rollout(&[old("a")]), "a", &draining));
    let pod = &status.pods[0];
    assert_eq!(pod.state, State::Running(Phase::Draining));
    assert_eq!((pod.connections, pod.elapsed_seconds, pod.deadline_seconds), (Some(7), Some(10), Some(50)));
    assert_eq!(pod.why, "7 connections");
}

#[test]
fn an_operation_says_whether_its_pod_is_held_and_why() {
    let holding = json!({"id": "g", "phase": "Holding", "since": "2026-01-01T00:00:20.000000Z"});
    let mut snapshot = with_grant(rollout(&[old("a")]), "a", &holding);
    let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
    (node.spec.grants[0].mode, node.spec.grants[0].mode_reason) =
        (hitless_api::GrantMode::Hold, "OnlyPod: no other".to_owned());
    assert_eq!(web(&snapshot).pods[0].why, "Hold (OnlyPod: no other)");
}

#[test]
fn a_grant_that_the_agent_has_not_seen_and_a_reservation_without_grant_are_told_apart() {
    let granted = web(&with_grant(rollout(&[old("a")]), "a", &Value::Null));
    assert_eq!((granted.pods[0].state, granted.pods[0].elapsed_seconds), (State::Running(Phase::Granted), Some(30)));
    assert_eq!(granted.pods[0].why, "the agent on node n1");
    let reserved = web(&with_reservation(rollout(&[old("a")]), "a"));
    assert_eq!((reserved.pods[0].state, reserved.pods[0].elapsed_seconds), (State::Reserved, Some(30)));
}

#[test]
fn a_rollback_halts_the_rollout_and_a_refusal_for_lateness_does_not() {
    let ended = |outcome: &str, reason: &str| {
        let transition = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:20.000000Z", "message": "exit 1",
            "result": {"outcome": outcome, "reason": reason}});
        web(&with_grant(rollout(&[old("a"), old("b")]), "a", &transition))
    };
    let rolled_back = ended("RolledBack", "CrashLoopBackOff");
    assert!(rolled_back.pods[0].halts && rolled_back.why.contains("a ended as RolledBack"), "{}", rolled_back.why);
    assert_eq!(rolled_back.stage, "Halted", "nobody goes any more");
    assert!(rolled_back.why.contains("kubectl hitless undo -n team deployment/web"), "{}", rolled_back.why);
    assert_eq!(rolled_back.pods[0].why, "CrashLoopBackOff: exit 1");
    for reason in ["Expired", "NodeUIDMismatch"] {
        let refused = ended("Refused", reason);
        assert!(!refused.pods[0].halts && refused.why.is_empty(), "{reason}");
    }
}

#[test]
fn a_change_that_can_not_be_made_in_place_is_named_by_its_field() {
    let snapshot = with_object(rollout(&[old("a")]), 0, |deployment| {
        deployment["spec"]["template"]["spec"]["hostPID"] = true.into();
        deployment["metadata"]["annotations"]["hitless.dev/update"] = "in-place-only".into();
    });
    let status = web(&snapshot);
    assert_eq!(status.stage, "Refused");
    assert!(status.why.contains("hostPID"), "{}", status.why);
    assert_eq!((status.updated, status.total), (0, 1));
    assert_eq!(status.pods[0].state, State::Waiting, "it has not what its workload says");
}

#[test]
fn only_what_has_opted_in_or_is_operated_is_shown() {
    let mut snapshot = with_object(rollout(&[old("a")]), 0, |deployment| {
        deployment["metadata"]["annotations"] = json!({});
    });
    assert!(observe(&snapshot, now()).workloads.is_empty());
    let mut wanted = old("a");
    wanted["metadata"]["annotations"] = json!({"hitless.dev/restart": "1"});
    snapshot.cluster.pods = rollout(&[wanted.clone()]).cluster.pods;
    assert_eq!(web(&snapshot).pods[0].state, State::Waiting);
    wanted["metadata"]["ownerReferences"] = json!([]);
    snapshot.cluster.pods = rollout(&[wanted]).cluster.pods;
    assert_eq!(web(&snapshot).name, "pod/a");
}

#[test]
fn while_a_container_does_not_run_the_kubelets_words_are_there() {
    let operating = json!({"id": "g", "phase": "Operating", "since": "2026-01-01T00:00:20.000000Z"});
    let said = |state: &Value, ready: bool| {
        let mut pod = pod("a", "web:v2");
        pod["status"]["containerStatuses"] = json!([{"name": "web", "image": "web:v2", "imageID": "", "ready": ready,
            "restartCount": 0, "state": state}]);
        web(&with_grant(rollout(&[pod]), "a", &operating)).pods[0].why.clone()
    };
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "web:nope: not found"}});
    assert_eq!(said(&waiting, false), "kubelet: web: ErrImagePull: web:nope: not found");
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:21Z"}});
    assert_eq!(said(&running, false), "kubelet: web runs and is not ready");
    assert_eq!(said(&running, true), "");
}

#[test]
fn a_pod_whose_image_was_only_patched_is_not_updated() {
    let mut patched = pod("a", "web:v2");
    patched["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let status = web(&rollout(&[patched, old("b")]));
    assert_eq!((status.updated, status.total), (0, 2));
    let operating = json!({"id": "g", "phase": "Operating", "since": "2026-01-01T00:00:20.000000Z"});
    let status = web(&with_grant(rollout(&[pod("a", "web:v2"), old("b")]), "a", &operating));
    assert_eq!((status.updated, status.total, status.progress.as_str()), (0, 2, "1 under way, 1 wait"));
    assert_eq!(web(&rollout(&[pod("a", "web:v2"), old("b")])).updated, 1);
}

#[test]
fn a_misspelt_opt_in_is_named() {
    let snapshot = with_object(rollout(&[old("a")]), 0, |deployment| {
        deployment["metadata"]["annotations"] = json!({"hitless.dev/update": "inplace"});
    });
    let status = web(&snapshot);
    assert_eq!(status.stage, "NotOptedIn");
    assert!(
        status.why.contains("\"inplace\"") && status.why.contains("write in-place, in-place-only or native"),
        "{}",
        status.why
    );
}

#[test]
fn what_keeps_its_pods_from_being_operated_is_said_before_anything_is_wished() {
    let faulty = |name: &str, image: &str| {
        let mut pod = pod(name, image);
        pod["metadata"]["annotations"]["hitless.dev/mode"] = json!("hold");
        pod
    };
    let words = r#"InvalidDrain: annotation hitless.dev/mode is "hold"; use Auto, Leave or Hold; correct it"#;
    let done = web(&rollout(&[faulty("a", "web:v2")]));
    assert!(done.why.contains(words), "{}", done.why);
    // Then the pods say it.
    let rolling = web(&rollout(&[faulty("a", "web:v1")]));
    assert!(
        rolling.pods[0].why.starts_with(words) && rolling.why.is_empty(),
        "{} {}",
        rolling.pods[0].why,
        rolling.why
    );
}

#[test]
fn while_pods_are_restarted_the_stage_says_so_and_counts_those() {
    let status = web(&restarting());
    assert_eq!((status.stage, status.count("")), ("Restarting", "1 of 3 restarted".to_owned()));
    assert_eq!(status.progress, "1 under way, 1 wait");
    let foreign = with_object(restarting(), 0, |deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
    });
    let status = web(&foreign);
    assert_eq!((status.stage, status.driven), ("Restarting", false));
    let mut wanting = old("a");
    wanting["metadata"]["annotations"] = json!({"hitless.dev/restart": "token"});
    let status = web(&with_annotation(idle(&[wanting]), "hitless.dev/paused", "true"));
    assert_eq!((status.stage, status.count("")), ("Paused", "0 of 1 restarted".to_owned()));
    assert!(status.why.contains("kubectl hitless resume -n team deployment/web"), "{}", status.why);
}

#[test]
fn where_something_is_done_to_a_pod_the_workload_is_not_idle() {
    let idle = idle(&[pod("a", "web:v2"), pod("b", "web:v2")]);
    assert_eq!(web(&idle).stage, "Idle");
    assert_eq!(web(&with_reservation(idle.clone(), "a")).stage, "Operating");
    let mut others = with_grant(idle, "a", &Value::Null);
    Arc::make_mut(others.cluster.node_transitions.get_mut("n1").unwrap()).spec.grants[0].op = GrantOp::Foreign;
    let status = web(&others);
    assert_eq!((status.stage, status.restart), ("Operating", None));
}

#[test]
fn a_rollout_says_that_all_pods_have_its_version_only_once_they_have() {
    let draining = json!({"id": "g", "phase": "Operating", "since": "2026-01-01T00:00:20.000000Z"});
    let brought = |name: &str| crate::scene::brought(pod(name, "web:v2"), "web:v2");
    let status = web(&with_grant(rollout(&[brought("a")]), "a", &draining));
    assert_eq!((status.stage, status.updated, status.total), ("Finishing", 0, 1));
    assert_eq!(status.why, "no pod waits any more; 1 is still being brought to its version");
    let status = web(&rollout(&[brought("a")]));
    assert_eq!((status.stage, status.updated), ("Finishing", 1));
    assert_eq!(status.why, "all pods have its version, and the workload's own objects follow");
}

#[test]
fn a_companion_pod_that_leaves_takes_nothing_from_those_that_have_the_version() {
    let mut companion = pod("web-companion", "web:v2");
    companion["metadata"]["labels"]["hitless.dev/companion"] = json!("key");
    companion["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "deployment", "controller": true}]);
    companion["status"]["conditions"] = json!([{"type": "hitless.dev/InService", "status": "False"}]);
    let all = [pod("a", "web:v2"), companion];
    let snapshot = with_object(idle(&all), 0, |deployment| deployment["spec"]["replicas"] = json!(1));
    let status = web(&with_grant(snapshot, "web-companion", &Value::Null));
    assert_eq!((status.updated, status.total), (1, 1), "{status:?}");
}
