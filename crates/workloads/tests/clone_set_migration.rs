//! A CloneSet that OpenKruise's manager has run is taken over as it is, and what is left after hitless is what that manager expects
//! (docs/migration.md). The objects are written after its source, v1.9.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_workloads::{Plan, Request, World, registry};
use hitless_world::carry_out;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Names as Kruise makes them.
const REVISIONS: [&str; 2] = ["web-5f7c8d9b64", "web-6d8f7c5b9d"];
/// Ids of the pods.
const IDS: [&str; 3] = ["x7k2p", "b9qzn", "m4c8d"];

fn template(image: &str) -> Value {
    json!({"metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image, "imagePullPolicy": "IfNotPresent", "resources": {}}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst"}})
}

/// What is in the API server.
struct Left {
    objects: BTreeMap<(String, String), Value>,
    pods: Vec<Value>,
    version: u32,
}

impl Left {
    /// A set at rest: two revisions, three pods with claims. `hook` is its `lifecycle`.
    fn by_kruise(hook: &Value) -> Self {
        let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "set", "controller": true,
            "blockOwnerDeletion": true}]);
        let meta = |name: &str, uid: &str| json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "7", "generation": 4});
        let mut objects = BTreeMap::new();
        let mut add =
            |kind: &str, name: &str, object: Value| objects.insert((kind.to_owned(), name.to_owned()), object);
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": meta("web", "set"),
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("r.io/web:v2"),
                "volumeClaimTemplates": [claim], "revisionHistoryLimit": 10, "scaleStrategy": {},
                "updateStrategy": {"type": "InPlaceIfPossible", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0}},
            "status": {"observedGeneration": 4, "currentRevision": REVISIONS[1], "updateRevision": REVISIONS[1], "replicas": 3,
                "updatedReplicas": 3, "updatedReadyReplicas": 3, "updatedAvailableReplicas": 3, "readyReplicas": 3,
                "availableReplicas": 3, "expectedUpdatedReplicas": 3, "labelSelector": "app=web", "collisionCount": 0}
        });
        if !hook.is_null() {
            set["spec"]["lifecycle"] = hook.clone();
        }
        add("CloneSet", "web", set);
        for (number, (name, image)) in REVISIONS.iter().zip(["r.io/web:v1", "r.io/web:v2"]).enumerate() {
            let mut data = template(image);
            data["$patch"] = json!("replace");
            let mut revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name, name),
                "revision": number + 1, "data": {"spec": {"template": data}}});
            revision["metadata"]["ownerReferences"] = owner.clone();
            revision["metadata"]["labels"] = json!({"app": "web", "controller.kubernetes.io/hash": &name[4..]});
            add("ControllerRevision", name, revision);
        }
        for id in IDS {
            let name = format!("data-web-{id}");
            let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta(&name, &name), "spec": {}});
            claim["metadata"]["ownerReferences"] = owner.clone();
            claim["metadata"]["labels"] = json!({"app": "web", "apps.kruise.io/cloneset-instance-id": id});
            add("PersistentVolumeClaim", &name, claim);
        }
        let pod = |id: &str| {
            let name = format!("web-{id}");
            let mut spec = template("r.io/web:v2")["spec"].clone();
            spec["nodeName"] = json!("n");
            spec["readinessGates"] =
                json!([{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}]);
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-web-{id}")}}]);
            let condition = |kind: &str| json!({"type": kind, "status": "True"});
            let conditions = ["Ready", "InPlaceUpdateReady", "KruisePodReady"].map(condition);
            let mut pod = json!({"metadata": meta(&name, &name), "spec": spec,
                "status": {"phase": "Running", "conditions": conditions,
                    "containerStatuses": [{"name": "web", "image": "r.io/web:v2", "imageID": "r.io/web@sha256:2", "ready": true,
                        "restartCount": 1, "containerID": "containerd://1", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}});
            pod["metadata"]["ownerReferences"] = owner.clone();
            pod["metadata"]["labels"] = json!({"app": "web", "apps.kruise.io/cloneset-instance-id": id,
                "controller-revision-hash": REVISIONS[1], "pod-template-hash": "6d8f7c5b9d",
                "lifecycle.apps.kruise.io/state": "Normal"});
            pod["metadata"]["annotations"] = json!({"lifecycle.apps.kruise.io/timestamp": "2026-01-01T00:00:00Z",
                "apps.kruise.io/inplace-update-state": json!({"revision": REVISIONS[1]}).to_string()});
            pod
        };
        Self { objects, pods: IDS.map(pod).into(), version: 100 }
    }

    fn plan(&self) -> Plan {
        let objects: Vec<_> =
            self.objects.values().map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let view = |pod: &Value| Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let pods: Vec<_> = self.pods.iter().map(view).collect();
        let mut plans = World::new(&objects, &pods, BTreeSet::new()).plans();
        assert_eq!(plans.len(), 1);
        plans.remove(0)
    }

    /// The controller's turns, until nothing is left to write. No pod may be touched, and nothing made or deleted.
    fn settle(&mut self) {
        for _ in 0..9 {
            let plan = self.plan();
            assert_eq!(plan.desired, [], "no pod is operated");
            let writes: Vec<_> = plan.writes.iter().filter(|write| !write.is_confirmation()).collect();
            if writes.is_empty() {
                return;
            }
            for write in writes {
                let kind = &*write.on.group_kind.kind;
                assert!(["CloneSet", "PersistentVolumeClaim"].contains(&kind), "something else is written: {write:?}");
                assert!(!matches!(write.request, Request::Create(_) | Request::Delete(_)), "{write:?}");
                self.version += 1;
                let key = (write.on.group_kind.kind.clone().into_owned(), write.on.name.clone());
                // Annotation and status are writes of one object: the second one comes in the next turn.
                if let Ok(stored) = carry_out(write, self.objects.get(&key), &self.version.to_string(), "") {
                    self.objects.insert(key, stored.unwrap());
                }
            }
        }
        panic!("it writes for ever: {:?}", self.objects)
    }

    fn set(&mut self) -> &mut Value {
        self.objects.get_mut(&("CloneSet".to_owned(), "web".to_owned())).unwrap()
    }
}

