//! Who owns pods in the end.

use std::collections::HashMap;
use std::sync::Arc;

use hitless_api::OwnerKey;
use hitless_api::pod::PodView;

use crate::{DeploymentView, ReplicaSetView};

/// Workloads by uid.
pub struct Owners<'a> {
    sets: HashMap<&'a str, &'a ReplicaSetView>,
    deployments: HashMap<&'a str, &'a DeploymentView>,
}

impl<'a> Owners<'a> {
    /// Of these workloads.
    #[must_use]
    pub fn new(sets: &'a [Arc<ReplicaSetView>], deployments: &'a [Arc<DeploymentView>]) -> Self {
        Self {
            sets: sets.iter().map(|set| (set.uid.as_str(), &**set)).collect(),
            deployments: deployments.iter().map(|each| (each.uid.as_str(), &**each)).collect(),
        }
    }

    /// The Deployment that the pod belongs to.
    #[must_use]
    pub fn deployment(&self, pod: &PodView) -> Option<&'a DeploymentView> {
        self.deployment_of(self.sets.get(pod.owner.as_ref()?.uid.as_str())?)
    }

    /// The top workload of the pod, and how many pods that is meant to have if that is known.
    #[must_use]
    pub fn of(&self, pod: &PodView) -> Option<(OwnerKey, Option<u32>)> {
        let direct = pod.owner.as_ref()?;
        let Some(set) = self.sets.get(direct.uid.as_str()) else {
            return Some((key(&direct.kind, &pod.id.namespace, &direct.name, &direct.uid), None));
        };
        Some(self.top(set))
    }

    /// The top workload of the ReplicaSet, and how many pods that is meant to have if that makes sense.
    #[must_use]
    pub fn top(&self, set: &ReplicaSetView) -> (OwnerKey, Option<u32>) {
        let namespace = &set.namespace;
        match self.deployment_of(set) {
            Some(top) => (key("Deployment", namespace, &top.name, &top.uid), u32::try_from(top.replicas).ok()),
            None => (key("ReplicaSet", namespace, &set.name, &set.uid), u32::try_from(set.replicas).ok()),
        }
    }

    fn deployment_of(&self, set: &ReplicaSetView) -> Option<&'a DeploymentView> {
        self.deployments.get(set.owner.as_ref()?.uid.as_str()).copied()
    }
}

fn key(kind: &str, namespace: &str, name: &str, uid: &str) -> OwnerKey {
    OwnerKey { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn meta(name: &str, owner: Option<(&str, &str)>) -> Value {
        let owners = owner.map(|(kind, name)| {
            json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true})
        });
        let owners: Vec<Value> = owners.into_iter().collect();
        json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "ownerReferences": owners})
    }

    fn set(name: &str, owner: Option<(&str, &str)>) -> Arc<ReplicaSetView> {
        let spec = json!({"replicas": 2, "selector": {}, "template": {}});
        Arc::new(serde_json::from_value(json!({"metadata": meta(name, owner), "spec": spec})).unwrap())
    }

    fn pod(owner: Option<(&str, &str)>) -> PodView {
        let pod = json!({"metadata": meta("p", owner), "spec": {"containers": []}});
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    #[test]
    fn the_topmost_workload_that_is_known_owns_the_pod() {
        let deployment =
            json!({"metadata": meta("web", None), "spec": {"replicas": 3, "selector": {}, "template": {}}});
        let deployments = [Arc::new(serde_json::from_value(deployment).unwrap())];
        let sets = [
            set("web-1", Some(("Deployment", "web"))),
            set("orphan", None),
            set("other-1", Some(("Deployment", "other"))),
        ];
        let owners = Owners::new(&sets, &deployments);
        let table = [
            (Some(("ReplicaSet", "web-1")), Some(("Deployment", "web", Some(3)))),
            (Some(("ReplicaSet", "orphan")), Some(("ReplicaSet", "orphan", Some(2)))),
            (Some(("ReplicaSet", "other-1")), Some(("ReplicaSet", "other-1", Some(2)))),
            (Some(("StatefulSet", "db")), Some(("StatefulSet", "db", None))),
            (None, None),
        ];
        for (direct, top) in table {
            let expected = top.map(|(kind, name, count)| (key(kind, "shop", name, &format!("uid-{name}")), count));
            assert_eq!(owners.of(&pod(direct)), expected);
            let is_deployment = top.is_some_and(|(kind, ..)| kind == "Deployment");
            assert_eq!(owners.deployment(&pod(direct)).is_some(), is_deployment, "{direct:?}");
        }
    }
}
