//! KusionStack's CollaSets. We are their controller: pods are made and removed here, and the revisions and instance ids kept
//! (docs/contract.md, 36).

mod body;
mod context;
mod naming;
mod plan;
mod pod;
mod revisions;
mod roster;
mod scale;
mod status;
mod update;

use hitless_api::GroupKind;
use serde_json::{Value, json};

pub use body::{CollaSet, CollaSetBody, Scope, UpgradePolicy};
pub use context::ContextBody;

use super::BadVersion;
use super::revision::{self, CONTROLLER_REVISION};
use crate::kind::{Component, Kind, Resource, Size};
use crate::manifest::{self, RolledOut};
use crate::object::{self, Body, Object, ReadError};
use crate::plan::Plan;
use crate::rights::Right;
use crate::switch::Switch;
use crate::world::World;
use crate::write::Write;

/// API group of KusionStack's workloads.
pub(crate) const GROUP: &str = "apps.kusionstack.io";

pub(crate) const COLLA_SET: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "CollaSet"),
    version: "v1alpha1",
    plural: "collasets",
    optional: true,
    verbs: &["patch"],
    why: "annotations of ours",
    uninstall_verbs: &[],
    uninstall_why: "",
};

pub(crate) const RESOURCE_CONTEXT: Resource = Resource {
    group_kind: GroupKind::new(GROUP, "ResourceContext"),
    version: "v1alpha1",
    plural: "resourcecontexts",
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
        const { &[COLLA_SET, RESOURCE_CONTEXT, CONTROLLER_REVISION] }
    }

    fn component(&self) -> Component {
        Component::KusionStack
    }

    fn switch(&self) -> Option<Switch> {
        Some(Switch::CollaSet)
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
            Right::of("apps", "controllerrevisions", &["create", "patch", "delete"], "the templates that it has had"),
        ]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == COLLA_SET.group_kind {
            object::read(of, object, |body| Body::CollaSet(Box::new(body)))
        } else if *of == RESOURCE_CONTEXT.group_kind {
            object::read(of, object, Body::ResourceContext)
        } else {
            object::read(of, object, Body::ControllerRevision)
        }
    }

    fn size(&self, object: &Object) -> Option<Size> {
        let set = object.colla_set()?;
        Some(Size { desired: u32::try_from(set.body.replicas).ok()?, max_unavailable: None })
    }

    fn concerns(&self, _: &Object, _: &World<'_>) -> bool {
        true
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        root.colla_set().map_or_else(|| Plan::nothing(root), |set| plan::plan(set, world))
    }

    fn release(&self, _: &Object) -> Option<Write> {
        None
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

    fn rolled_out(&self, mut root: Value, parts: &[Value], _: u64) -> RolledOut {
        let part = revision::newest(&root, parts);
        let name = part["metadata"]["name"].clone();
        let count = root["spec"]["replicas"].as_u64().unwrap_or_default();
        let generation = manifest::generation(&mut root);
        for (field, value) in
            [("observedGeneration", generation), ("currentRevision", name.clone()), ("updatedRevision", name.clone())]
        {
            manifest::status(&mut root, field, value);
        }
        RolledOut {
            count,
            first_ordinal: None,
            owner: manifest::owner(&root),
            labels: revision::label(name.as_str().unwrap_or_default()),
            part,
            root,
        }
    }
}

/// An entry of `ownerReferences` of what belongs to it.
fn owner(set: CollaSet<'_>) -> Value {
    let id = &set.object.id;
    json!({"apiVersion": COLLA_SET.api_version(), "kind": "CollaSet", "name": id.name, "uid": id.uid,
        "controller": true, "blockOwnerDeletion": true})
}

/// Labels, annotations and keys of KusionStack's.
pub(crate) mod names {
    pub(crate) use hitless_api::lifecycle::{CONTROL, TO_DELETE};
    /// On a pod: its instance id.
    pub(crate) const INSTANCE_ID: &str = "collaset.kusionstack.io/instance-id";
    /// On a pod: it is updated where the CollaSet goes by label.
    pub(crate) const UPDATE_INCLUDED: &str = "collaset.kusionstack.io/update-included";
    /// In a ResourceContext: name of the CollaSet that has the id.
    pub(crate) const OWNER: &str = "Owner";
    /// In a ResourceContext: name of the ControllerRevision that its pod is made from.
    pub(crate) const REVISION: &str = "Revision";
    /// In a ResourceContext: its pod was never made.
    pub(crate) const JUST_CREATE: &str = "PodJustCreate";
    /// In a ResourceContext: its pod is removed and made anew at another revision.
    pub(crate) const RECREATE: &str = "PodRecreateUpdate";
    /// In a ResourceContext: its pod is removed, and the id becomes free.
    pub(crate) const SCALE_IN: &str = "ScaleIn";
    /// In a ResourceContext, ours: name of the pod that stands for the id. Nobody makes a pod that is not named here, and a name
    /// is used once at a time: so there is never a pod too many.
    pub(crate) const POD: &str = "hitless.dev/pod";
}
