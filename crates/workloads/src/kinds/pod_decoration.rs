//! KusionStack's PodDecorations: what pods of CollaSets get beside their own template. No pods of its own: CollaSets render theirs with
//! it ([`Decorations`]). Here its revisions are kept, and its status is reported (docs/contract.md#collaset).

pub(crate) mod body;
mod choice;
mod marks;
pub(crate) mod names;
mod node_access;
mod plan;
mod render;
mod revisions;
pub(crate) mod undecorated;

use std::collections::BTreeMap;

use hitless_api::GroupKind;
use hitless_api::event::Severity;
use hitless_api::pod::PodView;
use serde_json::Value;

pub use crate::object::PodDecoration;
pub use body::DecorationBody;
pub(crate) use choice::{Choice, Decorations, NewPod};
pub(crate) use marks::Marks;

use super::colla_set::names::{GROUP, SWITCH};
use crate::component::{Component, KUSIONSTACK, Switch};
use crate::halted::BadVersion;
use crate::kind::{Kind, Resource, Size};
use crate::manifest::{self, RolledOut};
use crate::object::{self, Body, Object, ReadError};
use crate::plan::{Plan, note};
use crate::pod_set::pods::stays;
use crate::revision::CONTROLLER_REVISION;
use crate::right::Right;
use crate::world::World;
use crate::write::Write;

pub(crate) const POD_DECORATION: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "PodDecoration"),
    version: "v1alpha1",
    plural: "poddecorations",
    is_namespaced: true,
    optional: true,
    verbs: &[],
    why: "what pods of CollaSets get beside their template",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// Pods of the CollaSet that are there to stay.
fn members<'a>(set: &Object, world: &World<'a>) -> impl Iterator<Item = &'a PodView> {
    world.pods(&set.id.uid).iter().copied().filter(|pod| stays(pod))
}

/// The kind PodDecoration.
pub struct PodDecorations;

impl Kind for PodDecorations {
    fn names(&self) -> &'static [&'static str] {
        // Nobody drives it: it has no pods.
        &[]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[POD_DECORATION, CONTROLLER_REVISION] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KUSIONSTACK)
    }

    /// They are nothing without CollaSets.
    fn switch(&self) -> Option<Switch> {
        Some(SWITCH)
    }

    fn rights(&self) -> Vec<Right> {
        vec![
            Right::of(GROUP, "poddecorations/status", &["patch"], "reports which pods have it"),
            Right::of(
                GROUP,
                "poddecorations/finalizers",
                &["update"],
                "its revisions block its deletion; some clusters ask for this right then",
            ),
        ]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == POD_DECORATION.group_kind {
            object::read(of, object, |body| Body::PodDecoration(Box::new(body)))
        } else {
            object::read(of, object, Body::ControllerRevision)
        }
    }

    fn size(&self, _: &Object) -> Option<Size> {
        None
    }

    fn concerns(&self, _: &Object, _: &World<'_>) -> bool {
        true
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        if let Some(why) = world.uncounted_decoration(&root.id.namespace, &root.id.name) {
            let notes = vec![note(&root.id, POD_DECORATION.version, Severity::Warning, "TooMany", why)];
            return Plan { notes, ..Plan::nothing(root) };
        }
        let writes = root.pod_decoration().map(|decoration| plan::writes(decoration, world));
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
        RolledOut {
            count: 0,
            first_ordinal: None,
            owner: manifest::owner(&root),
            labels: BTreeMap::new(),
            part: root.clone(),
            root,
        }
    }
}
