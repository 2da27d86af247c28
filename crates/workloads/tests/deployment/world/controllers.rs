//! A model of what kube-controller-manager does to Deployments and ReplicaSets: which ReplicaSet it takes for the new one,
//! which it scales, when it makes and removes some; and of the policy that no history entry is raised.

use serde_json::{Value, json};

use super::{POD, World};

/// A creation time that grows with the version.
pub(super) fn created(version: u64) -> String {
    format!("2026-11-22T{:02}:{:02}:{:02}Z", version / 3600 % 24, version / 60 % 60, version % 60)
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    if template["metadata"].get("annotations").is_some_and(|all| all.as_object().is_none_or(serde_json::Map::is_empty))
    {
        template["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    template
}

impl World {
    /// The ReplicaSet that the Deployment controller takes for the new one: the oldest with the Deployment's template.
    pub(crate) fn new_set(&self) -> Option<&Value> {
        let wanted = without_hash(&self.deployment["spec"]["template"]);
        self.sets
            .values()
            .filter(|set| without_hash(&set["spec"]["template"]) == wanted)
            .min_by_key(|set| (set["metadata"]["creationTimestamp"].as_str(), set["metadata"]["name"].as_str()))
    }

    /// What `kubectl rollout status` waits for.
    pub(crate) fn rollout_status_is_done(&self) -> bool {
        let total: i64 = self.sets.values().map(|set| set["status"]["replicas"].as_i64().unwrap_or_default()).sum();
        let updated = self.new_set().map_or(0, |set| set["status"]["replicas"].as_i64().unwrap_or_default());
        updated >= self.deployment["spec"]["replicas"].as_i64().unwrap() && total <= updated
    }

    fn set_replicas(&mut self, name: &str, replicas: &Value) -> bool {
        let version = self.bump();
        let set = self.sets.get_mut(name).unwrap();
        let history = set["metadata"]["labels"].get("hitless.dev/history").is_some();
        if &set["spec"]["replicas"] == replicas || (history && replicas.as_i64() > set["spec"]["replicas"].as_i64()) {
            return false;
        }
        set["spec"]["replicas"] = replicas.clone();
        set["metadata"]["generation"] = json!(set["metadata"]["generation"].as_i64().unwrap() + 1);
        set["metadata"]["resourceVersion"] = json!(version);
        true
    }

    /// One sync of the Deployment.
    pub(crate) fn deployment_controller(&mut self) -> bool {
        let wanted = self.deployment["spec"]["replicas"].clone();
        let name = |set: &Value| set["metadata"]["name"].as_str().unwrap().to_owned();
        let new = self.new_set().map(name);
        if self.deployment["spec"]["paused"] == true {
            let mut by_age: Vec<_> = self.sets.values().filter(|set| Some(name(set)) != new).collect();
            by_age.sort_by_key(|set| {
                std::cmp::Reverse(set["metadata"]["creationTimestamp"].as_str().unwrap().to_owned())
            });
            let newest_old = by_age.first().map(|set| name(set));
            let active: Vec<_> = self.sets.values().filter(|set| set["spec"]["replicas"] != 0).map(name).collect();
            let chosen = match active.as_slice() {
                [] => new.or(newest_old),
                [one] => Some(one.clone()),
                _ => None,
            };
            return chosen.is_some_and(|name| self.set_replicas(&name, &wanted));
        }
        let Some(new) = new else {
            let version = self.bump();
            let hash = format!("native{version}");
            let mut set =
                self.sets.values().next().cloned().unwrap_or_else(|| serde_json::from_str(super::REPLICA_SET).unwrap());
            let mut template = self.deployment["spec"]["template"].clone();
            template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
            set["metadata"]["labels"] = template["metadata"]["labels"].clone();
            set["metadata"]["name"] = json!(format!("web-{hash}"));
            set["metadata"]["uid"] = json!(format!("uid-{version}"));
            set["metadata"]["creationTimestamp"] = json!(created(version.parse().unwrap()));
            set["metadata"]["resourceVersion"] = json!(version);
            set["metadata"]["generation"] = json!(1);
            set["spec"] = json!({"replicas": wanted, "template": template,
                "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}}});
            set["status"] = json!({"replicas": 0});
            self.sets.insert(format!("web-{hash}"), set);
            return true;
        };
        let olds: Vec<_> = self.sets.keys().filter(|name| **name != new).cloned().collect();
        let down = olds.iter().filter(|old| self.set_replicas(old, &json!(0))).count() > 0;
        self.set_replicas(&new, &wanted) || down
    }

    /// One sync of every ReplicaSet.
    pub(crate) fn replica_set_controller(&mut self) -> bool {
        let mut acted = false;
        for name in self.sets.keys().cloned().collect::<Vec<_>>() {
            let set = self.sets[&name].clone();
            let uid = set["metadata"]["uid"].as_str().unwrap();
            let mut mine: Vec<String> = self
                .pods
                .iter()
                .filter(|(_, pod)| pod["metadata"]["ownerReferences"][0]["uid"] == uid)
                .map(|(name, _)| name.clone())
                .collect();
            let wanted = usize::try_from(set["spec"]["replicas"].as_u64().unwrap()).unwrap();
            while mine.len() > wanted {
                self.pods.remove(&mine.pop().unwrap());
                acted = true;
            }
            while mine.len() < wanted {
                mine.push(self.create_pod(&set));
                acted = true;
            }
            let status = json!({"replicas": mine.len(), "observedGeneration": set["metadata"]["generation"]});
            if set["status"] != status {
                let version = self.bump();
                let set = self.sets.get_mut(&name).unwrap();
                set["status"] = status;
                set["metadata"]["resourceVersion"] = json!(version);
                acted = true;
            }
        }
        let owners: Vec<String> =
            self.sets.values().map(|set| set["metadata"]["uid"].as_str().unwrap().to_owned()).collect();
        let before = self.pods.len();
        self.pods
            .retain(|_, pod| owners.iter().any(|uid| pod["metadata"]["ownerReferences"][0]["uid"] == uid.as_str()));
        acted || self.pods.len() != before
    }

    fn create_pod(&mut self, set: &Value) -> String {
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
        self.pods.insert(name.clone(), pod);
        name
    }
}
