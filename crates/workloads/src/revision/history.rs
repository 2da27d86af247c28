//! The templates that an object has had, as ControllerRevisions that the controller makes: of CollaSets and PodDecorations. The revisions
//! of StatefulSets and DaemonSets are their native controllers'.

use std::collections::BTreeMap;

use hitless_api::JsonPatch;
use serde_json::{Value, json};

use super::{CONTROLLER_REVISION, Revision};
use crate::object::Object;
use crate::template::Template;
use crate::world::World;
use crate::write::Write;

/// The ControllerRevisions of one object, by name.
pub(crate) struct History<'a>(BTreeMap<&'a str, Revision<'a>>);

impl<'a> History<'a> {
    pub(crate) fn of(owner: &Object, world: &World<'a>) -> Self {
        let children = world.children(&owner.id.uid).iter();
        let revisions = children.filter_map(|object| object.controller_revision());
        Self(revisions.map(|each| (each.object.id.name.as_str(), each)).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, Revision<'a>)> {
        self.0.iter().map(|(name, each)| (*name, *each))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Revision<'a>> {
        self.0.get(name).copied()
    }

    /// Template of a revision.
    pub(crate) fn template(&self, name: &str) -> Option<&'a Value> {
        self.get(name)?.body.template.as_deref()
    }

    /// Of several revisions of the template the newest.
    pub(crate) fn newest_of(
        &self,
        template: &Template,
        is_meant: impl Fn(Revision<'a>) -> bool,
    ) -> Option<Revision<'a>> {
        let same = self.0.values().copied().filter(|each| each.body.shape.revision == template.revision());
        same.filter(|each| is_meant(*each)).max_by_key(|each| each.body.number)
    }

    fn newest(&self) -> i64 {
        self.0.values().map(|each| each.body.number).max().unwrap_or_default()
    }

    /// Makes one with this metadata. The name is to follow from the template, so that it is made once.
    pub(crate) fn create(&self, metadata: &Value, template: &Template) -> Value {
        let mut template = Value::clone(template.content());
        template["$patch"] = "replace".into();
        json!({
            "apiVersion": CONTROLLER_REVISION.api_version(), "kind": "ControllerRevision",
            "metadata": metadata,
            "revision": self.newest() + 1,
            "data": {"spec": {"template": template}},
        })
    }

    /// A template that comes again is the newest revision again.
    pub(crate) fn renumber(&self, target: Revision<'_>) -> Option<Write> {
        let newest = self.newest();
        (target.body.number < newest).then(|| {
            let number = newest + 1;
            Write::patch("renumber-revision", target.object, |patch: JsonPatch| patch.replace(&["revision"], number))
        })
    }

    /// The oldest that nobody uses, beyond those that the owner wants kept. One at a time.
    pub(crate) fn prune(&self, limit: usize, is_used: impl Fn(&str) -> bool) -> Option<Write> {
        let unused: Vec<_> = self.0.values().filter(|each| !is_used(&each.object.id.name)).collect();
        if unused.len() <= limit {
            return None;
        }
        let oldest = unused.into_iter().min_by_key(|each| each.body.number)?;
        Some(Write::delete("delete-revision", oldest.object))
    }
}
