//! A CollaSet that KusionStack's kuperator v0.7.4 has run is taken over as it is, and what is left after hitless is what kuperator
//! expects (docs/migration.md).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_workloads::{Plan, Request, World, registry};
use hitless_world::carry_out;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Names as kuperator makes them: FNV of the data.
const REVISIONS: [&str; 2] = ["web-5f7c8d9b64", "web-6d8f7c5b9d"];

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

/// What is in the API server.
struct Left {
    objects: BTreeMap<(String, String), Value>,
    pods: Vec<Value>,
    version: u32,
}

impl Left {
    /// Three pods in the middle of nothing: one revision before, one of now, and pods whose names do not tell their ids.
    fn by_kuperator() -> Self {
        let owner = json!([{"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "web", "uid": "set", "controller": true,
            "blockOwnerDeletion": true}]);
        let meta = |name: &str, uid: &str| json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "7", "generation": 4});
        let mut objects = BTreeMap::new();
        let mut add =
            |kind: &str, name: &str, object: Value| objects.insert((kind.to_owned(), name.to_owned()), object);
        add(
            "CollaSet",
            "web",
            json!({
                "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": meta("web", "set"),
                "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("r.io/web:v2")},
                "status": {"observedGeneration": 4, "currentRevision": REVISIONS[1], "updatedRevision": REVISIONS[1], "replicas": 3,
                    "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
            }),
        );
        for (number, (name, image)) in REVISIONS.iter().zip(["r.io/web:v1", "r.io/web:v2"]).enumerate() {
            let mut data = template(image);
            data["$patch"] = json!("replace");
            let mut revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name, name),
                "revision": number + 1, "data": {"spec": {"template": data}}});
            revision["metadata"]["ownerReferences"] = owner.clone();
            revision["metadata"]["labels"] = json!({"app": "web", "controller.kubernetes.io/hash": &name[4..]});
            add("ControllerRevision", name, revision);
        }
        let contexts: Vec<Value> =
            (0..3).map(|id| json!({"id": id, "data": {"Owner": "web", "Revision": REVISIONS[1]}})).collect();
        add(
            "ResourceContext",
            "web",
            json!({
                "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "ResourceContext", "metadata": meta("web", "context"),
                "spec": {"contexts": contexts}
            }),
        );
        let pod = |(id, name): (usize, &str)| {
            let mut pod = json!({
                "metadata": meta(name, name),
                "spec": {"nodeName": "n", "containers": [{"name": "web", "image": "r.io/web:v2"}],
                    "readinessGates": [{"conditionType": "pod.kusionstack.io/service-ready"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"},
                        {"type": "pod.kusionstack.io/service-ready", "status": "True"}],
                    "containerStatuses": [{"name": "web", "image": "r.io/web:v2", "imageID": "r.io/web@sha256:2", "ready": true,
                        "restartCount": 0, "containerID": "containerd://1"}]},
            });
            pod["metadata"]["ownerReferences"] = owner.clone();
            pod["metadata"]["labels"] = json!({"app": "web", "kusionstack.io/control": "true",
                "collaset.kusionstack.io/instance-id": id.to_string(), "controller-revision-hash": REVISIONS[1],
                "podopslifecycle.kusionstack.io/service-available": "1700000000"});
            pod
        };
        let pods = ["web-x7k2p", "web-b9qzn", "web-m4c8d"].into_iter().enumerate().map(pod).collect();
        Self { objects, pods, version: 100 }
    }

    /// The same pods with a sidecar by a PodDecoration.
    fn decorated_by_kuperator() -> Self {
        const REVISION: &str = "log-7b9c5d8f6c";
        let mut left = Self::by_kuperator();
        let sidecar = json!({"name": "log", "image": "r.io/log:v1", "resources": {}});
        let mut template = json!({"containers": [{"name": "log", "image": "r.io/log:v1", "resources": {}, "injectPolicy": "AfterPrimaryContainer"}]});
        let meta = |name: &str, uid: &str| {
            json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "7", "generation": 2,
            "finalizers": ["finalizer.example/protected"]})
        };
        let decoration = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration", "metadata": meta("log", "decoration"),
            "spec": {"historyLimit": 20, "weight": 0, "selector": {"matchLabels": {"app": "web"}}, "updateStrategy": {}, "template": template},
            "status": {"observedGeneration": 2, "currentRevision": REVISION, "updatedRevision": REVISION, "collisionCount": 0,
                "matchedPods": 3, "injectedPods": 3, "updatedPods": 3, "updatedReadyPods": 3, "updatedAvailablePods": 3}});
        template["$patch"] = json!("replace");
        let mut revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(REVISION, "r"), "revision": 1,
            "data": {"spec": {"template": template}}});
        let owner = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration", "name": "log", "uid": "decoration"});
        revision["metadata"]["ownerReferences"] = json!([owner]);
        revision["metadata"]["ownerReferences"][0]["controller"] = json!(true);
        left.objects.insert(("PodDecoration".to_owned(), "log".to_owned()), decoration);
        left.objects.insert(("ControllerRevision".to_owned(), REVISION.to_owned()), revision);
        for pod in &mut left.pods {
            pod["metadata"]["labels"]["poddecoration.kusionstack.io/pd-log"] = json!(REVISION);
            pod["metadata"]["annotations"] = json!({"poddecoration.kusionstack.io/revisions": json!([{"name": "log", "revision": REVISION}]).to_string()});
            pod["metadata"]["ownerReferences"].as_array_mut().unwrap().push(owner.clone());
            pod["spec"]["containers"].as_array_mut().unwrap().push(sidecar.clone());
        }
        left
    }

    fn plan(&self) -> Plan {
        let objects: Vec<_> =
            self.objects.values().map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let view = |pod: &Value| Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let pods: Vec<_> = self.pods.iter().map(view).collect();
        // That of the CollaSet, with all that is written beside it.
        let mut plans = World::new(&objects, &pods, BTreeSet::new()).plans();
        let mut plan = plans.remove(0);
        plan.writes.extend(plans.into_iter().flat_map(|other| other.writes));
        plan
    }

    /// The controller's turns, until nothing is left to write. No pod may be touched.
    fn settle(&mut self) {
        for _ in 0..9 {
            let plan = self.plan();
            assert_eq!(plan.desired, [], "no pod is operated");
            let writes: Vec<_> = plan.writes.iter().filter(|write| !write.is_confirmation()).collect();
            if writes.is_empty() {
                return;
            }
            for write in writes {
                assert!(!write.on.group_kind.is("", "Pod"), "a pod is written: {write:?}");
                assert!(!matches!(write.request, Request::Create(_) | Request::Delete(_)), "{write:?}");
                self.version += 1;
                let key = (write.on.group_kind.kind.clone().into_owned(), write.on.name.clone());
                // The finalizer and the status are writes of one object: the second one comes in the next turn.
                if let Ok(stored) = carry_out(write, self.objects.get(&key), &self.version.to_string(), "") {
                    self.objects.insert(key, stored.unwrap());
                }
            }
        }
        panic!("it writes for ever: {:?}", self.objects)
    }
}

