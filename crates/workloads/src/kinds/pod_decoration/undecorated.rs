//! The labels that the pods of a CollaSet are made with, but for what decorations add.
//!
//! Selectors go by these, and by no others. A pod that is to be made has none yet that a decoration, admission or people set: with
//! such a label a selector would select the pod that is there and not the one that is made in its place, or the other way round, for
//! ever.

use std::collections::BTreeMap;

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_api::selector::Selector;
use serde_json::Value;

use crate::kinds::colla_set::{self, INSTANCE_ID};
use crate::kinds::revision::history::History;
use crate::object::Object;
use crate::template::Template;
use crate::world::World;

type Labels = BTreeMap<String, String>;

/// The labels of the pods of one CollaSet, found once for all decorations.
pub(crate) struct Undecorated<'a> {
    labels: BTreeMap<&'a str, Labels>,
    /// Pods whose labels differ in the instance id only: one selector of all but a few selects all of them or none.
    classes: Vec<Vec<&'a PodView>>,
}

impl<'a> Undecorated<'a> {
    pub(crate) fn of(set: &'a Object, world: &World<'a>) -> Self {
        let (own, revisions) = (set.template().map(Template::content), History::of(set, world));
        let mut labels = BTreeMap::new();
        let mut classes: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
        for pod in world.pods(&set.id.uid).iter().copied() {
            // Of a revision that is gone it has those that it would be made anew with.
            let revision = pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
            let template = revisions.template(revision).or(own).unwrap_or(&Value::Null);
            let id = colla_set::instance_id(pod);
            labels.insert(pod.id.uid.as_str(), colla_set::labels_of_new(template, id, revision));
            classes.entry(revision).or_default().push(pod);
        }
        Self { labels, classes: classes.into_values().collect() }
    }

    /// The labels of a pod of it.
    pub(crate) fn labels<'p>(&'p self, pod: &'p PodView) -> &'p Labels {
        self.labels.get(pod.id.uid.as_str()).unwrap_or(&pod.labels)
    }

    /// The pods that a selector selects.
    pub(crate) fn selected<'s>(&'s self, own: &'s Selector<'_>) -> impl Iterator<Item = &'a PodView> {
        let by_id = names_id(own);
        self.classes.iter().flat_map(move |class| {
            let is_class = class.first().is_some_and(|pod| !by_id && own.matches(self.labels(pod)));
            class.iter().copied().filter(move |pod| is_class || by_id && own.matches(self.labels(pod)))
        })
    }
}

fn names_id(own: &Selector<'_>) -> bool {
    let asked = own.requirements().iter().map(|requirement| &*requirement.key);
    own.labels().map(|(key, _)| key).chain(asked).any(|key| key == INSTANCE_ID)
}
