//! Jobs that restart: each target once, in time, and with a reason where it fails.

use hitless_workloads::requests::operation_job::{OPERATION_JOB, OperationJobs};
use hitless_workloads::{OperationFailure, RequestKind, registry};
use serde_json::{Value, json};

use crate::shop::{JOB, Shop, job, targets};

#[test]
fn each_target_is_restarted_once_and_the_job_ends_and_is_deleted_in_time() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "b"])}));
    shop.settle();
    assert_eq!(shop.progress(), ["Pending", "Pending"]);
    assert_eq!(shop.wanted(), ["a", "b"], "and not c");
    let wanted = &shop.desired()[0];
    assert_eq!(wanted.asked_by.as_ref().unwrap().name, "again");
    let operation = &wanted.intent.as_ref().unwrap().operation;
    assert_eq!(operation.containers.len(), 2, "all containers");
    assert_eq!(operation.annotations["hitless.dev/restarted"].to.as_deref(), Some(JOB));
    shop.begin("a");
    shop.settle();
    assert_eq!(
        (shop.progress(), shop.status()["progress"].clone()),
        (vec!["Processing".into(), "Pending".into()], json!("Processing"))
    );
    shop.end("a");
    assert_eq!(shop.wanted(), ["b"], "also before the job says so");
    shop.settle();
    assert_eq!(shop.progress(), ["Succeeded", "Pending"]);
    // Somebody restarts it again, for another reason: the job has recorded it, and has no more to do with it.
    shop.pods.get_mut("a").unwrap()["metadata"]["annotations"]["hitless.dev/restarted"] = "other".into();
    assert_eq!(shop.wanted(), ["b"]);
    shop.begin("b");
    shop.end("b");
    let reports = shop.settle();
    let status = shop.status();
    assert_eq!(
        (&status["progress"], &status["succeededPodCount"], &status["totalPodCount"]),
        (&json!("Succeeded"), &json!(2), &json!(2))
    );
    assert!(status["endTime"].is_string() && status["targetDetails"][0]["endTime"].is_string());
    assert_eq!(reports.wake_at, Some("2026-01-01T00:01:20Z".parse().unwrap()), "50 s after its end");
    shop.pass(50);
    shop.settle();
    assert!(shop.objects.is_empty(), "its time to live is over");
}

#[test]
fn what_the_job_has_not_recorded_stands_on_the_pod_until_it_has() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a"])}));
    shop.settle();
    shop.begin("a");
    shop.end("a");
    let keeps =
        |shop: &Shop| shop.with(|scene| scene.pods.iter().filter(|pod| OperationJobs.keeps_token(pod, scene)).count());
    assert_eq!(keeps(&shop), 1, "another token in its place would have the pod restarted twice");
    shop.settle();
    assert_eq!(keeps(&shop), 0);
    // Nobody knows what the job says while jobs can't be listed.
    let job = shop.objects.remove("again").unwrap();
    assert_eq!(keeps(&shop), 0, "the job is gone");
    shop.unreadable.insert(OPERATION_JOB.group_kind);
    assert_eq!(keeps(&shop), 1);
    shop.objects.insert("again".to_owned(), job);
}

#[test]
fn only_named_containers_and_only_the_first_targets() {
    let two = json!([{"name": "a", "containers": ["side"]}, {"name": "b", "containers": ["nope"]}, {"name": "c"}]);
    let mut shop = Shop::new(&json!({"targets": two, "partition": 2, "operationDelaySeconds": 7}));
    shop.settle();
    assert_eq!(shop.progress(), ["Pending", "Failed:ContainerNotFound", "Pending"]);
    let desired = shop.desired();
    assert_eq!(desired.len(), 1, "c is not among the first two");
    assert_eq!(desired[0].delay_seconds, 7);
    assert_eq!(desired[0].intent.as_ref().unwrap().operation.containers.keys().collect::<Vec<_>>(), ["side"]);
    shop.begin("a");
    shop.end("a");
    shop.settle();
    assert_eq!(shop.status()["progress"], "Processing", "c waits for the partition to grow");
    shop.objects.get_mut("again").unwrap()["spec"]["partition"] = json!(3);
    assert_eq!(shop.wanted(), ["c"]);
}

#[test]
fn a_pod_that_is_not_there_fails_and_one_that_was_made_later_is_fresh() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "gone"])}));
    shop.now = "2026-01-01T00:00:05Z".parse().unwrap();
    let reports = shop.settle();
    assert_eq!(shop.progress(), ["Pending", "Pending"], "its watch may be behind");
    assert_eq!(reports.wake_at, Some("2026-01-01T00:00:10Z".parse().unwrap()));
    shop.pass(5);
    let reports = shop.settle();
    assert_eq!(shop.progress(), ["Pending", "Failed:PodNotFound"]);
    assert!(reports.notes.iter().any(|note| note.text.contains("pod gone")), "{:?}", reports.notes);
    shop.add_pod("a", "2026-01-01T00:00:07Z");
    assert!(shop.wanted().is_empty(), "its containers have just been started");
    shop.settle();
    assert_eq!(shop.progress(), ["Succeeded", "Failed:PodNotFound"]);
    assert_eq!(shop.status()["progress"], "Failed");
    let pod = shop.pods.get_mut("b").unwrap();
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    shop.objects.insert("again".to_owned(), job("again", &json!({"targets": targets(&["b"])})));
    shop.settle();
    assert_eq!(shop.progress(), ["Failed:PodNotFound"], "it is being deleted");
}

