//! ResourceContexts: which instance ids are taken, and by whom.

use std::collections::BTreeMap;

use hitless_api::resource_context::ContextDetail;
use serde_json::{Value, json};

use super::{CollaSet, RESOURCE_CONTEXT, owner};
use crate::object::{Body, Object};
use crate::world::World;
use crate::write::Write;

/// The ResourceContext of a CollaSet, if it is there.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    object: Option<&'a Object>,
    contexts: &'a [ContextDetail],
}

impl<'a> Context<'a> {
    /// Its own one, or the one that it names.
    pub(super) fn of(set: CollaSet<'a>, world: &World<'a>) -> Self {
        let name = set.body.context.as_ref().unwrap_or(&set.object.id.name);
        let object = world.part(&RESOURCE_CONTEXT.group_kind, &set.object.id.namespace, name);
        let contexts = object.map_or(&[][..], |object| match &object.body {
            Body::ResourceContext(body) => &body.contexts,
            _ => &[],
        });
        Self { object, contexts }
    }

    pub(super) fn contexts(self) -> &'a [ContextDetail] {
        self.contexts
    }

    /// The write that makes it say this, if it does not.
    pub(super) fn write(self, set: CollaSet<'_>, wanted: &[ContextDetail]) -> Option<Write> {
        if self.contexts == wanted {
            return None;
        }
        let contexts = json!(wanted);
        Some(match self.object {
            Some(object) => Write::patch("update-context", object, |patch| patch.add(&["spec", "contexts"], contexts)),
            None => Write::create("create-context", &RESOURCE_CONTEXT.group_kind, manifest(set, &contexts)),
        })
    }

    /// A write that changes nothing, and fails if it is not as it was seen: what comes after it rests on it.
    pub(super) fn confirm(self) -> Option<Write> {
        Some(Write::patch("confirm-context", self.object?, |patch| patch))
    }
}

fn manifest(set: CollaSet<'_>, contexts: &Value) -> Value {
    let id = &set.object.id;
    let name = set.body.context.as_ref().unwrap_or(&id.name);
    // Where several CollaSets share it, it goes with none of them.
    let owners = if set.body.context.is_none() { json!([owner(set)]) } else { Value::Null };
    json!({
        "apiVersion": RESOURCE_CONTEXT.api_version(), "kind": "ResourceContext",
        "metadata": {"name": name, "namespace": id.namespace, "ownerReferences": owners},
        "spec": {"contexts": contexts},
    })
}

/// What is known of an id.
pub(super) type Data = BTreeMap<String, String>;

/// Whether the mark is set.
pub(super) fn is(data: &Data, mark: &str) -> bool {
    data.get(mark).is_some_and(|value| value == "true")
}
