//! The one place where a target of the command line is looked up.

use hitless_api::pod::PodView;
use hitless_workloads::{DeploymentView, Owners};

use crate::args::{Target, TargetKind};
use crate::failure::Failure;
use crate::snapshot::Snapshot;

/// A target that exists.
pub(crate) struct Found<'a> {
    pub(crate) namespace: &'a str,
    /// Position among the Deployments; `None`: it is a pod.
    pub(crate) workload: Option<usize>,
    /// Its pods by name; a pod itself.
    pub(crate) pods: Vec<&'a PodView>,
}

impl Found<'_> {
    pub(crate) fn contains(&self, pod: &PodView) -> bool {
        self.pods.iter().any(|own| own.id.uid == pod.id.uid)
    }
}

impl Snapshot {
    /// What the target names, if it exists.
    pub(crate) fn find(&self, target: &Target) -> Option<Found<'_>> {
        match target.kind {
            TargetKind::Deployment => self.find_workload(&target.name),
            TargetKind::Pod => self.find_pod(&target.name),
        }
    }

    fn find_workload(&self, name: &str) -> Option<Found<'_>> {
        let is_meant = |each: &DeploymentView| each.name == name && self.shows(&each.namespace);
        let index = self.cluster.deployments.iter().position(|each| is_meant(each))?;
        let deployment = &self.cluster.deployments[index];
        let owners = Owners::new(&self.cluster.replica_sets, &self.cluster.deployments);
        let is_own = |pod: &&PodView| owners.deployment(pod).is_some_and(|owner| owner.uid == deployment.uid);
        let mut pods: Vec<&PodView> = self.pods().filter(is_own).collect();
        pods.sort_by_key(|pod| &pod.id.name);
        Some(Found { namespace: &deployment.namespace, workload: Some(index), pods })
    }

    fn find_pod(&self, name: &str) -> Option<Found<'_>> {
        let pod = self.pods().find(|pod| pod.id.name == name)?;
        Some(Found { namespace: &pod.id.namespace, workload: None, pods: vec![pod] })
    }

    /// That the target does not exist.
    pub(crate) fn missing(&self, what: &str) -> Failure {
        let place = self.namespace.as_ref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
        Failure::NotFound(format!("{what}{place}; is -n the right one?"))
    }
}
