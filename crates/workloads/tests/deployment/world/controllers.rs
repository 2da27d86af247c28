//! What kube-controller-manager does to the Deployment and its ReplicaSets, carried out.

use std::collections::BTreeSet;

use hitless_world::native::{self, Act, Seen, deployment};
use hitless_world::{WorkloadObject, api_server};
use serde_json::{Value, json};

use super::{POD, World, view};

/// A creation time that grows with the version.
pub(super) fn created(version: u64) -> String {
    format!("2026-11-22T{:02}:{:02}:{:02}Z", version / 3600 % 24, version / 60 % 60, version % 60)
}

fn read(object: &Value) -> WorkloadObject {
    WorkloadObject::read(object.clone()).unwrap()
}

impl World {
    /// The ReplicaSet that the Deployment controller takes for the new one.
    pub(crate) fn new_set(&self) -> Option<&Value> {
        let (deployment, sets) = (read(&self.deployment), self.sets.values().map(read).collect::<Vec<_>>());
        let sets = sets.iter().filter_map(|set| set.view.replica_set());
        deployment::new_set(deployment.view.template()?, sets).map(|set| &self.sets[&set.object.id.name])
    }

    /// What `kubectl rollout status` waits for.
    pub(crate) fn rollout_status_is_done(&self) -> bool {
        let total: i64 = self.sets.values().map(|set| set["status"]["replicas"].as_i64().unwrap_or_default()).sum();
        let updated = self.new_set().map_or(0, |set| set["status"]["replicas"].as_i64().unwrap_or_default());
        updated >= self.deployment["spec"]["replicas"].as_i64().unwrap() && total <= updated
    }

    /// One sync of the Deployment.
    pub(crate) fn deployment_controller(&mut self) -> bool {
        let sets: Vec<WorkloadObject> = self.sets.values().map(read).collect();
        self.sync(&Seen::new(&read(&self.deployment), &sets, []))
    }

    /// One sync of every ReplicaSet, and the garbage collector.
    pub(crate) fn replica_set_controller(&mut self) -> bool {
        let sets: Vec<WorkloadObject> = self.sets.values().map(read).collect();
        let pods: Vec<_> = self.pods.values().map(view).collect();
        let acted = sets.iter().filter(|set| self.sync(&Seen::new(set, [], &pods))).count() > 0;
        let owners: BTreeSet<&str> = sets.iter().map(|set| set.view.id.uid.as_str()).collect();
        let before = self.pods.len();
        self.pods.retain(|_, pod| owners.contains(pod["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap()));
        acted || self.pods.len() != before
    }

    /// Whether anything has changed.
    fn sync(&mut self, seen: &Seen<'_>) -> bool {
        native::sync(seen).into_iter().filter(|act| self.carry_out(seen.object, act)).count() > 0
    }

    fn carry_out(&mut self, object: &WorkloadObject, act: &Act) -> bool {
        let name = &object.view.id.name;
        match act {
            Act::Scale { child, replicas } => {
                self.change_set(&child.name, |set| set["spec"]["replicas"] = json!(*replicas))
            }
            Act::Status(status) => self.change_set(name, |set| native::report(set, status)),
            Act::Make(set) => {
                let (name, version) = (set["metadata"]["name"].as_str().unwrap().to_owned(), self.bump());
                let set = api_server::created(set.clone(), &version, &created(self.version));
                self.sets.insert(name, set).is_none()
            }
            Act::MakePod(_) => self.create_pod(&object.json),
            Act::RemovePod(uid) => {
                self.pods.retain(|_, pod| pod["metadata"]["uid"] != uid.as_str());
                true
            }
            // A change that can't be made in place.
            Act::Rolls(_) => false,
            Act::Renumber { child, .. } => panic!("{} is no ReplicaSet", child.name),
        }
    }

    fn change_set(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        let version = self.bump();
        let known = self.sets.get_mut(name).unwrap();
        let mut next = known.clone();
        change(&mut next);
        let differs = next != *known;
        if differs {
            *known = api_server::stored(known, next, &version);
        }
        differs
    }

    fn create_pod(&mut self, set: &Value) -> bool {
        let version = self.bump();
        let mut pod: Value = serde_json::from_str(POD).unwrap();
        let name = format!("pod-{version}");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["uid"] = json!(format!("uid-{version}"));
        pod["metadata"]["resourceVersion"] = json!(version);
        pod["metadata"]["labels"] = set["spec"]["template"]["metadata"]["labels"].clone();
        pod["metadata"]["annotations"] = set["spec"]["template"]["metadata"]["annotations"].clone();
        pod["metadata"]["annotations"][super::RUNS] = super::runs(&set["spec"]["template"]);
        pod["metadata"]["ownerReferences"][0]["name"] = set["metadata"]["name"].clone();
        pod["metadata"]["ownerReferences"][0]["uid"] = set["metadata"]["uid"].clone();
        for (index, container) in set["spec"]["template"]["spec"]["containers"].as_array().unwrap().iter().enumerate() {
            pod["spec"]["containers"][index]["image"] = container["image"].clone();
            pod["status"]["containerStatuses"][index]["imageID"] = json!("registry.test:5000/echo@sha256:1234");
        }
        self.pods.insert(name, pod).is_none()
    }
}
