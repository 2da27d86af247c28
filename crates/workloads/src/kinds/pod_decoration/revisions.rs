//! The templates that a PodDecoration has had.

use hitless_api::names::labels;
use serde_json::{Value, json};

use super::{POD_DECORATION, PodDecoration};
use crate::pod_set::naming;
use crate::revision::history::History;
use crate::revision::{CONTROLLER_REVISION, Revision};
use crate::world::World;
use crate::write::Write;

/// The ControllerRevisions of one PodDecoration.
pub(super) struct Revisions<'a> {
    decoration: PodDecoration<'a>,
    history: History<'a>,
}

impl<'a> Revisions<'a> {
    pub(super) fn of(decoration: PodDecoration<'a>, world: &World<'a>) -> Self {
        Self { decoration, history: History::of(decoration.object, world) }
    }

    /// The templates, by the name of the revision.
    pub(super) fn templates(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.history.iter().filter_map(|(name, each)| Some((name, each.body.template.as_deref()?)))
    }

    /// That of the template: of several equal ones the newest.
    pub(super) fn target(&self) -> Option<Revision<'a>> {
        self.history.newest_of(&self.decoration.body.template, |_| true)
    }

    /// Makes the one of the template. Its name follows from the template, so it is made once.
    pub(super) fn create(&self) -> Write {
        let (id, template) = (&self.decoration.object.id, &self.decoration.body.template);
        let owner = json!({"apiVersion": POD_DECORATION.api_version(), "kind": "PodDecoration", "name": id.name, "uid": id.uid,
            "controller": true, "blockOwnerDeletion": true});
        let metadata = json!({
            "name": naming::revision(&id.name, template.revision()),
            "namespace": id.namespace,
            "labels": {labels::MADE_FOR: "PodDecoration"},
            "ownerReferences": [owner],
        });
        Write::create("create-revision", &CONTROLLER_REVISION.group_kind, self.history.create(&metadata, template))
    }

    pub(super) fn renumber(&self, target: Revision<'_>) -> Option<Write> {
        self.history.renumber(target)
    }

    pub(super) fn prune(&self, is_used: impl Fn(&str) -> bool) -> Option<Write> {
        self.history.prune(self.decoration.body.history_limit, is_used)
    }
}