#[test]
fn after_the_deadline_nothing_is_begun_and_what_is_under_way_ends() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "b"])}));
    shop.settle();
    shop.begin("a");
    shop.settle();
    shop.pass(100);
    assert_eq!(shop.wanted(), ["a"], "it has been ordered already");
    assert!(shop.wants("a", JOB));
    shop.settle();
    assert_eq!(shop.progress(), ["Processing", "Failed:DeadlineExceeded"]);
    shop.end("a");
    shop.settle();
    assert_eq!((shop.progress()[0].as_str(), &shop.status()["failedPodCount"]), ("Succeeded", &json!(1)));
}

#[test]
fn deleting_the_job_cancels_what_has_not_begun() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "b"])}));
    shop.settle();
    shop.begin("a");
    shop.begin("b");
    assert!(shop.wants("a", JOB) && shop.wants("b", JOB));
    assert!(!shop.wants("a", "job-other"), "no such job");
    shop.end("b");
    let removed = shop.objects.remove("again").unwrap();
    assert!(!shop.wants("a", JOB) && shop.wants("b", JOB), "b's containers are being replaced");
    assert!(shop.wanted().is_empty());
    shop.unreadable.insert(OPERATION_JOB.group_kind);
    assert!(shop.wants("a", JOB), "whether it is gone is not known");
    // A finalizer of somebody else's keeps it: it counts as gone all the same.
    shop.unreadable.clear();
    shop.objects.insert("again".to_owned(), removed);
    shop.objects.get_mut("again").unwrap()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(!shop.wants("a", JOB) && shop.wanted().is_empty());
}

#[test]
fn pods_that_can_not_be_operated_and_operations_that_fail_say_why() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "b"])}));
    let (a, b) = (shop.uid("a"), shop.uid("b"));
    let failure = |reason: &str| OperationFailure { reason: reason.to_owned(), text: "words".to_owned() };
    shop.failures.never.insert(a, failure("HostNetwork"));
    shop.settle();
    assert_eq!(shop.progress(), ["Failed:HostNetwork", "Pending"]);
    assert_eq!(shop.wanted(), ["b"]);
    shop.begin("b");
    shop.settle();
    shop.failures.failed.insert((b, JOB.to_owned()), failure("NotReadyInTime"));
    shop.granted.clear();
    let reports = shop.settle();
    assert_eq!(shop.progress(), ["Failed:HostNetwork", "Failed:NotReadyInTime"]);
    assert_eq!(shop.status()["progress"], "Failed");
    assert!(shop.wanted().is_empty() && reports.writes.is_empty(), "it is not tried again");
}

#[test]
fn what_makes_no_sense_fails_with_a_reason_and_touches_nothing() {
    let many: Vec<Value> = (0..10_000).map(|index| json!({"name": format!("p-{index}")})).collect();
    for (spec, reason) in [
        (json!({"action": "Explode", "targets": targets(&["a"])}), "UnknownAction"),
        (json!({"targets": targets(&["a", "a"])}), "DuplicateTarget"),
        (json!({"targets": []}), "NoTargets"),
        (json!({"targets": many}), "TooManyTargets"),
        (json!({"targets": targets(&["a"]), "partition": -1}), "NegativePartition"),
    ] {
        let mut shop = Shop::new(&spec);
        let reports = shop.settle();
        assert!(
            reports.notes.iter().any(|note| note.reason == "OperationFailed"),
            "as long as the job is there: {reason}"
        );
        assert!(shop.wanted().is_empty(), "{reason}");
        let body = registry::read(shop.objects["again"].clone()).unwrap().unwrap();
        let invalid = body.operation_job().unwrap().invalid.clone().unwrap();
        assert_eq!((invalid.reason(), &shop.status()["progress"]), (reason, &json!("Failed")));
        if reason != "NoTargets" {
            assert_eq!(shop.progress(), [format!("Failed:{reason}")]);
        }
        assert!(shop.objects["again"].to_string().len() < spec.to_string().len() + 2000, "the status is small");
    }
}

#[test]
fn a_companion_pod_is_never_restarted() {
    let mut shop = Shop::new(&json!({"action": "Restart", "targets": targets(&["a"])}));
    shop.pods.get_mut("a").unwrap()["metadata"]["labels"][hitless_api::names::labels::COMPANION] = "v".into();
    shop.settle();
    assert_eq!(shop.progress(), ["Failed:CompanionPod"]);
    assert!(shop.wanted().is_empty());
}
