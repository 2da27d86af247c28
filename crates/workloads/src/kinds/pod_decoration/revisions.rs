//! The templates that a PodDecoration has had, as ControllerRevisions.

use std::collections::BTreeMap;

use hitless_api::JsonPatch;
use hitless_api::names::labels;
use serde_json::{Value, json};

use super::{POD_DECORATION, PodDecoration};
use crate::kinds::colla_set;
use crate::kinds::revision::{CONTROLLER_REVISION, Revision};
use crate::world::World;
use crate::write::Write;

/// The ControllerRevisions of one PodDecoration, by name.
pub(super) struct Revisions<'a> {
    decoration: PodDecoration<'a>,
    pub(super) by_name: BTreeMap<&'a str, Revision<'a>>,
}

impl<'a> Revisions<'a> {
    pub(super) fn of(decoration: PodDecoration<'a>, world: &World<'a>) -> Self {
        let children = world.children(&decoration.object.id.uid).iter();
        let revisions = children.filter_map(|object| object.controller_revision());
        Self { decoration, by_name: revisions.map(|each| (each.object.id.name.as_str(), each)).collect() }
    }

    /// That of the template: of several equal ones the newest.
    pub(super) fn target(&self) -> Option<Revision<'a>> {
        let template = self.decoration.body.template.revision();
        let same = self.by_name.values().filter(|each| each.body.shape.revision == template);
        same.max_by_key(|each| each.body.number).copied()
    }

    fn newest(&self) -> i64 {
        self.by_name.values().map(|each| each.body.number).max().unwrap_or_default()
    }

    /// Makes the one of the template. Its name follows from the template, so it is made once.
    pub(super) fn create(&self) -> Write {
        let id = &self.decoration.object.id;
        let name = colla_set::revision_name(&id.name, self.decoration.body.template.revision());
        let mut template = Value::clone(self.decoration.body.template.content());
        template["$patch"] = "replace".into();
        let owner = json!({"apiVersion": POD_DECORATION.api_version(), "kind": "PodDecoration", "name": id.name, "uid": id.uid,
            "controller": true, "blockOwnerDeletion": true});
        let object = json!({
            "apiVersion": CONTROLLER_REVISION.api_version(), "kind": "ControllerRevision",
            "metadata": {"name": name, "namespace": id.namespace, "labels": {labels::MADE_FOR: "PodDecoration"},
                "ownerReferences": [owner]},
            "revision": self.newest() + 1,
            "data": {"spec": {"template": template}},
        });
        Write::create("create-revision", &CONTROLLER_REVISION.group_kind, object)
    }

    /// A template that comes again is the newest revision again.
    pub(super) fn renumber(&self, target: Revision<'_>) -> Option<Write> {
        let newest = self.newest();
        (target.body.number < newest).then(|| {
            let number = newest + 1;
            Write::patch("renumber-revision", target.object, |patch: JsonPatch| patch.replace(&["revision"], number))
        })
    }

    /// The oldest that nobody uses, beyond those that the owner wants kept. One at a time.
    pub(super) fn prune(&self, is_used: impl Fn(&str) -> bool) -> Option<Write> {
        let unused = self.by_name.values().filter(|each| !is_used(&each.object.id.name));
        let unused: Vec<_> = unused.collect();
        if unused.len() <= self.decoration.body.history_limit {
            return None;
        }
        let oldest = unused.into_iter().min_by_key(|each| each.body.number)?;
        Some(Write::delete("delete-revision", oldest.object))
    }
}
