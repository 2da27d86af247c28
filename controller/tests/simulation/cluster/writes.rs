//! What the API server makes of writes to pods of ours and to the workload's objects.

use hitless_rollout::prefetch;
use hitless_rollout::round::{CompanionWrite, PrefetchWrite};
use hitless_world::carry_out;
use serde_json::json;

use super::Cluster;

impl Cluster {
    pub(super) fn prefetch(&mut self, write: &PrefetchWrite) -> bool {
        match write {
            PrefetchWrite::Create { pull, attempt, resources, owner } => {
                let mut pod = prefetch::manifest(pull, *attempt, *resources, owner);
                let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
                pod["metadata"]["uid"] = json!(format!("uid-{name}"));
                pod["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                self.prefetches.insert(name, pod).is_none()
            }
            PrefetchWrite::Delete(pod) => self.prefetches.remove(&pod.name).is_some(),
        }
    }

    pub(super) fn companion(&mut self, write: &CompanionWrite) -> bool {
        match write {
            CompanionWrite::Create { manifest, .. } => {
                let mut pod = manifest.clone();
                let (name, version) = (pod["metadata"]["name"].as_str().unwrap().to_owned(), self.bump());
                pod["metadata"]["uid"] = json!(format!("uid-{name}"));
                pod["metadata"]["resourceVersion"] = json!(version);
                pod["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                pod["status"] = json!({"conditions": []});
                self.companions.insert(name, pod).is_none()
            }
            CompanionWrite::Delete { pod, .. } => self.companions.remove(&pod.name).is_some(),
        }
    }

    pub(super) fn request(&mut self, write: &hitless_workloads::Write, version: &str) -> bool {
        if write.on.group_kind.is("", "Pod") {
            let uid = &write.on.uid;
            match carry_out(write, self.pods.get(uid), version, &self.now.to_string()) {
                Err(_) => return false,
                Ok(None) => _ = self.pods.remove(uid),
                Ok(Some(pod)) => _ = self.pods.insert(uid.clone(), pod),
            }
            return true;
        }
        let name = &write.on.name;
        let is_set = write.on.group_kind.kind == "ReplicaSet";
        let known = if is_set { self.sets.get(name) } else { Some(&self.deployment) };
        match carry_out(write, known, version, &self.now.to_string()) {
            Err(_) => return false,
            Ok(None) => _ = self.sets.remove(name),
            Ok(Some(object)) if is_set => _ = self.sets.insert(name.clone(), object),
            Ok(Some(object)) => self.deployment = object,
        }
        true
    }
}
