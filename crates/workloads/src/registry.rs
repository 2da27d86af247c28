//! All kinds of workloads and of requests: the only file that knows all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_api::pod::PodView;
use serde_json::Value;

use crate::component::{Component, Switch};
use crate::kind::{Kind, Resource, Size};
use crate::kinds::clone_set::CloneSets;
use crate::kinds::colla_set::CollaSets;
use crate::kinds::daemon_set::DaemonSets;
use crate::kinds::deployment::Deployments;
use crate::kinds::pod_decoration::PodDecorations;
use crate::kinds::sidecar_set::{SidecarInjections, SidecarSets};
use crate::kinds::stateful_set::StatefulSets;
use crate::object::{Object, ReadError};
use crate::ownership;
use crate::plan::Plan;
use crate::request::RequestKind;
use crate::requests::container_recreate_request::ContainerRecreateRequests;
use crate::requests::foreign::Foreign;
use crate::requests::operation_job::OperationJobs;
use crate::requests::restart::Restarts;
use crate::requests::sidecar_updates::SidecarUpdates;
use crate::right::Right;
use crate::world::World;

/// All kinds. A new one is a folder in `kinds`, a line in [`crate::object::Body`] and a line here.
pub const KINDS: &[&dyn Kind] = &[
    &Deployments,
    &StatefulSets,
    &DaemonSets,
    &CollaSets,
    &PodDecorations,
    &CloneSets,
    &SidecarSets,
    &SidecarInjections,
];

/// All kinds of requests. Of two operations that are wanted of one pod the earlier kind's comes first.
pub const REQUESTS: &[&dyn RequestKind] =
    &[&Restarts, &OperationJobs, &ContainerRecreateRequests, &SidecarUpdates, &Foreign];

/// The kind of workload that has these objects as its own.
#[must_use]
pub fn of_workload(group_kind: &GroupKind) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| kind.resources().first().is_some_and(|own| own.group_kind == *group_kind))
}

/// Whether such objects are workloads as users see them: of a kind that has pods of its own, and a name for the command line.
#[must_use]
pub fn is_workload(group_kind: &GroupKind) -> bool {
    of_workload(group_kind).is_some_and(|kind| !kind.names().is_empty())
}

/// Who reads the objects of a resource.
#[derive(Clone, Copy)]
pub enum Holder {
    /// A kind of workload.
    Workload(&'static dyn Kind),
    /// A kind of request.
    Request(&'static dyn RequestKind),
}

impl Holder {
    pub(crate) fn resources(self) -> &'static [Resource] {
        match self {
            Self::Workload(kind) => kind.resources(),
            Self::Request(kind) => kind.resources(),
        }
    }

    /// The component that it is a part of; `None`: hitless itself.
    #[must_use]
    pub fn component(self) -> Option<&'static Component> {
        match self {
            Self::Workload(kind) => kind.component(),
            Self::Request(kind) => kind.component(),
        }
    }

    /// The switch by which it can be turned off by itself, if it has one.
    #[must_use]
    pub fn switch(self) -> Option<Switch> {
        match self {
            Self::Workload(kind) => kind.switch(),
            Self::Request(kind) => kind.switch(),
        }
    }

    /// What the controller needs besides the rights to its resources.
    #[must_use]
    pub fn rights(self) -> Vec<Right> {
        match self {
            Self::Workload(kind) => kind.rights(),
            Self::Request(kind) => kind.rights(),
        }
    }

    /// Reads an object of one of its resources.
    ///
    /// # Errors
    /// If a field does not have its type.
    pub fn read(self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        match self {
            Self::Workload(kind) => kind.read(of, object),
            Self::Request(kind) => kind.read(of, object),
        }
    }

