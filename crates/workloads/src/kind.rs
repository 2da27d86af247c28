//! The seam: what a kind of workload has to say for itself. Everybody else moves data.

use std::str::FromStr;

use hitless_api::GroupKind;
use serde_json::Value;

use crate::kinds::BadVersion;
use crate::kinds::colla_set::CollaSets;
use crate::kinds::daemon_set::DaemonSets;
use crate::kinds::deployment::Deployments;
use crate::kinds::pod_decoration::PodDecorations;
use crate::kinds::stateful_set::StatefulSets;
use crate::manifest::RolledOut;
use crate::object::{Object, ReadError};
use crate::plan::Plan;
use crate::request::{REQUESTS, RequestKind};
use crate::rights::Right;
use crate::switch::{Installed, Switch};
use crate::undo::{Undo, WayBack};
use crate::world::World;
use crate::write::Write;

/// All kinds. A new one is a folder in `kinds`, a line in [`crate::object::Body`] and a line here.
pub const KINDS: &[&dyn Kind] = &[&Deployments, &StatefulSets, &DaemonSets, &CollaSets, &PodDecorations];

/// Why no pod may run beside a workload's own.
pub(crate) const NO_SURGE: &str = "the workload's strategy lets no pod run beside its own";

/// A resource of the API that a kind needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Group and kind.
    pub group_kind: GroupKind,
    /// Version of the API.
    pub version: &'static str,
    /// Name in paths and rights, e.g. `deployments`.
    pub plural: &'static str,
    /// A custom resource that not every cluster has. While its definition is not there, there are no such objects.
    pub optional: bool,
    /// What the controller may do besides reading.
    pub verbs: &'static [&'static str],
    /// What for, in a few words; may be empty.
    pub why: &'static str,
    /// What the uninstall may do besides reading; nothing: it does not look at them.
    pub uninstall_verbs: &'static [&'static str],
    /// What for, in a few words; may be empty.
    pub uninstall_why: &'static str,
}

impl Resource {
    /// Name of its CustomResourceDefinition, if it has one.
    #[must_use]
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group_kind.group)
    }

    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        let group = &self.group_kind.group;
        if group.is_empty() { self.version.to_owned() } else { format!("{group}/{}", self.version) }
    }
}

/// What has to be installed for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// hitless itself.
    Base,
    /// The component `manifests/kusionstack`, too: definitions, rights, and the setting that lets the controller act.
    KusionStack,
}

/// Components that are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Components(pub Vec<Component>);

impl Components {
    /// The controller's setting: comma-separated names of those that are installed besides hitless itself.
    pub const SETTING: &str = "HITLESS_COMPONENTS";
}

impl Default for Components {
    fn default() -> Self {
        Self(vec![Component::Base])
    }
}

impl FromStr for Components {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let more = names.map(|name| match name {
            "kusionstack" => Ok(Component::KusionStack),
            other => Err(format!("there is no component {other}; known is kusionstack")),
        });
        std::iter::once(Ok(Component::Base)).chain(more).collect::<Result<_, _>>().map(Self)
    }
}

/// Names of the admission policies, and of their bindings, that keep the native controller from rolling a kind's workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The one that holds a workload in the write that changes its template (`manifests/policies`).
    pub holds: &'static str,
    /// The one that refuses such a write where nothing can hold (`manifests/refusing`).
    pub refuses: &'static str,
}

/// How many pods a workload is meant to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// So many.
    pub desired: u32,
    /// So many of them may be unavailable, as the workload's own strategy says; absent where it means something else there.
    pub max_unavailable: Option<u32>,
}

