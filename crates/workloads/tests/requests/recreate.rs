//! ContainerRecreateRequests: each container is started anew once, in order where that is wanted, and what failed says why.

use hitless_workloads::OperationFailure;
use hitless_workloads::requests::container_recreate_request::{CONTAINER_RECREATE_REQUEST, ContainerRecreateRequests};
use serde_json::{Value, json};

use crate::shop::{JOB, Shop};

/// A request for the containers `web` and `side` of pod `a`, with these fields beside.
fn request(name: &str, fields: &Value) -> Value {
    let mut request = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"podName": "a", "containers": [{"name": "web"}, {"name": "side"}], "ttlSecondsAfterFinished": 50}});
    for (field, value) in fields.as_object().unwrap() {
        request["spec"][field] = value.clone();
    }
    request
}

fn shop(fields: &Value) -> Shop {
    Shop::of(&ContainerRecreateRequests, request("again", fields))
}

/// Phase of the request, then of each container.
fn phases(shop: &Shop) -> Vec<String> {
    let states = shop.status()["containerRecreateStates"].as_array().cloned().unwrap_or_default();
    let phase = |value: &Value| value["phase"].as_str().unwrap_or_default().to_owned();
    [phase(shop.status())].into_iter().chain(states.iter().map(phase)).collect()
}

/// Containers that are to be replaced now, and the token that goes with it.
fn wanted(shop: &Shop) -> Option<(Vec<String>, String)> {
    let desired = shop.desired();
    let operation = &desired.first()?.intent.as_ref().unwrap().operation;
    let token = operation.annotations["hitless.dev/restarted"].to.clone().unwrap();
    Some((operation.containers.keys().cloned().collect(), token))
}

/// The kubelet has started containers of pod `a` then.
fn started(shop: &mut Shop, names: &[&str], at: &str, ready: bool) {
    let statuses = shop.pods.get_mut("a").unwrap()["status"]["containerStatuses"].as_array_mut().unwrap();
    for status in statuses.iter_mut().filter(|status| names.iter().any(|name| status["name"] == *name)) {
        status["state"] = json!({"running": {"startedAt": at}});
        status["ready"] = json!(ready);
    }
}

#[test]
fn all_containers_are_replaced_in_one_operation_once() {
    let mut shop = shop(&json!({"strategy": {"unreadyGracePeriodSeconds": 7}}));
    shop.settle();
    assert_eq!(phases(&shop), ["Pending", "Pending", "Pending"]);
    assert_eq!(wanted(&shop), Some((vec!["side".into(), "web".into()], JOB.into())));
    assert_eq!(shop.desired()[0].delay_seconds, 7, "out of service before");
    shop.begin("a");
    shop.settle();
    assert_eq!(phases(&shop), ["Recreating", "Recreating", "Recreating"]);
    started(&mut shop, &["web", "side"], "2026-01-01T00:00:20Z", true);
    shop.end("a");
    assert_eq!(wanted(&shop), None, "also before the request says so");
    let keeps = |shop: &Shop| shop.with(|all| all.pods.iter().any(|pod| shop.kind.keeps_token(pod, all)));
    assert!(keeps(&shop), "another token in its place would have the containers replaced twice");
    let reports = shop.settle();
    assert_eq!(phases(&shop), ["Completed", "Succeeded", "Succeeded"]);
    assert_eq!(shop.status()["containerRecreateStates"][0]["isKilled"], true);
    assert!(!keeps(&shop) && reports.notes.is_empty(), "{:?}", reports.notes);
    shop.pass(50);
    shop.settle();
    assert!(shop.objects.is_empty(), "its time to live is over");
}

#[test]
fn in_order_each_waits_until_the_one_before_runs_for_long_enough() {
    let mut shop = shop(&json!({"strategy": {"orderedRecreate": true, "minStartedSeconds": 5}}));
    shop.settle();
    assert_eq!(wanted(&shop), Some((vec!["web".into()], JOB.into())));
    shop.begin("a");
    shop.settle();
    assert_eq!(phases(&shop), ["Recreating", "Recreating", "Pending"]);
    assert_eq!(wanted(&shop).unwrap().0, ["web"], "it is under way");
    started(&mut shop, &["web"], "2026-01-01T00:00:28Z", true);
    shop.end("a");
    let reports = shop.settle();
    assert_eq!(phases(&shop), ["Recreating", "Recreating", "Pending"], "it runs for 2 s");
    let keeps = shop.with(|all| all.pods.iter().any(|pod| shop.kind.keeps_token(pod, all)));
    assert!(!keeps, "that it was stopped is recorded: another restart has to wait for nothing");
    assert_eq!(wanted(&shop), None);
    assert_eq!(reports.wake_at, Some("2026-01-01T00:00:34Z".parse().unwrap()));
    shop.pass(4);
    shop.settle();
    assert_eq!(phases(&shop), ["Recreating", "Succeeded", "Pending"]);
    let second = format!("{JOB}.1");
    assert_eq!(wanted(&shop), Some((vec!["side".into()], second.clone())));
    assert!(shop.wants("a", &second) && !shop.wants("b", JOB), "the first step is recorded");
    shop.begin_by("a", &second);
    started(&mut shop, &["side"], "2026-01-01T00:00:35Z", true);
    shop.end_by("a", &second);
    shop.pass(20);
    shop.settle();
    assert_eq!(phases(&shop), ["Completed", "Succeeded", "Succeeded"]);
}

#[test]
fn what_was_started_after_the_request_counts_unless_it_is_forced() {
    let of = |forced: bool| {
        let mut shop = shop(&json!({"strategy": {"forceRecreate": forced}}));
        started(&mut shop, &["web"], "2026-01-01T00:00:10Z", true);
        shop.settle();
        (phases(&shop)[1].clone(), wanted(&shop).unwrap().0)
    };
    assert_eq!(of(false), ("Succeeded".into(), vec!["side".into()]));
    assert_eq!(of(true), ("Pending".into(), vec!["side".into(), "web".into()]));
}

