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

use crate::kinds::colla_set::names::INSTANCE_ID;
use crate::kinds::colla_set::pods::{instance_id, labels_of_new};
use crate::object::{Object, Revision};
use crate::template::Template;

type Labels = BTreeMap<String, String>;

/// The labels of the pods of one CollaSet, found once for all decorations.
pub(crate) struct Undecorated<'a> {
    labels: BTreeMap<&'a str, Labels>,
    /// Pods whose labels differ in the instance id only: one selector of all but a few selects all of them or none.
    classes: Vec<Vec<&'a PodView>>,
}

impl<'a> Undecorated<'a> {
    /// Of this CollaSet, which has these revisions and pods.
    pub(crate) fn of(set: &'a Object, children: &[&'a Object], pods: &[&'a PodView]) -> Self {
        let own = set.template().map(Template::content);
        let revisions = children.iter().filter_map(|object| object.controller_revision());
        let template = |each: Revision<'a>| Some((each.object.id.name.as_str(), each.body.template.as_deref()?));
        let templates: BTreeMap<&str, &Value> = revisions.filter_map(template).collect();
        let mut labels = BTreeMap::new();
        let mut classes: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
        for pod in pods.iter().copied() {
            // Of a revision that is gone it has those that it would be made anew with.
            let revision = pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
            let template = templates.get(revision).copied().or(own).unwrap_or(&Value::Null);
            let id = instance_id(pod);
            labels.insert(pod.id.uid.as_str(), labels_of_new(template, id, revision));
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
