use super::*;
use crate::scene::{pod, rollout, view, with_grant};
use std::time::Duration;

fn arguments(target: &str, containers: &[&str]) -> RestartArgs {
    RestartArgs {
        target: target.parse().unwrap(),
        containers: containers.iter().map(ToString::to_string).collect(),
        job: false,
        new_pods: false,
        wait: false,
        timeout: Duration::ZERO,
    }
}

fn refusal(snapshot: &Snapshot, target: &str, containers: &[&str]) -> (u8, String) {
    let failure = select(snapshot, "team", &arguments(target, containers)).unwrap_err();
    (failure.code(), failure.to_string())
}

#[test]
fn a_deployment_means_all_its_pods_and_a_pod_only_itself() {
    let snapshot = rollout(&[pod("b", "web:v1"), pod("a", "web:v1")]);
    let names = |target| -> Vec<String> {
        select(&snapshot, "team", &arguments(target, &[])).unwrap().iter().map(|pod| pod.id.name.clone()).collect()
    };
    assert_eq!(names("deployment/web"), ["a", "b"]);
    assert_eq!(names("pod/b"), ["b"]);
}

#[test]
fn what_can_not_be_restarted_is_refused_before_anything_is_written() {
    let mut ungated = pod("c", "web:v1");
    ungated["spec"]["readinessGates"] = json!([]);
    ungated["metadata"]["annotations"]["hitless.dev/mode"] = json!("Leave");
    let snapshot = rollout(&[pod("a", "web:v1"), ungated]);
    let (code, text) = refusal(&snapshot, "deployment/web", &["sidecar"]);
    assert_eq!(code, 2);
    assert!(text.contains("no container sidecar") && text.contains("it has: web"), "{text}");
    assert!(refusal(&snapshot, "deployment/web", &[]).1.contains("NoReadinessGate"));
    assert!(refusal(&snapshot, "deployment/other", &[]).1.contains("does not exist"));
    assert_eq!(refusal(&snapshot, "pod/other", &[]).0, 1);
    assert!(refusal(&rollout(&[]), "deployment/web", &[]).1.contains("no pods"));
}

#[test]
fn the_patch_names_the_uid_and_clears_what_an_earlier_wish_has_left() {
    let pod = view(&pod("a", "web:v1"));
    let wanted = json!({"metadata": {"uid": "uid-a", "annotations": {
        "hitless.dev/restart": "t", "hitless.dev/restart-containers": null}}});
    assert_eq!(patch(&pod, "t", &[]), wanted);
    let some = patch(&pod, "t", &["web".into(), "side".into()]);
    assert_eq!(some["metadata"]["annotations"]["hitless.dev/restart-containers"], "web,side");
}

#[test]
fn tokens_differ_within_a_second() {
    let tokens: BTreeSet<String> = (0..50).map(|_| token(Timestamp::UNIX_EPOCH)).collect();
    assert!(tokens.len() > 1 && tokens.iter().all(|token| token.starts_with("19700101t000000z-")), "{tokens:?}");
}

#[test]
fn a_pod_counts_until_its_containers_are_new_and_its_operation_is_over_or_it_is_gone() {
    let mut a = pod("a", "web:v1");
    a["status"]["containerStatuses"] = json!([{"name": "web", "image": "web:v1", "imageID": "", "ready": true,
        "restartCount": 0, "containerID": "containerd://1", "state": {"running": {}}}]);
    let asked = Asked::from([("uid-a".to_owned(), ids(&view(&a), &[])), ("uid-gone".to_owned(), BTreeMap::new())]);
    assert_eq!(left(&rollout(&[a.clone()]), &asked, "token").unwrap(), ["a"]);
    a["metadata"]["annotations"] = json!({"hitless.dev/restarted": "token"});
    assert_eq!(left(&rollout(&[a.clone()]), &asked, "token").unwrap(), ["a"], "it is held, the old container runs");
    a["status"]["containerStatuses"][0]["containerID"] = json!("containerd://2");
    let running = json!({"id": "g", "phase": "Verifying", "since": "2026-01-01T00:00:00.000000Z"});
    let snapshot = with_grant(rollout(&[a.clone()]), "a", &running);
    assert_eq!(left(&snapshot, &asked, "token").unwrap(), ["a"], "its operation is not over");
    assert!(left(&rollout(&[a.clone()]), &asked, "token").unwrap().is_empty());
    a["status"]["conditions"] = json!([]);
    assert_eq!(left(&rollout(&[a]), &asked, "token").unwrap(), ["a"]);
}

