//! OpenKruise's SidecarSets: containers that pods get when they are made, whoever owns them (docs/contract.md#sidecarset). Admission puts
//! them in, without a server; here what it reads is kept, and what has become of it is reported.

pub(crate) mod body;
mod campaign;
mod fault;
mod injected;
pub(crate) mod injection;
pub(crate) mod names;
mod plan;
pub(crate) mod render;
mod status;

use std::collections::BTreeMap;

use hitless_api::names::GROUP as OWN_GROUP;
use hitless_api::{Grant, GroupKind, InjectedSet};
use serde_json::Value;

pub use crate::object::SidecarSet;
pub use body::SidecarSetBody;
pub(crate) use campaign::Campaign;
use names::SIDECAR_SETS;

use super::clone_set::GROUP;
use crate::component::{Component, KRUISE, Switch};
use crate::halted::BadVersion;
use crate::kind::{Kind, Resource, Size};
use crate::manifest::{self, RolledOut};
use crate::object::{self, Body, Object, ReadError};
use crate::plan::Plan;
use crate::right::Right;
use crate::world::World;
use crate::write::Write;

pub(crate) const SIDECAR_SET: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "SidecarSet"),
    version: "v1alpha1",
    plural: "sidecarsets",
    is_namespaced: false,
    optional: true,
    verbs: &["patch"],
    why: "that a version of it was judged bad",
    uninstall_verbs: &[],
    uninstall_why: "",
};

pub(crate) const SIDECAR_INJECTION: Resource = Resource {
    group_kind: GroupKind::new(OWN_GROUP, "SidecarInjection"),
    version: "v1alpha1",
    plural: "sidecarinjections",
    is_namespaced: false,
    optional: true,
    verbs: &["create", "patch"],
    why: "what all SidecarSets together put into new pods, as admission reads it",
    uninstall_verbs: &[],
    uninstall_why: "",
};

pub(crate) const SWITCH: Switch = Switch::of("sidecarset");

fn read(of: &GroupKind, object: Value) -> Result<Object, ReadError> {
    if *of == SIDECAR_SET.group_kind {
        object::read(of, object, |body| Body::SidecarSet(Box::new(body)))
    } else {
        object::read(of, object, |body| Body::SidecarInjection(Box::new(body)))
    }
}

/// What the grant leaves on its pod of SidecarSets, if it is an operation of one.
pub(crate) fn sets_of(grant: &Grant) -> Option<&String> {
    grant.annotations.get(SIDECAR_SETS)?.to.as_ref()
}

/// What new pods get of it.
fn entry_of<'a>(set: SidecarSet<'_>, world: &World<'a>) -> Option<&'a InjectedSet> {
    let injection = world.sidecar_injection()?;
    injection.body.sets().iter().find(|each| each.uid == set.object.id.uid)
}

/// It has no pods of its own, so nothing of it is rolled out.
fn rolled_out(root: Value) -> RolledOut {
    let owner = manifest::owner(&root);
    RolledOut { count: 0, first_ordinal: None, owner, labels: BTreeMap::new(), part: root.clone(), root }
}

/// The kind SidecarSet.
pub struct SidecarSets;

impl Kind for SidecarSets {
    fn names(&self) -> &'static [&'static str] {
        // Nobody drives it: it has no pods.
        &[]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[SIDECAR_SET, SIDECAR_INJECTION] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KRUISE)
    }

    fn switch(&self) -> Option<Switch> {
        Some(SWITCH)
    }

    fn rights(&self) -> Vec<Right> {
        vec![Right::of(GROUP, "sidecarsets/status", &["patch"], "reports which pods have its containers")]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        read(of, object)
    }

    fn size(&self, _: &Object) -> Option<Size> {
        None
    }

    fn concerns(&self, _: &Object, _: &World<'_>) -> bool {
        true
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        root.sidecar_set().map_or_else(|| Plan::nothing(root), |set| status::plan(set, world))
    }

    fn release(&self, _: &Object) -> Option<Write> {
        None
    }

    fn halt(&self, _: &Object, _: &World<'_>, _: BadVersion<'_>) -> Option<Write> {
        None
    }

    fn held(&self, root: Value) -> Value {
        root
    }

    fn rolled_out(&self, root: Value, _: &[Value], _: u64) -> RolledOut {
        rolled_out(root)
    }
}

/// What all SidecarSets together put into pods.
pub struct SidecarInjections;

impl Kind for SidecarInjections {
    fn names(&self) -> &'static [&'static str] {
        &[]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[SIDECAR_INJECTION, SIDECAR_SET] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KRUISE)
    }

    fn switch(&self) -> Option<Switch> {
        Some(SWITCH)
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        read(of, object)
    }

    fn size(&self, _: &Object) -> Option<Size> {
        None
    }

    fn concerns(&self, _: &Object, _: &World<'_>) -> bool {
        true
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        let writes = root.sidecar_injection().map(|injection| plan::writes(injection, world));
        Plan { writes: writes.unwrap_or_default(), ..Plan::nothing(root) }
    }

    fn release(&self, _: &Object) -> Option<Write> {
        None
    }

    fn halt(&self, _: &Object, _: &World<'_>, _: BadVersion<'_>) -> Option<Write> {
        None
    }

    fn held(&self, root: Value) -> Value {
        root
    }

    fn rolled_out(&self, root: Value, _: &[Value], _: u64) -> RolledOut {
        rolled_out(root)
    }
}
