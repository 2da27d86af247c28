//! The one place where a target of the command line is looked up.

use std::collections::BTreeSet;

use hitless_api::GroupKind;
use hitless_api::pod::PodView;
use hitless_workloads::{Object, World};

use crate::args::{Target, TargetKind};
use crate::failure::Failure;
use crate::snapshot::Snapshot;

/// A target that exists.
pub(crate) struct Found<'a> {
    pub(crate) namespace: &'a str,
    /// `None`: it is a pod.
    pub(crate) workload: Option<&'a Object>,
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
        match &target.kind {
            TargetKind::Workload(kind) => self.find_workload(kind, &target.name),
            TargetKind::Pod => self.find_pod(&target.name),
        }
    }

    fn find_workload(&self, kind: &GroupKind, name: &str) -> Option<Found<'_>> {
        let is_meant = |object: &Object| {
            object.id.group_kind == *kind && object.id.name == name && self.shows(&object.id.namespace)
        };
        let root = self.cluster.objects.iter().find(|object| is_meant(object))?;
        let world = World::new(&self.cluster.objects, &self.cluster.pods, BTreeSet::new());
        let is_own = |pod: &&PodView| world.top(pod).is_some_and(|top| top.uid == root.id.uid);
        let mut pods: Vec<&PodView> = self.pods().filter(is_own).collect();
        pods.sort_by_key(|pod| &pod.id.name);
        Some(Found { namespace: &root.id.namespace, workload: Some(root), pods })
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
