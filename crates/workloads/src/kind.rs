//! The seam: what a kind of workload has to say for itself. Everybody else moves data.

use hitless_api::pod::PodView;
use hitless_api::{GrantOp, GroupKind};
use serde_json::Value;

use crate::component::{Component, Switch};
use crate::halted::BadVersion;
use crate::manifest::RolledOut;
use crate::object::{Object, ReadError};
use crate::plan::Plan;
use crate::right::Right;
use crate::version::{Undo, WayBack};
use crate::world::World;
use crate::write::Write;

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
    /// Each of its objects is in a namespace.
    pub is_namespaced: bool,
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

/// What a hook of a workload says of an operation of one of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hook {
    /// None concerns it.
    Absent,
    /// The pod leaves service for it, and nothing is missing now.
    Over,
    /// The pod leaves service for it, and this is missing: a clause for people. No deadline ends that.
    Pending(String),
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
    /// So many more may be there to stay.
    pub surplus: u32,
    /// So many of them may be unavailable, as the workload's own strategy says; absent where it means something else there.
    pub max_unavailable: Option<u32>,
    /// Pods that are available beyond the desired ones make room under that limit.
    pub counts_extra_pods: bool,
}

/// A kind of workload: turns its objects into plans.
pub trait Kind: Sync {
    /// What users call it, the longest name first: `deployment`, `deploy`. Nothing of what has no pods of its own.
    fn names(&self) -> &'static [&'static str];

    /// What is watched: the workload's own first, then what it consists of.
    fn resources(&self) -> &'static [Resource];

    /// The component that it is a part of; `None`: hitless itself.
    fn component(&self) -> Option<&'static Component> {
        None
    }

    /// What the controller needs besides the rights to these resources.
    fn rights(&self) -> Vec<Right> {
        Vec::new()
    }

    /// The switch by which it can be turned off by itself. Each kind of a component has one.
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

    /// Whether a hook of the workload concerns the operation of this pod, and what it waits for.
    fn hook(&self, root: &Object, pod: &PodView, op: &GrantOp) -> Hook {
        let _ = (root, pod, op);
        Hook::Absent
    }

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

    /// That a native rollout has not got on in the time that its owner gives it, in the words of its controller, if that says so.
    fn overdue<'r>(&self, root: &'r Object) -> Option<&'r str> {
        let _ = root;
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

    /// Whether the native controller first makes a pod of the next version where each pod is, so that its node's clients are served before
    /// it goes.
    fn surges_on_nodes(&self, root: &Object) -> bool {
        let _ = root;
        false
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
