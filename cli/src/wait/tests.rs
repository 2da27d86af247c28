use super::*;
use crate::scene::{idle, pod, rollout, with_annotation, with_grant, with_object, with_rule};
use crate::snapshot::Controller;
use serde_json::{Value, json};

const ON: &str = "-n team deployment/web";

fn target() -> Target {
    "deployment/web".parse().unwrap()
}

fn found(snapshot: &Snapshot) -> WorkloadStatus {
    find(snapshot, &target(), Timestamp::now()).unwrap()
}

/// The same with the Deployment changed.
fn with(snapshot: Snapshot, change: impl FnOnce(&mut Value)) -> Snapshot {
    with_object(snapshot, 0, change)
}

/// All pods updated, the pause lifted, the live ReplicaSet at the exact target.
fn finished() -> Snapshot {
    idle(&[pod("a", "web:v2"), pod("b", "web:v2")])
}

#[test]
fn done_means_lifted_updated_complete_and_ready() {
    assert!(done(&found(&finished())).unwrap());
    assert!(!done(&found(&rollout(&[pod("a", "web:v2")]))).unwrap(), "still held");
    assert!(!done(&found(&rollout(&[pod("a", "web:v1")]))).unwrap(), "not updated");
    assert!(
        !done(&found(&with(finished(), |deployment| deployment["spec"]["replicas"] = json!(3)))).unwrap(),
        "one is missing"
    );
    let mut unready = finished();
    let mut view = hitless_api::pod::PodView::clone(&unready.cluster.pods[0]);
    view.conditions.clear();
    unready.cluster.pods[0] = view.into();
    assert!(!done(&found(&unready)).unwrap());
}

#[test]
fn a_pod_that_is_being_deleted_is_not_waited_for_once_all_others_are_there() {
    let mut leaving = pod("c", "web:v1");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    let of = |pods: &[Value]| with(idle(pods), |deployment| deployment["spec"]["replicas"] = json!(2));
    assert!(done(&found(&of(&[pod("a", "web:v2"), pod("b", "web:v2"), leaving.clone()]))).unwrap());
    assert!(!done(&found(&of(&[pod("a", "web:v2"), leaving]))).unwrap(), "its replacement is not there");
}

#[test]
fn a_native_rollout_that_has_not_got_on_in_time_fails_as_kubectls_own_wait_does() {
    let native = |reason: &str, observed: i64| {
        with(idle(&[pod("a", "web:v1")]), |deployment| {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:v3");
            deployment["metadata"]["generation"] = json!(7);
            deployment["status"] = json!({"observedGeneration": observed, "conditions": [
                {"type": "Progressing", "status": "False", "reason": reason, "message": "ReplicaSet has timed out"}]});
        })
    };
    let failure = done(&found(&native("ProgressDeadlineExceeded", 7))).unwrap_err();
    assert_eq!(
        (failure.code(), failure.to_string().contains("has not got on in time: ReplicaSet has timed out")),
        (1, true)
    );
    assert!(!done(&found(&native("ProgressDeadlineExceeded", 6))).unwrap(), "that is about the one before");
    assert!(!done(&found(&native("ReplicaSetUpdated", 7))).unwrap());
}

#[test]
fn a_halted_or_refused_rollout_fails_at_once() {
    let ended = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:00.000000Z",
        "result": {"outcome": "Failed", "reason": "AdmissionDenied"}});
    let failure = done(&found(&with_grant(rollout(&[pod("a", "web:v1")]), "a", &ended))).unwrap_err();
    assert_eq!(failure.code(), 1);
    assert!(failure.to_string().contains("AdmissionDenied"), "{failure}");
}

#[test]
fn who_has_not_opted_in_is_sent_to_kubectl() {
    let snapshot = with(rollout(&[pod("a", "web:v1")]), |deployment| deployment["metadata"]["annotations"] = json!({}));
    assert!(
        find(&snapshot, &target(), Timestamp::now())
            .unwrap_err()
            .to_string()
            .contains("kubectl rollout status -n team deployment/web")
    );
    assert!(
        find(&Snapshot::default(), &target(), Timestamp::now()).unwrap_err().to_string().contains("does not exist")
    );
}

