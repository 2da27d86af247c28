//! What kube-controller-manager does to the Deployment and its ReplicaSets, carried out.

use std::sync::Arc;

use hitless_world::native::{self, Act, Seen};
use hitless_world::{WorkloadObject, api_server};
use serde_json::{Value, json};

use crate::cluster::{Cluster, NAMESPACE, NODES, view};

impl Cluster {
    /// Kubernetes' own controllers: one sync of the Deployment and of every ReplicaSet.
    pub(crate) fn controllers(&mut self) {
        self.sync(&self.deployment.clone());
        for set in self.sets.values().cloned().collect::<Vec<_>>() {
            self.sync(&set);
        }
    }

    fn sync(&mut self, object: &Value) {
        let read = |object: &Value| WorkloadObject::read(object.clone()).unwrap();
        let (object, sets) = (read(object), self.sets.values().map(read).collect::<Vec<_>>());
        let pods: Vec<_> = self.pods.values().map(|pod| Arc::new(view(pod))).collect();
        for act in native::sync(&Seen::new(&object, &sets, &pods)) {
            self.carry_out(&object, act);
        }
    }

    fn carry_out(&mut self, object: &WorkloadObject, act: Act) {
        let number = self.bump();
        match act {
            Act::Scale { child, replicas } => {
                self.change_set(&child.name, &number, |set| set["spec"]["replicas"] = json!(replicas));
            }
            Act::Status(status) => {
                self.change_set(&object.view.id.name, &number, |set| native::report(set, &status));
            }
            Act::MakePod(_) => {
                let pod = pod(&number, &object.json, self.pods.len() % NODES);
                self.pods.insert(format!("pod-{number}"), pod);
            }
            Act::RemovePod(uid) => _ = self.pods.remove(&uid),
            Act::Rolls(what) => panic!("{what}"),
            Act::Make(_) | Act::Renumber { .. } => panic!("not in a Deployment that is updated in place: {act:?}"),
        }
    }

    fn change_set(&mut self, name: &str, version: &str, change: impl FnOnce(&mut Value)) {
        let known = self.sets.get_mut(name).unwrap();
        let mut next = known.clone();
        change(&mut next);
        if next != *known {
            *known = api_server::stored(known, next, version);
        }
    }
}

fn pod(number: &str, set: &Value, node: usize) -> Value {
    let (meta, template) = (&set["metadata"], &set["spec"]["template"]);
    let name = format!("pod-{number}");
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": number,
            "labels": template["metadata"]["labels"], "annotations": {"template": "1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": meta["name"], "uid": meta["uid"], "controller": true}]},
        "spec": {"nodeName": format!("n{node}"), "readinessGates": [{"conditionType": "hitless.dev/InService"}],
            "containers": [{"name": "web", "image": template["spec"]["containers"][0]["image"]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "hitless.dev/InService", "status": "True"}],
            "containerStatuses": [{"name": "web", "image": "", "imageID": "web@sha256:1", "containerID": format!("c://{number}"), "ready": true, "restartCount": 0}]}
    })
}
