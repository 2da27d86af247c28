//! OperationJobs: what they wish, what they report, and that nothing is done twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GroupKind};
use hitless_workloads::requests::operation_job::{OPERATION_JOB, OperationJobs};
use hitless_workloads::requests::restart::Restarts;
use hitless_workloads::{Fate, Fates, PodWish, Reports, Request, RequestKind, Scene, World, kind};
use hitless_world::carry_out;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

const JOB: &str = "job-uid-again";

/// A namespace with pods and jobs.
struct Shop {
    now: Timestamp,
    objects: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    /// Tokens of restarts that are under way, by uid of the pod.
    granted: BTreeMap<String, String>,
    fates: Fates,
    unreadable: BTreeSet<GroupKind>,
    left: BTreeSet<GroupKind>,
    version: u32,
}

fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "OperationJob",
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"action": "Restart", "activeDeadlineSeconds": 100, "TTLSecondsAfterFinished": 50}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

fn targets(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

impl Shop {
    fn new(spec: &Value) -> Self {
        let mut shop = Self {
            now: "2026-01-01T00:00:30Z".parse().unwrap(),
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            granted: BTreeMap::new(),
            fates: Fates::default(),
            unreadable: BTreeSet::new(),
            left: BTreeSet::new(),
            version: 100,
        };
        shop.objects.insert("again".to_owned(), job("again", spec));
        for name in ["a", "b", "c"] {
            shop.add_pod(name, "2025-12-31T00:00:00Z");
        }
        shop
    }

    fn add_pod(&mut self, name: &str, created: &str) {
        let container = |each: &str| json!({"name": each, "image": "r.io/web:v1"});
        let status = |each: &str| {
            json!({"name": each, "imageID": "r.io/web@sha256:1", "image": "", "ready": true, "restartCount": 0,
                "containerID": "containerd://1"})
        };
        let pod = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}-{created}"), "resourceVersion": "1",
                "creationTimestamp": created, "annotations": {}, "labels": {}},
            "spec": {"nodeName": "n", "containers": [container("web"), container("side")]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [status("web"), status("side")]},
        });
        self.pods.insert(name.to_owned(), pod);
    }

    fn uid(&self, pod: &str) -> String {
        self.pods[pod]["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    fn with<T>(&self, look: impl FnOnce(&Scene<'_, '_>) -> T) -> T {
        let objects: Vec<_> =
            self.objects.values().map(|object| Arc::new(kind::read(object.clone()).unwrap().unwrap())).collect();
        let view = |pod: &Value| Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let pods: Vec<_> = self.pods.values().map(view).collect();
        let world = World::new(&objects, &pods, self.granted.keys().cloned().collect());
        let granted: HashMap<&str, &str> =
            self.granted.iter().map(|(uid, token)| (uid.as_str(), token.as_str())).collect();
        let scene = Scene::new(&pods, &world, &|_| None, &granted, self.now);
        look(&scene.without(&self.unreadable, &self.left))
    }

    fn wishes(&self) -> Vec<PodWish> {
        self.with(|scene| OperationJobs.wishes(scene))
    }

    fn wished(&self) -> Vec<String> {
        self.wishes().into_iter().map(|wish| wish.pod.name).collect()
    }

    /// The controller's turn, until nothing is left to write.
    fn settle(&mut self) -> Reports {
        for _ in 0..9 {
            let reports = self.with(|scene| OperationJobs.report(scene, &self.fates));
            if reports.writes.is_empty() {
                return reports;
            }
            for write in &reports.writes {
                self.version += 1;
                let stored = if write.on.group_kind.is("", "Pod") { &mut self.pods } else { &mut self.objects };
                let next = carry_out(write, stored.get(&write.on.name), &self.version.to_string(), "").unwrap();
                match next {
                    Some(object) => _ = stored.insert(write.on.name.clone(), object),
                    None => _ = stored.remove(&write.on.name),
                }
            }
        }
        panic!("it writes for ever: {:?}", self.objects)
    }

    /// An agent begins to restart the pod for the job, or ends.
    fn begin(&mut self, pod: &str) {
        self.granted.insert(self.uid(pod), JOB.to_owned());
    }

    fn end(&mut self, pod: &str) {
        self.granted.remove(&self.uid(pod));
        self.pods.get_mut(pod).unwrap()["metadata"]["annotations"]["hitless.dev/restarted"] = JOB.into();
    }

    fn status(&self) -> &Value {
        &self.objects["again"]["status"]
    }

    /// Progress of each target, with the reason if it has failed.
    fn progress(&self) -> Vec<String> {
        let details = self.status()["targetDetails"].as_array().cloned().unwrap_or_default();
        let text = |detail: &Value| {
            let word = detail["progress"].as_str().unwrap();
            detail["error"]["reason"].as_str().map_or_else(|| word.to_owned(), |reason| format!("{word}:{reason}"))
        };
        details.iter().map(text).collect()
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    fn wants(&self, pod: &str, token: &str) -> bool {
        let grant: Grant = serde_json::from_value(json!({
            "id": "g", "epoch": 1, "pod": {"namespace": "shop", "name": pod, "uid": self.uid(pod)}, "op": "Restart", "mode": "Leave",
            "containers": {}, "before": {}, "annotations": {"hitless.dev/restarted": {"to": token}}, "drain": {}, "verify": {},
            "granted": "2026-01-01T00:00:00.000000Z", "ttlSeconds": 60}))
        .unwrap();
        self.with(|scene| {
            let known = scene.pods.iter().find(|known| known.id.name == pod).map(|pod| &**pod);
            OperationJobs.wants(&grant, known, scene) || Restarts.wants(&grant, known, scene)
        })
    }
}

#[test]
fn each_target_is_restarted_once_and_the_job_ends_and_is_deleted_in_time() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "b"])}));
    shop.settle();
    assert_eq!(shop.progress(), ["Pending", "Pending"]);
    assert_eq!(shop.wished(), ["a", "b"], "and not c");
    let wish = &shop.wishes()[0];
    assert_eq!(wish.asked_by.as_ref().unwrap().name, "again");
    let operation = &wish.intent.as_ref().unwrap().operation;
    assert_eq!(operation.containers.len(), 2, "all containers");
    assert_eq!(operation.annotations["hitless.dev/restarted"].to.as_deref(), Some(JOB));
    shop.begin("a");
    shop.settle();
    assert_eq!(
        (shop.progress(), shop.status()["progress"].clone()),
        (vec!["Processing".into(), "Pending".into()], json!("Processing"))
    );
    shop.end("a");
    assert_eq!(shop.wished(), ["b"], "also before the job says so");
    shop.settle();
    assert_eq!(shop.progress(), ["Succeeded", "Pending"]);
    // Somebody restarts it again, for another reason: the job has recorded it, and has no more to do with it.
    shop.pods.get_mut("a").unwrap()["metadata"]["annotations"]["hitless.dev/restarted"] = "other".into();
    assert_eq!(shop.wished(), ["b"]);
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
    let wishes = shop.wishes();
    assert_eq!(wishes.len(), 1, "c is not among the first two");
    assert_eq!(wishes[0].delay_seconds, 7);
    assert_eq!(wishes[0].intent.as_ref().unwrap().operation.containers.keys().collect::<Vec<_>>(), ["side"]);
    shop.begin("a");
    shop.end("a");
    shop.settle();
    assert_eq!(shop.status()["progress"], "Processing", "c waits for the partition to grow");
    shop.objects.get_mut("again").unwrap()["spec"]["partition"] = json!(3);
    assert_eq!(shop.wished(), ["c"]);
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
    assert!(shop.wished().is_empty(), "its containers have just been started");
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
    assert_eq!(shop.wished(), ["a"], "it has been ordered already");
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
    assert!(shop.wished().is_empty());
    shop.unreadable.insert(OPERATION_JOB.group_kind);
    assert!(shop.wants("a", JOB), "whether it is gone is not known");
    // A finalizer of somebody else's keeps it: it counts as gone all the same.
    shop.unreadable.clear();
    shop.objects.insert("again".to_owned(), removed);
    shop.objects.get_mut("again").unwrap()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(!shop.wants("a", JOB) && shop.wished().is_empty());
}

