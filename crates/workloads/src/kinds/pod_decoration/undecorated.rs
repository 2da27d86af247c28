//! The labels that a pod would have without its decorations.
//!
//! Selectors go by these. A pod that is to be made has no others yet; and a decoration that sets a label which a selector asks for
//! would otherwise select a pod that is there and not the one that is made in its place, or the other way round, for ever.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use serde_json::Value;

use super::{LABEL, label, marks};
use crate::kinds::colla_set;
use crate::object::Object;
use crate::template::items;
use crate::world::World;

/// Which labels each revision of the decorations of a namespace sets.
pub(super) struct Undecorated<'a> {
    /// By a pod's label that names the revision, and the revision's name. Those that set none are left out.
    set: BTreeMap<(String, &'a str), Vec<&'a str>>,
}

impl<'a> Undecorated<'a> {
    pub(super) fn of(namespace: &str, world: &World<'a>) -> Self {
        let mut set = BTreeMap::new();
        for decoration in world.decorations(namespace) {
            let revisions = world.children(&decoration.id.uid).iter().filter_map(|child| child.controller_revision());
            for revision in revisions {
                let names: Vec<&str> = revision.body.template.as_deref().map(names).unwrap_or_default();
                if !names.is_empty() {
                    set.insert((label(&decoration.id.name), revision.object.id.name.as_str()), names);
                }
            }
        }
        Self { set }
    }

    /// The labels of a pod of this CollaSet.
    pub(super) fn labels(
        &self,
        pod: &'a PodView,
        set: &Object,
        world: &World<'a>,
    ) -> Cow<'a, BTreeMap<String, String>> {
        if self.set.is_empty() {
            return Cow::Borrowed(&pod.labels);
        }
        let revisions = marks::on(pod).filter_map(|(key, revision)| self.set.get(&(key.clone(), revision.as_str())));
        let names: BTreeSet<&str> = revisions.flatten().copied().collect();
        if names.is_empty() {
            return Cow::Borrowed(&pod.labels);
        }
        let hash = pod.labels.get(labels::CONTROLLER_REVISION_HASH);
        let revision = world.children(&set.id.uid).iter().find(|child| Some(&child.id.name) == hash);
        let template = revision.and_then(|object| object.controller_revision()?.body.template.as_deref());
        let mut all = pod.labels.clone();
        for name in names {
            match template.and_then(|template| template["metadata"]["labels"][name].as_str()) {
                Some(own) => _ = all.insert(name.to_owned(), own.to_owned()),
                None => _ = all.remove(name),
            }
        }
        Cow::Owned(all)
    }
}

/// Names of the labels that a template sets. Those that tell what is done to the pod are written by us, whatever it says.
fn names(template: &Value) -> Vec<&str> {
    let all = items(&template["metadata"]).filter_map(|each| each["labels"].as_object());
    let names = all.flat_map(|labels| labels.keys().map(String::as_str));
    names.filter(|name| !colla_set::is_own_label(name) && !name.starts_with(LABEL)).collect()
}
