//! KusionStack's CollaSets. We are their controller: pods are made and removed here, and the revisions and instance ids kept
//! (docs/contract.md#collaset).

pub(crate) mod body;
mod conditions;
mod context;
pub(crate) mod controlled;
mod decorations;
mod deletion;
mod membership;
pub(crate) mod names;
mod plan;
pub(crate) mod pods;
mod relabel;
pub(crate) mod resource_context;
mod rules;
mod spec;
mod status;
mod view;

use hitless_api::GroupKind;
use serde_json::Value;

pub use crate::object::CollaSet;
pub use crate::pod_set::claim::ClaimBody;
pub use crate::pod_set::policy::{KeepsClaims, Scope, UpgradePolicy};
pub use body::CollaSetBody;
pub(crate) use names::{GROUP, PAIR_ORIGIN, TO_REPLACE};
pub use resource_context::ContextBody;

use super::pod_decoration::POD_DECORATION;
use crate::component::{Component, KUSIONSTACK, Switch};
use crate::halted::BadVersion;
use crate::kind::{Kind, Resource, Size};
use crate::manifest::RolledOut;
use crate::object::{self, Body, Object, ReadError};
use crate::plan::Plan;
use crate::pod_set::CLAIM;
use crate::revision::{self, CONTROLLER_REVISION};
use crate::right::Right;
use crate::world::World;
use crate::write::Write;

/// CollaSets themselves.
pub const COLLA_SET: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "CollaSet"),
    version: "v1alpha1",
    plural: "collasets",
    is_namespaced: true,
    optional: true,
    verbs: &["patch"],
    why: "its finalizer, and annotations of ours",
    uninstall_verbs: &["patch"],
    uninstall_why: "takes its finalizer off",
};

pub(crate) const RESOURCE_CONTEXT: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "ResourceContext"),
    version: "v1alpha1",
    plural: "resourcecontexts",
    is_namespaced: true,
    optional: true,
    verbs: &["create", "patch", "delete"],
    why: "which instance ids are taken",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// The kind CollaSet.
pub struct CollaSets;

impl Kind for CollaSets {
    fn names(&self) -> &'static [&'static str] {
        &["collaset", "collasets", "cls"]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[COLLA_SET, RESOURCE_CONTEXT, CLAIM, CONTROLLER_REVISION, POD_DECORATION] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KUSIONSTACK)
    }

    fn switch(&self) -> Option<Switch> {
        Some(names::SWITCH)
    }

    fn rights(&self) -> Vec<Right> {
        vec![
            Right::of(GROUP, "collasets/status", &["patch"], "reports how far it is"),
            Right::of(
                GROUP,
                "collasets/finalizers",
                &["update"],
                "its pods block its deletion; some clusters ask for this right then",
            ),
            Right::of("", "pods", &["patch"], "labels that tell of a replacement; who is excluded and included"),
            Right::of("apps", "controllerrevisions", &["create", "patch", "delete"], "the templates that it has had"),
        ]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == COLLA_SET.group_kind {
            object::read(of, object, |body| Body::CollaSet(Box::new(body)))
        } else if *of == RESOURCE_CONTEXT.group_kind {
            object::read(of, object, Body::ResourceContext)
        } else if *of == CLAIM.group_kind {
            object::read(of, object, Body::Claim)
        } else if *of == POD_DECORATION.group_kind {
            object::read(of, object, |body| Body::PodDecoration(Box::new(body)))
        } else {
            object::read(of, object, Body::ControllerRevision)
        }
    }

    fn size(&self, object: &Object) -> Option<Size> {
        // One that is being deleted wants no pods: those that are gone already are not missing.
        let set = object.colla_set().filter(|set| !set.deleting)?;
        Some(Size {
            desired: u32::try_from(set.body.replicas).ok()?,
            surplus: 0,
            max_unavailable: None,
            counts_extra_pods: false,
        })
    }

    fn concerns(&self, _: &Object, _: &World<'_>) -> bool {
        true
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        root.colla_set().map_or_else(|| Plan::nothing(root), |set| plan::plan(set, world))
    }

    /// Nobody else would take the finalizer off.
    fn release(&self, object: &Object) -> Option<Write> {
        deletion::without_finalizer(object.colla_set()?)
    }

    /// The template is the owner's; nobody else makes pods from it.
    fn halt(&self, _: &Object, _: &World<'_>, _: BadVersion<'_>) -> Option<Write> {
        None
    }

    fn held(&self, root: Value) -> Value {
        root
    }

    fn revised(&self, held: Value) -> Vec<Value> {
        let revision = revision::planned(&held);
        vec![held, revision]
    }

    fn rolled_out(&self, root: Value, parts: &[Value], _: u64) -> RolledOut {
        let count = root["spec"]["replicas"].as_u64().unwrap_or_default();
        revision::rolled_out(root, parts, count, "updatedRevision")
    }
}