#[test]
fn pods_that_can_not_be_operated_and_operations_that_fail_say_why() {
    let mut shop = Shop::new(&json!({"targets": targets(&["a", "b"])}));
    let (a, b) = (shop.uid("a"), shop.uid("b"));
    let fate = |reason: &str| Fate { reason: reason.to_owned(), text: "words".to_owned() };
    shop.fates.never.insert(a, fate("HostNetwork"));
    shop.settle();
    assert_eq!(shop.progress(), ["Failed:HostNetwork", "Pending"]);
    assert_eq!(shop.wished(), ["b"]);
    shop.begin("b");
    shop.settle();
    shop.fates.failed.insert((b, JOB.to_owned()), fate("NotReadyInTime"));
    shop.granted.clear();
    let reports = shop.settle();
    assert_eq!(shop.progress(), ["Failed:HostNetwork", "Failed:NotReadyInTime"]);
    assert_eq!(shop.status()["progress"], "Failed");
    assert!(shop.wished().is_empty() && reports.writes.is_empty(), "it is not tried again");
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
        assert!(shop.wished().is_empty(), "{reason}");
        let body = kind::read(shop.objects["again"].clone()).unwrap().unwrap();
        let invalid = body.operation_job().unwrap().invalid.clone().unwrap();
        assert_eq!((invalid.reason(), &shop.status()["progress"]), (reason, &json!("Failed")));
        if reason != "NoTargets" {
            assert_eq!(shop.progress(), [format!("Failed:{reason}")]);
        }
        assert!(shop.objects["again"].to_string().len() < spec.to_string().len() + 2000, "the status is small");
    }
}

