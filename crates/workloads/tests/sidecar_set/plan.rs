//! What is written for SidecarSets: what new pods get, once the API server has accepted it, and what has become of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::InjectedSet;
use hitless_api::pod::PodView;
use hitless_workloads::{Object, Plan, World, Write, registry};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A cluster with SidecarSets.
#[derive(Default)]
struct Cluster {
    sets: Vec<Value>,
    injection: Option<Value>,
    pods: Vec<Arc<PodView>>,
    accepted: BTreeSet<String>,
    refused: BTreeMap<String, String>,
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn set(name: &str, image: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": format!("{name}-log"), "image": image}]}})
}

fn pod(name: &str, sets: &str, is_ready: bool) -> Arc<PodView> {
    let ready = if is_ready { "True" } else { "False" };
    let pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "annotations": {"hitless.dev/sidecarsets": sets}},
        "spec": {"containers": []}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
}

impl Cluster {
    fn of(sets: &[Value]) -> Self {
        Self { sets: sets.to_vec(), ..Self::default() }
    }

    fn plans(&self) -> Vec<Plan> {
        let objects = self.sets.iter().chain(&self.injection);
        let objects: Vec<Arc<Object>> =
            objects.map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let mut world = World::new(&objects, &self.pods, BTreeSet::new()).accepting(Some(self.accepted.clone()));
        world = world.refusing(self.refused.clone());
        world.now = Some(now());
        world.plans()
    }

    fn writes(&self) -> Vec<Write> {
        self.plans().into_iter().flat_map(|plan| plan.writes).collect()
    }

    /// Carries out all writes but dry runs, of which the keys are returned.
    fn step(&mut self) -> Vec<String> {
        let mut tries = Vec::new();
        for write in self.writes() {
            match write.verb {
                "try-sidecars" => tries.push(write.key()),
                "create-injection" => {
                    self.injection = Some(json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "SidecarInjection",
                        "metadata": {"name": "sidecarsets", "uid": "injection", "resourceVersion": "1"}, "spec": {"sets": []}}));
                }
                "inject-sidecars" => {
                    let sets: Value = write.content("/spec/sets").unwrap();
                    self.injection.as_mut().unwrap()["spec"]["sets"] = sets;
                }
                "report-status" => {
                    let status: Value = write.content("/status").unwrap();
                    let own =
                        self.sets.iter_mut().find(|set| set["metadata"]["name"] == write.on.name.as_str()).unwrap();
                    own["status"] = status;
                }
                verb => panic!("unexpected: {verb}"),
            }
        }
        tries
    }

    /// Until nothing more is written; the API server accepts everything.
    fn settle(&mut self) {
        for _ in 0..10 {
            let tries = self.step();
            self.accepted.extend(tries);
        }
        assert_eq!(self.writes(), [], "it comes to rest");
    }

    fn injected(&self) -> Vec<InjectedSet> {
        serde_json::from_value(self.injection.as_ref().unwrap()["spec"]["sets"].clone()).unwrap()
    }

    fn condition(&self, index: usize) -> (String, String, String) {
        let condition = &self.sets[index]["status"]["conditions"][0];
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// Another image of a container, as its owner writes it.
    fn edit(&mut self, index: usize, change: impl FnOnce(&mut Value)) {
        change(&mut self.sets[index]["spec"]);
        let generation = self.sets[index]["metadata"]["generation"].as_i64().unwrap();
        self.sets[index]["metadata"]["generation"] = json!(generation + 1);
    }
}

#[test]
fn what_is_accepted_comes_into_pods_in_the_order_of_names() {
    let mut cluster = Cluster::of(&[set("b", "b:1"), set("a", "a:1")]);
    assert_eq!(cluster.step(), [] as [&str; 0], "there is nothing to write it into yet");
    assert_eq!(cluster.step().len(), 2, "the API server is asked for both");
    assert_eq!(cluster.condition(0).1, "Pending");
    assert_eq!(cluster.injected(), []);
    cluster.settle();
    let names: Vec<String> = cluster.injected().into_iter().map(|set| set.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(cluster.condition(0), ("True".to_owned(), "Injected".to_owned(), String::new()));
}

#[test]
fn what_is_refused_leaves_what_was_there_and_says_why() {
    let mut cluster = Cluster::of(&[set("a", "a:1")]);
    cluster.settle();
    cluster.edit(0, |spec| spec["containers"][0]["image"] = json!("A:2"));
    let tries = cluster.step();
    cluster.refused = tries.into_iter().map(|key| (key, "invalid reference format".to_owned())).collect();
    cluster.step();
    assert_eq!(cluster.injected()[0].containers[0]["image"], "a:1");
    let (status, reason, message) = cluster.condition(0);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "SidecarsNotAccepted"));
    assert!(
        message.contains("invalid reference format") && message.ends_with("new pods get what it said before"),
        "{message}"
    );
    let notes: Vec<&str> = cluster.plans().iter().flat_map(|plan| plan.notes.iter().map(|note| note.reason)).collect();
    assert_eq!(notes, ["SidecarsNotAccepted"]);
    // Another edit is another question.
    cluster.edit(0, |spec| spec["containers"][0]["image"] = json!("a:2"));
    cluster.settle();
    assert_eq!(cluster.injected()[0].containers[0]["image"], "a:2");
}