#[test]
fn a_second_request_for_the_same_pod_is_done_with_the_first() {
    let mut shop = shop(&json!({}));
    shop.objects.insert("second".to_owned(), request("second", &json!({})));
    shop.settle();
    assert_eq!(shop.desired().len(), 2);
    shop.begin("a");
    started(&mut shop, &["web", "side"], "2026-01-01T00:00:20Z", true);
    shop.end("a");
    shop.settle();
    assert_eq!(shop.objects["second"]["status"]["phase"], "Completed", "it does not stay Pending for ever");
    assert!(shop.desired().is_empty(), "nothing is restarted twice");
}

#[test]
fn a_pod_that_is_not_the_one_meant_ends_the_request_in_upstreams_words() {
    let ends = |change: &dyn Fn(&mut Shop)| {
        let mut shop = shop(&json!({"activeDeadlineSeconds": 40}));
        change(&mut shop);
        let reports = shop.settle();
        assert!(shop.desired().is_empty());
        let told = reports.notes.first().map(|note| note.text.clone()).unwrap_or_default();
        (phases(&shop)[0].clone(), shop.status()["message"].as_str().unwrap_or_default().to_owned(), told)
    };
    let gone = |change: &dyn Fn(&mut Shop)| {
        let (phase, message, told) = ends(change);
        assert_eq!((phase.as_str(), message.as_str()), ("Completed", "pod has gone"));
        assert!(told.contains("pod has gone"), "{told}");
    };
    gone(&|shop| _ = shop.pods.remove("a"));
    gone(&|shop| shop.pods.get_mut("a").unwrap()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:10Z".into());
    gone(&|shop| shop.pods.get_mut("a").unwrap()["metadata"]["creationTimestamp"] = "2026-01-01T00:00:10Z".into());
    gone(&|shop| shop.pods.get_mut("a").unwrap()["status"]["phase"] = "Succeeded".into());
    let (phase, message, _) = ends(&|shop| shop.pass(10));
    assert_eq!((phase.as_str(), message.as_str()), ("Completed", "recreating has exceeded the activeDeadlineSeconds"));
    let (phase, message, _) = ends(&|shop| {
        shop.pods.get_mut("a").unwrap()["metadata"]["labels"]["hitless.dev/companion"] = "x".into();
    });
    assert!(phase == "Completed" && message.contains("stands in for a moment"), "{phase} {message}");
}

#[test]
fn a_pod_that_is_not_known_yet_is_waited_for() {
    let mut shop = shop(&json!({}));
    let pod = shop.pods.remove("a").unwrap();
    shop.now = "2026-01-01T00:00:04Z".parse().unwrap();
    assert_eq!(shop.settle().wake_at, Some("2026-01-01T00:00:10Z".parse().unwrap()));
    assert!(shop.status().is_null());
    shop.pods.insert("a".to_owned(), pod);
    shop.settle();
    assert_eq!(wanted(&shop).unwrap().1, JOB);
}

#[test]
fn a_container_that_fails_ends_the_request_or_is_passed_over() {
    let after_failure = |policy: &str| {
        let mut shop = shop(&json!({"strategy": {"orderedRecreate": true, "failurePolicy": policy}}));
        shop.settle();
        shop.begin("a");
        shop.settle();
        let failure = OperationFailure { reason: "StartError".into(), text: "it does not start".into() };
        shop.failures.failed.insert((shop.uid("a"), JOB.to_owned()), failure);
        shop.granted.clear();
        let told = shop.settle().notes.remove(0).text;
        assert!(told.contains("container web") && told.contains("it does not start"), "{told}");
        (phases(&shop), wanted(&shop).map(|(containers, _)| containers))
    };
    let ended = vec!["Completed".to_owned(), "Failed".to_owned(), "Pending".to_owned()];
    assert_eq!(after_failure("Fail"), (ended, None));
    let goes_on = vec!["Recreating".to_owned(), "Failed".to_owned(), "Pending".to_owned()];
    assert_eq!(after_failure("Ignore"), (goes_on, Some(vec!["side".to_owned()])));
}

#[test]
fn what_can_never_be_restarted_and_a_container_that_is_not_there_are_told() {
    let mut never = shop(&json!({}));
    let failure = OperationFailure { reason: "StaticPod".into(), text: "it is a static pod".into() };
    never.failures.never.insert(never.uid("a"), failure);
    never.settle();
    assert_eq!(phases(&never), ["Completed", "Failed", "Failed"]);
    let mut unknown = shop(&json!({"containers": [{"name": "web"}, {"name": "nope"}]}));
    let told = unknown.settle().notes.remove(0).text;
    assert_eq!(phases(&unknown), ["Completed", "Pending", "Failed"], "nothing is touched");
    assert!(told.contains("no container nope") && unknown.desired().is_empty(), "{told}");
}

#[test]
fn nothing_is_given_up_while_requests_can_not_be_read_and_all_once_one_is_deleted() {
    let mut shop = shop(&json!({}));
    shop.settle();
    assert!(shop.wants("a", JOB));
    let object = shop.objects.remove("again").unwrap();
    assert!(!shop.wants("a", JOB), "its deletion cancels it");
    shop.unreadable = [CONTAINER_RECREATE_REQUEST.group_kind].into();
    assert!(shop.wants("a", JOB), "nobody knows");
    shop.unreadable.clear();
    shop.objects.insert("again".to_owned(), object);
    shop.begin("a");
    shop.end("a");
    shop.objects.clear();
    assert!(shop.wants("a", JOB), "what has begun ends");
}
