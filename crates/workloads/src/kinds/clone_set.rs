//! OpenKruise's CloneSets. We are their controller: pods are made and removed here, and the revisions and instance ids kept
//! (docs/contract.md#cloneset).

pub(crate) mod body;
mod conditions;
mod difference;
mod gates;
mod hooks;
mod journal;
mod limit;
mod names;
pub(in crate::kinds) mod order;
mod plan;
pub(in crate::kinds) mod priority;
pub(in crate::kinds) mod rounding;
mod rules;
mod scatter;
mod spec;
mod status;
mod undo;
mod view;

use hitless_api::pod::PodView;
use hitless_api::{GrantOp, GroupKind};
use serde_json::Value;

pub use crate::object::CloneSet;
pub use body::CloneSetBody;
pub(crate) use names::GROUP;

use super::on_delete;
use crate::component::{Component, KRUISE, Switch};
use crate::halted::{BadVersion, NO_OTHER};
use crate::kind::{Hook, Kind, Resource, Size};
use crate::manifest::RolledOut;
use crate::object::{self, Body, Object, ReadError};
use crate::plan::Plan;
use crate::pod_set::CLAIM;
use crate::revision::{self, CONTROLLER_REVISION};
use crate::right::Right;
use crate::version::{Undo, WayBack};
use crate::world::World;
use crate::write::Write;
use hitless_api::names::annotations;

pub(crate) const CLONE_SET: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "CloneSet"),
    version: "v1alpha1",
    plural: "clonesets",
    is_namespaced: true,
    optional: true,
    verbs: &["patch"],
    why: "which ids its pods have, and annotations of ours",
    uninstall_verbs: &["patch"],
    uninstall_why: "takes annotations of ours off",
};

/// The kind CloneSet.
pub struct CloneSets;

impl Kind for CloneSets {
    fn names(&self) -> &'static [&'static str] {
        &["cloneset", "clonesets", "clone"]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[CLONE_SET, CLAIM, CONTROLLER_REVISION] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KRUISE)
    }

    fn switch(&self) -> Option<Switch> {
        Some(Switch::of("CloneSet"))
    }

    fn rights(&self) -> Vec<Right> {
        vec![
            Right::of(GROUP, "clonesets/status", &["patch"], "reports how far it is"),
            Right::of(
                GROUP,
                "clonesets/finalizers",
                &["update"],
                "its pods block its deletion; some clusters ask for this right then",
            ),
            Right::of("", "pods", &["patch"], "the labels and finalizers of hooks, and the state that goes with them"),
            Right::of("apps", "controllerrevisions", &["create", "patch", "delete"], "the templates that it has had"),
        ]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == CLONE_SET.group_kind {
            object::read(of, object, |body| Body::CloneSet(Box::new(body)))
        } else if *of == CLAIM.group_kind {
            object::read(of, object, Body::Claim)
        } else {
            object::read(of, object, Body::ControllerRevision)
        }
    }

    /// Pods beyond the wanted ones make room, as long as they are available.
    fn size(&self, object: &Object) -> Option<Size> {
        // One that is being deleted wants no pods: those that are gone already are not missing.
        let set = object.clone_set().filter(|set| !set.deleting)?;
        let max_unavailable = u32::try_from(set.body.max_unavailable).ok();
        let desired = u32::try_from(set.body.replicas).ok()?;
        Some(Size { desired, surplus: 0, max_unavailable, counts_extra_pods: true })
    }

    fn concerns(&self, _: &Object, _: &World<'_>) -> bool {
        true
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        root.clone_set().map_or_else(|| Plan::nothing(root), |set| plan::plan(set, world))
    }

    fn hook(&self, root: &Object, pod: &PodView, op: &GrantOp) -> Hook {
        root.clone_set().map_or(Hook::Absent, |set| hooks::hook(&set.body.hooks, pod, op))
    }

    fn release(&self, object: &Object) -> Option<Write> {
        let is_ours = object.annotations.contains_key(annotations::INSTANCES);
        is_ours.then(|| Write::without_annotation("release-clone-set", object, annotations::INSTANCES))
    }

    /// The template is the owner's; nobody else makes pods from it.
    fn halt(&self, _: &Object, _: &World<'_>, _: BadVersion<'_>) -> Option<Write> {
        None
    }

    fn undo(&self, root: &Object, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
        root.clone_set().map_or_else(|| Err(NO_OTHER.to_owned()), |set| undo::undo(set, world, to_revision))
    }

    fn way_back(&self, root: &Object, world: &World<'_>) -> Option<WayBack> {
        on_delete::way_back(root, &root.clone_set()?.body.template, world)
    }

    fn held(&self, root: Value) -> Value {
        root
    }

    fn revised(&self, held: Value) -> Vec<Value> {
        let revision = revision::planned(&held);
        vec![held, revision]
    }

    fn rolled_out(&self, root: Value, parts: &[Value], _: u64) -> RolledOut {
        let count = root["spec"]["replicas"].as_u64().unwrap_or(1);
        revision::rolled_out(root, parts, count, "updateRevision")
    }
}