/// A kind of workload: turns its objects into plans.
pub trait Kind: Sync {
    /// What users call it, the longest name first: `deployment`, `deploy`. Nothing of what has no pods of its own.
    fn names(&self) -> &'static [&'static str];

    /// What is watched: the workload's own first, then what it consists of.
    fn resources(&self) -> &'static [Resource];

    /// What has to be installed for it.
    fn component(&self) -> Component {
        Component::Base
    }

    /// What the controller needs besides the rights to these resources.
    fn rights(&self) -> Vec<Right> {
        Vec::new()
    }

    /// The switch by which it can be turned off by itself, if it has one.
    fn switch(&self) -> Option<Switch> {
        None
    }

    /// Reads an object of one of these resources.
    ///
    /// # Errors
    /// If a field does not have its type.
    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError>;

    /// How many pods one of these objects is meant to have, and how many of them may be unavailable, if that makes sense.
    fn size(&self, object: &Object) -> Option<Size>;

    /// Whether the workload has opted in, or something of ours is still on it. Cheap.
    fn concerns(&self, root: &Object, world: &World<'_>) -> bool;

    /// What is to be done for it. Pure: the same input always gives the same plan, and carrying out a plan's writes leads to the
    /// next step.
    fn plan(&self, root: &Object, world: &World<'_>) -> Plan;

    /// What takes everything of ours off one of its objects; for an uninstall.
    fn release(&self, object: &Object) -> Option<Write>;

    /// What is written when the operations of this revision have failed too often for it to go on: `world` is as it was planned
    /// on, `why` is the first of them. Nothing if what is there needs no change then.
    fn halt(&self, root: &Object, world: &World<'_>, why: BadVersion<'_>) -> Option<Write>;

    /// What its owner writes to have the version tried again that was judged bad (`kubectl hitless retry`).
    ///
    /// # Errors
    /// Why there is nothing to try again, as a clause for people.
    fn retry(&self, root: &Object, world: &World<'_>) -> Result<Write, String> {
        let _ = (root, world);
        Err("no version of this kind of workload is ever halted".to_owned())
    }

    /// What its owner writes to go back to an earlier template: to the revision with this number, as `kubectl rollout history`
    /// counts, or else to the last good one. Whether that is what is meant is asked in [`crate::undo::undo`].
    ///
    /// # Errors
    /// Why it can't go back, as a clause for people.
    fn undo(&self, root: &Object, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
        let _ = (root, world, to_revision);
        Err("hitless knows no earlier templates of this kind of workload".to_owned())
    }

    /// The version that its template asks for, if it has had that before, as far as that is known: a rollout to it is a way back
    /// already, and what [`Self::undo`] would choose leads further back, or forward again.
    fn way_back(&self, root: &Object, world: &World<'_>) -> Option<WayBack> {
        let _ = (root, world);
        None
    }

    /// Template of a pod of the next version that may run beside the workload's own for a while, as its own strategy lets it.
    ///
    /// # Errors
    /// Why none may, as a clause for people.
    fn surge<'r>(&self, root: &'r Object) -> Result<&'r Value, String> {
        let _ = root;
        Err(NO_SURGE.to_owned())
    }

    /// What is written so that the native controller rolls the version that the template asks for, because that costs its clients less
    /// than any way in place. `None`: that can't be, or no native controller is there for its kind.
    fn natively(&self, root: &Object, why: &str) -> Option<Write> {
        let _ = (root, why);
        None
    }

    /// What keeps the native controller from rolling its workloads; none where hitless is their controller.
    fn guard(&self) -> Option<Guard> {
        None
    }

    /// The workload as the guard policy stores it when its template changes: held. For forecasts; the policy itself is in
    /// `manifests/policies`.
    fn held(&self, root: Value) -> Value;

    /// A held workload as its native controller leaves it before any pod is operated, and what that makes beside it; for forecasts.
    fn revised(&self, held: Value) -> Vec<Value> {
        vec![held]
    }

    /// The workload as its native controller leaves it when its rollout has ended; for forecasts from files. `root` has a uid,
    /// `parts` are what the files have of what it consists of, `nodes` is how many nodes there are, 0 if not known.
    fn rolled_out(&self, root: Value, parts: &[Value], nodes: u64) -> RolledOut;
}

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

    /// What has to be installed for it.
    #[must_use]
    pub fn component(self) -> Component {
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

/// All resources that are watched where this is installed and switched on, each once, with who reads it.
pub fn resources_of(installed: &Installed) -> impl Iterator<Item = (Holder, &'static Resource)> {
    let is_wanted = |resource: &Resource| {
        let mut holders = holders().filter(|holder| holder.resources().contains(resource));
        holders.any(|holder| installed.has(holder))
    };
    resources().filter(move |(_, resource)| is_wanted(resource))
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