#[test]
fn only_a_bad_end_of_this_restart_is_a_failure() {
    let asked = Asked::from([("uid-a".to_owned(), BTreeMap::new())]);
    let ended = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:00.000000Z",
        "result": {"outcome": "RolledBack", "reason": "CrashLoopBackOff"}});
    let snapshot = with_grant(rollout(&[pod("a", "web:v1")]), "a", &ended);
    assert_eq!(left(&snapshot, &asked, "another").unwrap(), ["a"]);
    let failure = left(&snapshot, &asked, "token").unwrap_err();
    assert_eq!(failure.code(), 1);
    assert!(failure.to_string().contains("CrashLoopBackOff"));
}

#[test]
fn what_is_native_about_it_is_said() {
    let driven = crate::scene::idle(&[pod("a", "web:v2")]);
    assert_eq!(to_know(&driven.cluster.objects[0]), None);
    let foreign = crate::scene::with_object(driven.clone(), 0, |deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
    });
    assert!(to_know(&foreign.cluster.objects[0]).unwrap().contains("in place all the same"));
    let paused = crate::scene::with_annotation(driven, "hitless.dev/paused", "true");
    let words = to_know(&paused.cluster.objects[0]).unwrap();
    assert!(words.ends_with("kubectl hitless resume -n team deployment/web"), "{words}");
}

#[test]
fn new_pods_are_asked_for_by_the_template_and_refused_where_none_are_made() {
    let driven = crate::scene::idle(&[pod("a", "web:v2")]);
    let ask = |snapshot: &Snapshot, target: &str| {
        new_pods::decided(snapshot, &target.parse().unwrap(), Timestamp::UNIX_EPOCH)
    };
    let decided = ask(&driven, "deployment/web").unwrap();
    let mut raw = driven.objects[0].raw.clone();
    raw["metadata"]["resourceVersion"] = driven.cluster.objects[0].resource_version.clone().into();
    // The API server takes what is absent for null in a test.
    raw["spec"]["template"]["metadata"]["annotations"] = Value::Null;
    raw["metadata"]["annotations"]["hitless.dev/rollout"] = Value::Null;
    json_patch::patch(&mut raw, &decided.patch.unwrap().operations()).unwrap();
    assert_eq!(raw["spec"]["template"]["metadata"]["annotations"]["hitless.dev/new-pods"], "1970-01-01T00:00:00Z");
    assert_eq!(raw["spec"]["paused"], true, "it is held in the same write, as every change is");
    assert!(decided.said.starts_with("deployment/web asks for new pods; watch it with: "), "{}", decided.said);
    assert_eq!(ask(&driven, "pod/a").unwrap_err().code(), 2);
    let only = crate::scene::with_annotation(driven, "hitless.dev/update", "in-place-only");
    let text = ask(&only, "deployment/web").unwrap_err().to_string();
    assert!(text.contains("kubectl annotate -n team deployment/web hitless.dev/update=in-place --overwrite"), "{text}");
}

#[test]
fn what_a_restart_in_place_leaves_is_said() {
    let snapshot = crate::scene::with_object(crate::scene::idle(&[pod("a", "web:v2")]), 0, |deployment| {
        deployment["spec"]["template"]["spec"]["volumes"] = json!([{"name": "keys", "csi": {"driver": "x"}}]);
    });
    let words = not_done(&snapshot.cluster.objects[0], &[]).unwrap();
    assert!(words.contains("volume keys") && words.ends_with("--new-pods -n team deployment/web"), "{words}");
}