    /// As a kind of workload, if it is one.
    #[must_use]
    pub fn workload(self) -> Option<&'static dyn Kind> {
        match self {
            Self::Workload(kind) => Some(kind),
            Self::Request(_) => None,
        }
    }

    /// The kinds of objects that stand for what it does: workloads, or requests.
    #[must_use]
    pub fn own(self) -> Option<&'static GroupKind> {
        self.resources().first().map(|own| &own.group_kind)
    }
}

/// All kinds of workloads and of requests.
pub fn holders() -> impl Iterator<Item = Holder> {
    let kinds = KINDS.iter().copied().map(Holder::Workload);
    kinds.chain(REQUESTS.iter().copied().map(Holder::Request))
}

/// The resources of every kind, one that several kinds need as often.
fn of_every_kind() -> impl Iterator<Item = (Holder, &'static Resource)> {
    holders().flat_map(|holder| holder.resources().iter().map(move |resource| (holder, resource)))
}

/// The words by which kinds are turned off, each once.
#[must_use]
pub fn switches() -> Vec<Switch> {
    let mut all = Vec::new();
    for switch in holders().filter_map(Holder::switch) {
        if !all.contains(&switch) {
            all.push(switch);
        }
    }
    all
}

/// All resources that are watched, each once, with who reads it.
pub fn resources() -> impl Iterator<Item = (Holder, &'static Resource)> {
    of_every_kind().enumerate().filter_map(|(index, (holder, resource))| {
        let is_first = of_every_kind().take(index).all(|(_, earlier)| earlier.group_kind != resource.group_kind);
        is_first.then_some((holder, resource))
    })
}

/// The resource with this group and kind. Asked of every object in every round.
#[must_use]
pub fn resource(group_kind: &GroupKind) -> Option<(Holder, &'static Resource)> {
    of_every_kind().find(|(_, resource)| resource.group_kind == *group_kind)
}

/// Version of the API of such objects; `v1` where no kind has them.
#[must_use]
pub fn version(group_kind: &GroupKind) -> &'static str {
    resource(group_kind).map_or("v1", |(_, resource)| resource.version)
}

/// How many pods the object is meant to have, if that makes sense.
#[must_use]
pub fn size(object: &Object) -> Option<Size> {
    resource(&object.id.group_kind).and_then(|(holder, _)| holder.workload()?.size(object))
}

/// Reads an object of the API by the kind that it says it is; `None`: no workload has such objects.
#[must_use]
pub fn read(object: Value) -> Option<Result<Object, ReadError>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let group_kind = GroupKind::of(text("apiVersion"), text("kind"));
    resource(&group_kind).map(|(holder, _)| holder.read(&group_kind, object))
}

/// The kind that users call so.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Kind> {
    let name = name.to_ascii_lowercase();
    KINDS.iter().copied().find(|kind| kind.names().contains(&name.as_str()))
}

impl<'a> World<'a> {
    /// Of these objects and pods.
    #[must_use]
    pub fn new(objects: &'a [Arc<Object>], pods: &'a [Arc<PodView>], operating: BTreeSet<String>) -> Self {
        Self::of(objects, pods, operating, |object, world| {
            of_workload(&object.id.group_kind).is_some_and(|kind| kind.concerns(object, world))
        })
    }

    /// The plan of every workload that has opted in or still carries something of ours.
    #[must_use]
    pub fn plans(&self) -> Vec<Plan> {
        let plan = |root: &&Object| {
            let mut plan = of_workload(&root.id.group_kind)?.plan(root, self);
            plan.writes.extend(ownership::give_up(root, &plan));
            Some(plan)
        };
        self.roots().iter().filter_map(plan).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_pods_of_its_own_is_no_workload() {
        let workload = |group, kind| is_workload(&GroupKind::new(group, kind));
        assert!(workload("apps", "Deployment") && workload("apps.kusionstack.io", "CollaSet"));
        for (group, kind) in [("apps.kusionstack.io", "PodDecoration"), ("apps", "ReplicaSet"), ("", "Pod")] {
            assert!(!workload(group, kind), "{kind}");
        }
    }
}
