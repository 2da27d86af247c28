//! Pods that are not well, and want nothing.

use super::*;

#[test]
fn a_dead_pod_of_a_halted_workload_is_named_with_what_the_kubelet_says_and_what_to_do() {
    let mark = r#"{"revision": "REVISION", "backTo": "x", "pod": "a", "reason": "CrashLoopBackOff"}"#;
    let mut dead = old("a");
    dead["status"]["conditions"][0]["status"] = "False".into();
    dead["status"]["containerStatuses"] = json!([{"name": "web", "image": "web:v1", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]);
    let snapshot = rollout(&[dead, old("b")]);
    let revision = snapshot.cluster.objects[0].template().unwrap().revision().to_owned();
    let halted = with_annotation(snapshot, "hitless.dev/halted", &mark.replace("REVISION", &revision));
    let (text, answer) = why(&halted, "web");
    assert_eq!(answer.blocked(), Blocked::Stopped(&Stopped::Halted("deployment/web".to_owned())));
    let line = "pod/a (deployment/web, node n1): wishes nothing, and waits: its workload is halted; not ready; kubelet: web: CrashLoopBackOff";
    assert!(text.contains(line) && text.contains("kubectl delete pod -n team a\n"), "{text}");
    assert!(
        text.contains("pod/b (deployment/web, node n1): wishes nothing, and waits: its workload is halted\n"),
        "{text}"
    );
}

#[test]
fn a_pod_that_wishes_nothing_and_is_not_well_says_so() {
    let mut unready = pod("a", "web:v2");
    unready["status"]["conditions"][0]["status"] = "False".into();
    let (text, _) = why(&crate::scene::idle(&[unready]), "web");
    assert!(text.contains("up to date (not ready); "), "{text}");
}