#[test]
fn a_pod_of_a_colla_set_is_labelled_and_followed_until_another_one_serves_in_its_place() {
    let owner = json!([{"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "web", "uid": "uid-web", "controller": true}]);
    let label = "collaset.kusionstack.io/to-replace";
    let mut shop = Shop::new(&json!({"action": "Replace", "targets": targets(&["a", "b"])}));
    let set = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": {"namespace": "shop", "name": "web",
        "uid": "uid-web", "resourceVersion": "1"}, "spec": {"replicas": 1, "selector": {}, "template": {}}});
    shop.objects.insert("web".to_owned(), set);
    shop.pods.get_mut("a").unwrap()["metadata"]["ownerReferences"] = owner.clone();
    shop.settle();
    assert_eq!(shop.pods["a"]["metadata"]["labels"][label], JOB);
    assert_eq!(shop.progress(), ["Processing", "Failed:NotOfCollaSet"]);
    assert!(shop.wished().is_empty(), "nothing is restarted");
    // The CollaSet has made another one.
    shop.add_pod("new", "2026-01-01T00:00:20Z");
    let new = shop.pods.get_mut("new").unwrap();
    new["metadata"]["ownerReferences"] = owner;
    new["metadata"]["labels"]["collaset.kusionstack.io/replace-pair-origin-name"] = "a".into();
    shop.settle();
    assert_eq!(shop.status()["targetDetails"][0]["extraInfo"]["NewPod"], "new");
    // And removed the first, and the label of the pair.
    shop.pods.remove("a");
    shop.pods.get_mut("new").unwrap()["metadata"]["labels"] = json!({});
    shop.settle();
    assert_eq!(shop.progress()[0], "Succeeded");
}

#[test]
fn a_deleted_job_takes_its_label_back_and_nobody_elses() {
    let label = "collaset.kusionstack.io/to-replace";
    let mut shop = Shop::new(&json!({"action": "Replace", "targets": targets(&["a"])}));
    for (pod, value) in [("a", JOB), ("b", "true")] {
        shop.pods.get_mut(pod).unwrap()["metadata"]["labels"][label] = value.into();
    }
    let writes = |shop: &Shop| shop.with(|scene| OperationJobs.report(scene, &Fates::default()).writes);
    shop.objects.clear();
    let cancelled = writes(&shop);
    assert_eq!(cancelled.iter().map(|write| write.on.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(matches!(cancelled[0].request, Request::Patch(_)));
    shop.unreadable.insert(OPERATION_JOB.group_kind);
    assert!(writes(&shop).is_empty(), "whether the job is gone is not known");
    (shop.left, shop.unreadable) = (shop.unreadable, BTreeSet::new());
    assert!(writes(&shop).is_empty(), "jobs are off");
}

#[test]
fn a_companion_pod_is_never_restarted() {
    let mut shop = Shop::new(&json!({"action": "Restart", "targets": targets(&["a"])}));
    shop.pods.get_mut("a").unwrap()["metadata"]["labels"][hitless_api::names::labels::COMPANION] = "v".into();
    shop.settle();
    assert_eq!(shop.progress(), ["Failed:CompanionPod"]);
    assert!(shop.wished().is_empty());
}
