//! Who owns pods in the end.

use std::collections::HashMap;

use hitless_api::pod::PodView;
use hitless_gate::OwnerKey;
use hitless_workloads::{DeploymentView, ReplicaSetView};

use crate::snapshot::Snapshot;

pub(crate) struct Owners<'a> {
    sets: HashMap<&'a str, &'a ReplicaSetView>,
    deployments: HashMap<&'a str, &'a DeploymentView>,
}

impl<'a> Owners<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            sets: snapshot.replica_sets.iter().map(|set| (set.uid.as_str(), &**set)).collect(),
            deployments: snapshot.deployments.iter().map(|each| (each.uid.as_str(), &**each)).collect(),
        }
    }

    /// The Deployment that a pod belongs to.
    pub(crate) fn deployment(&self, pod: &PodView) -> Option<&'a DeploymentView> {
        let set = self.sets.get(pod.owner.as_ref()?.uid.as_str())?;
        self.deployments.get(set.owner.as_ref()?.uid.as_str()).copied()
    }

    /// The top workload of the pod, and how many pods that is meant to have if that is known.
    pub(super) fn of(&self, pod: &PodView) -> Option<(OwnerKey, Option<u32>)> {
        let key = |kind: &str, name: &str, uid: &str| OwnerKey {
            kind: kind.to_owned(),
            namespace: pod.id.namespace.clone(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let direct = pod.owner.as_ref()?;
        if let Some(top) = self.deployment(pod) {
            return Some((key("Deployment", &top.name, &top.uid), u32::try_from(top.replicas).ok()));
        }
        let set = self.sets.get(direct.uid.as_str());
        Some((key(&direct.kind, &direct.name, &direct.uid), set.and_then(|set| u32::try_from(set.replicas).ok())))
    }

    /// `deployment/NAME`, or for pods without one `replicaset/NAME` and the like, or `pod/NAME`.
    pub(crate) fn label(&self, pod: &PodView) -> String {
        match (self.deployment(pod), &pod.owner) {
            (Some(deployment), _) => format!("deployment/{}", deployment.name),
            (None, Some(owner)) => format!("{}/{}", owner.kind.to_lowercase(), owner.name),
            (None, None) => format!("pod/{}", pod.id.name),
        }
    }
}