#[test]
fn pods_ids_and_revisions_of_kuperators_are_taken_over_and_no_pod_is_touched() {
    let mut left = Left::by_kuperator();
    let before = (left.pods.clone(), left.objects.clone());
    left.settle();
    assert_eq!(left.pods, before.0);
    for name in REVISIONS {
        let key = ("ControllerRevision".to_owned(), name.to_owned());
        assert_eq!(left.objects[&key], before.1[&key], "the revision of that name stays as it is");
    }
    // Which pod stands for which id, by the pods' own labels.
    let context = &left.objects[&("ResourceContext".to_owned(), "web".to_owned())];
    let names = |id: usize| context["spec"]["contexts"][id]["data"]["hitless.dev/pod"].as_str().unwrap().to_owned();
    assert_eq!([names(0), names(1), names(2)], ["web-x7k2p", "web-b9qzn", "web-m4c8d"]);
    let status = &left.objects[&("CollaSet".to_owned(), "web".to_owned())]["status"];
    assert_eq!((&status["updatedRevision"], &status["updatedReplicas"]), (&json!(REVISIONS[1]), &json!(3)));
}

#[test]
fn what_is_left_is_what_kuperator_expects() {
    let mut left = Left::by_kuperator();
    left.settle();
    let context = &left.objects[&("ResourceContext".to_owned(), "web".to_owned())];
    for entry in context["spec"]["contexts"].as_array().unwrap() {
        // Its webhook: every owner is the context's name. Its controller: a revision that is there. Other keys it does not read.
        assert_eq!((&entry["data"]["Owner"], &entry["data"]["Revision"]), (&json!("web"), &json!(REVISIONS[1])));
    }
    let revision = &left.objects[&("ControllerRevision".to_owned(), REVISIONS[1].to_owned())];
    assert_eq!(revision["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(revision["data"]["spec"]["template"]["spec"], template("r.io/web:v2")["spec"]);
    for pod in &left.pods {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], REVISIONS[1]);
    }
}

#[test]
fn pods_with_a_decoration_of_kuperators_are_taken_over_and_a_changed_image_goes_in_place() {
    let mut left = Left::decorated_by_kuperator();
    let before = left.pods.clone();
    left.settle();
    assert_eq!(left.pods, before);
    let key = ("PodDecoration".to_owned(), "log".to_owned());
    assert_eq!(left.objects[&key]["status"]["updatedRevision"], "log-7b9c5d8f6c");
    left.objects.get_mut(&key).unwrap()["spec"]["template"]["containers"][0]["image"] = json!("r.io/log:v2");
    let create = left.plan().writes.into_iter().find(|write| write.verb == "create-revision").unwrap();
    let made = carry_out(&create, None, "200", "2026-11-23T00:00:00Z").unwrap().unwrap();
    left.objects.insert(("ControllerRevision".to_owned(), create.on.name.clone()), made);
    let plan = left.plan();
    assert_eq!(plan.desired.len(), 3);
    for wanted in &plan.desired {
        let operation = &wanted.intent.as_ref().unwrap().operation;
        let containers: Vec<&str> = operation.containers.keys().map(String::as_str).collect();
        assert_eq!((containers, operation.labels.len()), (vec!["log"], 1), "{operation:?}");
    }
}