#[test]
fn an_edit_of_what_pods_do_not_get_asks_nothing() {
    let mut cluster = Cluster::of(&[set("a", "a:1")]);
    cluster.settle();
    let before = cluster.injected();
    cluster.edit(0, |spec| spec["updateStrategy"] = json!({"maxUnavailable": "10%"}));
    assert_eq!(cluster.step(), [] as [&str; 0]);
    cluster.settle();
    assert_eq!(cluster.injected(), [InjectedSet { generation: 2, ..before[0].clone() }]);
}

#[test]
fn what_makes_no_sense_or_is_not_done_here_is_told_and_takes_nothing_away() {
    let table: [(&str, Value, &str); 7] = [
        (
            "containers",
            json!([{"name": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
            "mounts v, which is not in spec.volumes",
        ),
        ("containers", json!([{"image": "x"}]), "a container has no name"),
        ("initContainers", json!([{"name": "a-log"}]), "there are two containers of this name"),
        (
            "containers",
            json!([{"name": "x", "upgradeStrategy": {"upgradeType": "HotUpgrade"}}]),
            "HotUpgrade is not done here",
        ),
        ("injectionStrategy", json!({"revision": {"revisionName": "x"}}), "revision is not done here"),
        (
            "patchPodMetadata",
            json!([{"annotations": {"a": "{}"}, "patchPolicy": "MergePatchJson"}]),
            "MergePatchJson is not done here",
        ),
        ("patchPodMetadata", json!([{"annotations": {"hitless.dev/mode": "Hold"}}]), "is not a SidecarSet's to set"),
    ];
    for (field, value, words) in table {
        let mut cluster = Cluster::of(&[set("a", "a:1"), set("b", "b:1")]);
        cluster.settle();
        let before = cluster.injected();
        cluster.edit(0, |spec| spec[field] = value);
        cluster.settle();
        assert_eq!(cluster.injected(), before, "{field}");
        let (status, reason, message) = cluster.condition(0);
        assert_eq!((status.as_str(), reason.as_str()), ("False", "InvalidSpec"));
        assert!(message.contains(words), "{message}");
        // The other one goes on.
        cluster.edit(1, |spec| spec["containers"][0]["image"] = json!("b:2"));
        cluster.settle();
        assert_eq!(cluster.injected()[1].containers[0]["image"], "b:2");
    }
}

#[test]
fn paused_and_deleted_ones_put_nothing_into_new_pods() {
    let mut cluster = Cluster::of(&[set("a", "a:1"), set("b", "b:1")]);
    cluster.settle();
    cluster.edit(0, |spec| spec["injectionStrategy"] = json!({"paused": true}));
    cluster.sets[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.settle();
    assert_eq!(cluster.injected(), []);
    assert_eq!(cluster.condition(0).1, "InjectionPaused");
}

#[test]
fn one_that_was_made_anew_under_its_name_is_another_one() {
    let mut cluster = Cluster::of(&[set("a", "a:1")]);
    cluster.settle();
    cluster.sets[0] = set("a", "a:2");
    cluster.sets[0]["metadata"]["uid"] = json!("another");
    assert_eq!(cluster.step().len(), 1);
    assert_eq!(cluster.injected(), [], "what was deleted is put into no pod");
    cluster.settle();
    assert_eq!(cluster.injected()[0].uid, "another");
}

#[test]
fn pods_are_counted_by_what_admission_has_put_into_them() {
    let mut cluster = Cluster::of(&[set("a", "a:1"), set("b", "b:1")]);
    cluster.settle();
    let hash = cluster.injected()[0].hash.clone();
    cluster.pods = vec![
        pod("p1", &format!("a={hash},b=old"), true),
        pod("p2", &format!("a={hash}"), false),
        pod("p3", "a=old", true),
        pod("p4", "", true),
    ];
    cluster.settle();
    let counts = |index: usize| {
        let status = &cluster.sets[index]["status"];
        ["matchedPods", "updatedPods", "readyPods", "updatedReadyPods"].map(|field| status[field].as_i64().unwrap())
    };
    assert_eq!((counts(0), counts(1)), ([3, 2, 2, 1], [1, 0, 1, 0]));
}
