//! A StatefulSet or DaemonSet with its revisions and pods, and what is done to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_workloads::{BadVersion, Kind, Object, Plan, World, registry};
use hitless_world::native::{self, Act, Seen};
use hitless_world::{WorkloadObject, carry_out};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A workload in the middle of a change from `web:v1` to `web:v2`, as the guard has stored it and the native controller has seen it.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) workload: Value,
    pub(crate) revisions: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) operating: BTreeSet<String>,
    /// uids of pods whose removal is reserved.
    pub(crate) removable: BTreeSet<String>,
}
pub(crate) const BAD: BadVersion<'_> = BadVersion { pod: "web-2", reason: "CrashLoopBackOff", message: "" };

pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn owner(kind: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "uid-web", "controller": true}])
}

pub(crate) fn revision(kind: &str, name: &str, number: i64, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": owner(kind),
            "labels": {"controller-revision-hash": name}},
        "revision": number, "data": {"spec": {"template": template}},
    })
}

pub(crate) fn pod(kind: &str, name: &str, revision: &str, image: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": owner(kind),
            "labels": {"controller-revision-hash": revision, "pod-template-generation": "1"}},
        "spec": {"nodeName": format!("node-of-{name}"), "containers": [{"name": "web", "image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn view(pod: &Value) -> Arc<PodView> {
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()))
}

impl Scene {
    pub(crate) fn new(kind: &str, names: &[&str], strategy: &Value) -> Self {
        let (old, new) = (template("web:v1"), template("web:v2"));
        let workload = json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "1", "generation": 2,
                "annotations": {"hitless.dev/update": "in-place", "deprecated.daemonset.template.generation": "2"}},
            "spec": {"replicas": names.len(), "template": new, "updateStrategy": strategy},
            "status": {"observedGeneration": 2, "updateRevision": "new", "desiredNumberScheduled": names.len()},
        });
        Self {
            workload,
            revisions: vec![revision(kind, "old", 1, &old), revision(kind, "new", 2, &new)],
            pods: names.iter().map(|name| pod(kind, name, "old", "web:v1")).collect(),
            operating: BTreeSet::new(),
            removable: BTreeSet::new(),
        }
    }

    /// A StatefulSet of three, held.
    pub(crate) fn stateful_set(strategy: &Value) -> Self {
        Self::new("StatefulSet", &["web-0", "web-1", "web-2"], strategy).held()
    }

    pub(crate) fn held(mut self) -> Self {
        self.workload = self.kind().held(self.workload.clone());
        self
    }

    pub(crate) fn root(&self) -> Object {
        registry::read(self.workload.clone()).unwrap().unwrap()
    }

    pub(crate) fn kind(&self) -> &'static dyn Kind {
        registry::of_workload(&self.root().id.group_kind).unwrap()
    }

    pub(crate) fn with<R>(&self, look: impl FnOnce(&World<'_>, &Object) -> R) -> R {
        let all = std::iter::once(&self.workload).chain(&self.revisions);
        let objects: Vec<Arc<Object>> =
            all.map(|each| Arc::new(registry::read(each.clone()).unwrap().unwrap())).collect();
        let pods: Vec<Arc<PodView>> = self.pods.iter().map(view).collect();
        let world = World::new(&objects, &pods, self.operating.clone()).removing(self.removable.clone());
        look(&world, &objects[0])
    }

    pub(crate) fn plan(&self) -> Plan {
        self.with(|world, root| self.kind().plan(root, world))
    }

    /// Names of the pods that may go now.
    pub(crate) fn due(&self) -> Vec<String> {
        self.plan().desired.into_iter().filter(|wanted| wanted.intent.is_ok()).map(|wanted| wanted.pod.name).collect()
    }

    /// What an agent and the native controller make of the pod's operation.
    pub(crate) fn operate(&mut self, name: &str) {
        let plan = self.plan();
        let wanted = plan.desired.into_iter().find(|wanted| wanted.pod.name == name).unwrap();
        let operation = wanted.intent.unwrap().operation;
        let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["name"] == name).unwrap();
        pod["spec"]["containers"][0]["image"] = json!(operation.containers["web"].to);
        for (label, change) in &operation.labels {
            assert_eq!(pod["metadata"]["labels"][label].as_str(), change.from.as_deref());
            pod["metadata"]["labels"][label] = json!(change.to);
        }
        self.count();
    }

    /// The native controller counts the pods; what else it does is not looked at here.
    pub(crate) fn count(&mut self) {
        let read = |object: &Value| WorkloadObject::read(object.clone()).unwrap();
        let (workload, revisions) = (read(&self.workload), self.revisions.iter().map(read).collect::<Vec<_>>());
        let pods: Vec<Arc<PodView>> = self.pods.iter().map(view).collect();
        let nodes = pods.iter().filter_map(|pod| pod.node.clone()).collect();
        for act in native::sync(&Seen::new(&workload, &revisions, &pods).on_nodes(nodes)) {
            if let Act::Status(status) = act {
                native::report(&mut self.workload, &status);
            }
        }
    }

    /// Carries the plan's only write out.
    pub(crate) fn write(&mut self) -> &'static str {
        let write = self.plan().writes.remove(0);
        self.workload = carry_out(&write, Some(&self.workload), "2", "").unwrap().unwrap();
        write.verb
    }
}