#[test]
fn pods_ids_claims_and_revisions_of_kruises_are_taken_over_and_nothing_is_touched() {
    for hook in [Value::Null, json!({"inPlaceUpdate": {"labelsHandler": {"example.com/hook": "true"}}})] {
        let mut left = Left::by_kruise(&hook);
        if !hook.is_null() {
            for pod in &mut left.pods {
                pod["metadata"]["labels"]["example.com/hook"] = json!("true");
            }
        }
        let before = (left.pods.clone(), left.objects.clone());
        left.settle();
        assert_eq!(left.pods, before.0);
        for (key, object) in &mut left.objects {
            if key.0 == "PersistentVolumeClaim" {
                // All that is written on a claim is whose it is.
                let labels = object["metadata"]["labels"].as_object_mut().unwrap();
                assert_eq!(labels.remove("hitless.dev/claim-of"), Some(json!("set")));
                object["metadata"]["resourceVersion"] = json!("7");
                assert_eq!(*object, before.1[key]);
            }
        }
        let status = left.set()["status"].clone();
        assert_eq!((&status["updateRevision"], &status["updatedReadyReplicas"]), (&json!(REVISIONS[1]), &json!(3)));
        let instances = left.set()["metadata"]["annotations"]["hitless.dev/instances"].as_str().unwrap().to_owned();
        assert!(IDS.iter().all(|id| instances.contains(id)), "{instances}");
    }
}

#[test]
fn the_next_image_goes_in_place_in_pods_that_kruise_has_made() {
    let mut left = Left::by_kruise(&Value::Null);
    left.settle();
    left.set()["spec"]["template"]["spec"]["containers"][0]["image"] = json!("r.io/web:v3");
    left.set()["metadata"]["generation"] = json!(5);
    let create = left.plan().writes.into_iter().find(|write| write.verb == "create-revision").unwrap();
    let made = carry_out(&create, None, "200", "2026-11-23T00:00:00Z").unwrap().unwrap();
    left.objects.insert(("ControllerRevision".to_owned(), create.on.name.clone()), made.clone());
    assert_eq!(made["data"]["spec"]["template"]["$patch"], "replace", "as Kruise writes them");
    let desired = left.plan().desired;
    assert!(!desired.is_empty());
    for wanted in &desired {
        let operation = &wanted.intent.as_ref().unwrap().operation;
        assert_eq!(operation.containers["web"].to, "r.io/web:v3");
        assert_eq!(operation.labels["controller-revision-hash"].to.as_deref(), Some(create.on.name.as_str()));
    }
}
