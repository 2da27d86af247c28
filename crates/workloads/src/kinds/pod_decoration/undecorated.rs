//! The labels that the pods of a CollaSet are made with, but for what decorations add.
//!
//! Selectors go by these, and by no others. A pod that is to be made has none yet that a decoration, admission or people set: with
//! such a label a selector would select the pod that is there and not the one that is made in its place, or the other way round, for
//! ever.

use std::collections::BTreeMap;

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use serde_json::Value;

use crate::kinds::colla_set;
use crate::kinds::revision::history::History;
use crate::object::Object;
use crate::template::Template;
use crate::world::World;

/// The templates of the pods of one CollaSet.
pub(super) struct Undecorated<'a> {
    own: Option<&'a Value>,
    revisions: History<'a>,
}

impl<'a> Undecorated<'a> {
    pub(super) fn of(set: &'a Object, world: &World<'a>) -> Self {
        Self { own: set.template().map(Template::content), revisions: History::of(set, world) }
    }

    /// The labels of a pod of it. Of a revision that is gone it has those that it would be made anew with.
    pub(super) fn labels(&self, pod: &PodView) -> BTreeMap<String, String> {
        let revision = pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
        let template = self.revisions.template(revision).or(self.own).unwrap_or(&Value::Null);
        colla_set::labels_of_new(template, colla_set::instance_id(pod), revision)
    }
}