#[test]
fn out_of_time_is_blocked_only_if_a_rule_stops_everything() {
    let blocked = found(&with_rule(rollout(&[pod("a", "web:v1")]), 0));
    let failure = late("deployment/web", ON, blocked.pods.iter());
    assert_eq!(failure.code(), 3);
    assert!(failure.to_string().contains("never/budget"), "{failure}");
    assert!(summary(&blocked).contains("a Waiting: never/budget"), "{}", summary(&blocked));
    let draining = json!({"id": "g", "phase": "Draining", "since": "2026-01-01T00:00:00.000000Z"});
    let moving = found(&with_grant(with_rule(rollout(&[pod("a", "web:v1"), pod("b", "web:v1")]), 1), "a", &draining));
    assert_eq!(late("deployment/web", ON, moving.pods.iter()).code(), 4);
    assert_eq!(late("the restart", ON, std::iter::empty()).code(), 4);
}

#[test]
fn out_of_time_without_a_controller_says_so() {
    let said = |max_unavailable, controller| {
        let snapshot = with_rule(rollout(&[pod("a", "web:v1")]), max_unavailable);
        let snapshot = Snapshot { controller, ..snapshot };
        let failure = with_trouble(late("deployment/web", ON, found(&snapshot).pods.iter()), &snapshot);
        (failure.code(), failure.to_string())
    };
    let (code, text) = said(1, Controller::ScaledToZero);
    assert_eq!(code, 4);
    assert!(
        text.contains("Waiting: a controller, and none runs; no rule is in the way; no controller runs: "),
        "{text}"
    );
    let (code, text) = said(0, Controller::Absent);
    assert_eq!(code, 3);
    assert!(text.contains("never/budget") && text.contains("no controller runs: "), "{text}");
    assert!(!said(1, Controller::Unknown).1.contains("runs"));
}

#[test]
fn a_paused_rollout_is_not_waited_for_once_nothing_is_under_way() {
    let paused = |snapshot| with_annotation(snapshot, "hitless.dev/paused", "true");
    let snapshot = paused(rollout(&[pod("a", "web:v1"), pod("b", "web:v1")]));
    let failure = done(&found(&snapshot)).unwrap_err();
    assert_eq!(failure.code(), 3);
    assert!(failure.to_string().contains("kubectl hitless resume -n team deployment/web"), "{failure}");
    let draining = json!({"id": "g", "phase": "Draining", "since": "2026-01-01T00:00:00.000000Z"});
    assert!(!done(&found(&with_grant(snapshot, "a", &draining))).unwrap(), "the operation under way ends");
    assert!(done(&found(&paused(finished()))).unwrap(), "there is nothing to wait for");
}

#[test]
fn a_reason_is_said_once_however_many_pods_have_it() {
    let pods: Vec<Value> = (0..5).map(|number| pod(&format!("web-{number}"), "web:v1")).collect();
    let blocked = found(&with_rule(rollout(&pods), 0));
    let text = late("deployment/web", ON, blocked.pods.iter()).to_string();
    assert_eq!(text.matches("never/budget").count(), 1, "{text}");
    assert!(text.contains("web-0, web-1, web-2 and 2 more Waiting") && !text.contains("make other pods"), "{text}");
}

#[test]
fn a_deployment_that_was_made_paused_is_not_waited_for() {
    let snapshot = with(rollout(&[]), |deployment| {
        deployment["spec"]["replicas"] = json!(2);
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    });
    let without_set = vec![snapshot.objects[0].clone()];
    let failure = done(&found(&snapshot.with_objects(without_set))).unwrap_err();
    assert_eq!(failure.code(), 3);
    assert!(failure.to_string().contains("kubectl rollout resume"), "{failure}");
}

#[test]
fn of_a_native_rollout_the_pods_that_are_wished_count() {
    let snapshot = with(finished(), |deployment| {
        deployment["spec"]["replicas"] = json!(3);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:v3");
    });
    let workload = found(&snapshot);
    assert_eq!((workload.stage, workload.updated, workload.total), ("Native", 0, 3));
    // The old pods are two, the new one is the first of three.
    let mut objects = snapshot.objects.clone();
    let mut new = objects[1].raw.clone();
    new["metadata"]["name"] = json!("web-new");
    new["metadata"]["uid"] = json!("new");
    new["spec"]["replicas"] = json!(1);
    new["spec"]["template"] = objects[0].raw["spec"]["template"].clone();
    objects.push(crate::snapshot::WorkloadObject::of(new).unwrap().into());
    let mut snapshot = snapshot.with_objects(objects);
    let mut third = pod("c", "web:v3");
    third["metadata"]["ownerReferences"][0]["uid"] = json!("new");
    snapshot.cluster.pods.push(crate::scene::view(&third).into());
    let workload = found(&snapshot);
    assert_eq!((workload.stage, workload.updated, workload.total), ("Native", 1, 3));
    assert!(!done(&workload).unwrap());
}

#[test]
fn the_result_of_another_version_is_no_failure_of_this_one() {
    let ended = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:00.000000Z",
        "result": {"outcome": "RolledBack", "reason": "ProgressDeadlineExceeded"}});
    let bad = with_grant(rollout(&[pod("a", "web:v1")]), "a", &ended);
    assert!(done(&found(&bad)).is_err());
    let mended =
        with(bad, |deployment| deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:v3"));
    assert!(!done(&found(&mended)).unwrap(), "it has only begun");
}

#[test]
fn what_only_a_change_helps_is_told_from_what_may_pass() {
    let code = |snapshot: Snapshot| stuck(&found(&snapshot)).map(|failure| (failure.code(), failure.to_string()));
    let old = || rollout(&[pod("a", "web:v1"), pod("b", "web:v1")]);
    let (never, text) = code(with_rule(old(), 0)).unwrap();
    assert_eq!(never, 3);
    assert!(text.contains("never/budget") && text.ends_with("kubectl hitless why -n team deployment/web"), "{text}");
    assert_eq!(code(old()), None, "nothing is in the way");
    let mut invalid = pod("a", "web:v1");
    invalid["metadata"]["annotations"] = json!({"hitless.dev/drain": "soon"});
    assert_eq!(code(rollout(&[invalid.clone()])).unwrap().0, 3);
    assert_eq!(code(rollout(&[invalid, pod("b", "web:v1")])), None, "the other one goes on");
    let window = json!({"selector": {}, "windows": [{"start": "09:00", "end": "09:01", "timeZone": "UTC"}]});
    assert_eq!(code(crate::scene::with_budget(old(), "office", "team", &window)), None, "time helps");
    // Another pod is down, and may come back.
    let mut down = pod("b", "web:v2");
    down["status"]["conditions"] = json!([]);
    let is_down = with_rule(rollout(&[pod("a", "web:v1"), down]), 1);
    let failure = late("deployment/web", ON, found(&is_down).pods.iter());
    assert_eq!(code(is_down), None);
    assert_eq!(failure.code(), 4, "{failure}");
    assert!(!failure.to_string().contains("waiting alone"), "{failure}");
    let draining = json!({"id": "g", "phase": "Draining", "since": "2026-01-01T00:00:00.000000Z"});
    assert_eq!(code(with_grant(with_rule(old(), 0), "a", &draining)), None, "an operation is under way");
}

#[test]
fn before_the_controller_has_prepared_a_rollout_nothing_is_stuck() {
    let new = with(with_rule(finished(), 0), |deployment| {
        deployment["spec"]["paused"] = true.into();
        deployment["metadata"]["annotations"]["hitless.dev/rollout"] = json!("held");
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:v3");
    });
    let workload = found(&new);
    assert_eq!((workload.stage, done(&workload).unwrap()), ("Rolling", false));
    assert!(stuck(&workload).is_none(), "{:?}", workload.pods);
}

#[test]
fn a_refused_change_waits_for_somebody() {
    let snapshot = with(rollout(&[pod("a", "web:v1")]), |deployment| {
        deployment["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
        deployment["spec"]["template"]["spec"]["hostPID"] = json!(true);
    });
    let failure = done(&found(&snapshot)).unwrap_err();
    assert_eq!(failure.code(), 3, "{failure}");
}

#[test]
fn a_restart_is_no_update() {
    let workload = found(&crate::scene::restarting());
    assert!(!done(&workload).unwrap() && stuck(&workload).is_none());
    let text = summary(&workload);
    assert!(
        text.starts_with("deployment/web: 1 of 3 pods restarted, web-1 Granted, web-2 Waiting: implicit"),
        "{text}"
    );
}
