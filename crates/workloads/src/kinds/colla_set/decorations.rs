//! What PodDecorations add to the pods of a CollaSet.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitless_api::digest;
use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use serde_json::{Map, Value, json};

use super::names;
use super::plan::Work;
use super::pods::labels_of_new;
use super::roster::Instance;
use crate::because::{Because, Cause};
use crate::kinds::pod_decoration::names::mark_among;
use crate::kinds::pod_decoration::{Choice, Decorations, Marks, NewPod};
use crate::need::Goal;
use crate::template::Template;

/// What pods were made from and what they are to become, both with their decorations.
pub(super) struct Change {
    pub(super) from: Template,
    pub(super) to: Template,
    marks: Marks,
}

/// Changes that are known already: many pods have the same. By revision and decorations, before and afterwards.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<(String, Choice, String, Choice), Option<Rc<Change>>>);

impl<'a> Work<'a, '_> {
    /// Which decorations count for the pods that are there and for those that are to be made.
    pub(super) fn decorate(&mut self) {
        let set = self.set.object;
        if self.world.decorations(&set.id.namespace).is_empty() {
            return;
        }
        let pairs = self.roster.pairs();
        let origins: BTreeMap<i32, i32> = pairs.into_iter().map(|(origin, new)| (new, origin)).collect();
        let missing = self.roster.instances.iter();
        let missing = missing.filter(|(_, instance)| instance.pod.is_none() && !instance.is(names::SCALE_IN));
        let new = missing.map(|(id, instance)| {
            let replaces = origins.get(id).and_then(|origin| self.roster.instances.get(origin));
            (*id, self.new_pod(*id, instance, replaces))
        });
        let usual = self.labels_of_new(0, self.target);
        self.decorations = Decorations::of(set, self.world, &new.collect(), &usual);
        self.refused = self.decorations.refusal().map(|text| Because::of(Cause::InvalidDecoration, text.to_owned()));
    }

    /// Whether the pod has the decorations that it is to have. As long as nobody can tell, it has.
    pub(super) fn is_decorated(&self, pod: &PodView) -> bool {
        self.decorations.fault().is_some() || self.decorations.are_on(pod)
    }

    /// The template of a pod that is to be made, with its decorations; `None` while one of them has no revision yet, or makes no sense.
    pub(super) fn template_of_new(
        &self,
        id: i32,
        instance: &Instance<'a>,
        replaces: Option<&Instance<'a>>,
    ) -> Option<Cow<'a, Value>> {
        let template = self.revisions.template(instance.revision()).unwrap_or(self.set.body.template.content());
        let labels = template["metadata"]["labels"].as_object().into_iter().flat_map(Map::keys);
        if self.decorations.is_empty() && mark_among(labels).is_none() {
            return Some(Cow::Borrowed(template));
        }
        let new = self.new_pod(id, instance, replaces);
        if self.decorations.refusal().is_some() || !self.decorations.are_known(&new.labels) {
            return None;
        }
        let choice = self.decorations.of_new(id, &new);
        let mut pod = self.decorations.render(template, &choice);
        Marks::of(&choice).put_on(&mut pod);
        Some(Cow::Owned(pod))
    }

    /// The template of the pod once it has been made anew at the revision with this name.
    pub(super) fn template_at(&self, pod: &PodView, revision: &str) -> Cow<'_, Template> {
        let own = &self.set.body.template;
        if self.decorations.is_empty() && revision == self.target {
            return Cow::Borrowed(own);
        }
        let template = self.revisions.template(revision).unwrap_or(own.content());
        Cow::Owned(Template::new(self.decorations.render(template, &self.decorations.of_pod(pod))))
    }

    /// What becomes of a pod that goes to the revision with this name; `None` if its containers are not the same ones then.
    pub(super) fn change(&self, pod: &PodView, to: &str, known: &mut Changes) -> Option<Rc<Change>> {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        let (has, wanted) = (self.decorations.has(pod)?, self.decorations.of_pod(pod));
        let names = |choice: &Choice| -> Vec<String> { choice.iter().map(|(name, _)| name.clone()).collect() };
        if names(&has) != names(&wanted) {
            return None;
        }
        let rendered = |revision: &str, choice: &Choice| {
            let (template, shape) = (self.revisions.template(revision)?, self.revisions.shape(revision)?);
            let template = Template::new(self.decorations.render(template, choice));
            Some(template.with_revision(&together(&shape.revision, choice)))
        };
        let change = || {
            let (from, to) = (rendered(label, &has)?, rendered(to, &wanted)?);
            Some(Rc::new(Change { from, to, marks: Marks::of(&wanted) }))
        };
        let key = (label.clone(), has.clone(), to.to_owned(), wanted.clone());
        known.0.entry(key).or_insert_with(change).clone()
    }

    /// The revision that pods with all updated decorations are brought to, and those that single pods are brought to: because a
    /// partition keeps them at an earlier template or decoration. What failed at one of them says nothing about the next one.
    pub(super) fn goals(&self) -> (String, BTreeSet<String>) {
        let revision = self.set.body.template.revision();
        if self.decorations.is_empty() {
            return (revision.to_owned(), BTreeSet::new());
        }
        let goal = together(revision, &self.decorations.of_all(&self.labels_of_new(0, self.target)));
        let pods = self.roster.instances.values().filter_map(|instance| instance.pod);
        let wanted: BTreeSet<(&str, Choice)> = pods
            .flat_map(|pod| {
                let own = pod.labels.get(labels::CONTROLLER_REVISION_HASH).and_then(|name| self.revisions.shape(name));
                let own = own.map(|shape| shape.revision.as_str());
                let wanted = self.decorations.of_pod(pod);
                own.into_iter().chain([revision]).map(move |revision| (revision, wanted.clone()))
            })
            .collect();
        let single = wanted.iter().map(|(revision, choice)| together(revision, choice));
        let single = single.filter(|revision| *revision != goal).collect();
        (goal, single)
    }

    fn new_pod(&self, id: i32, instance: &Instance<'a>, replaces: Option<&Instance<'a>>) -> NewPod<'a> {
        let replaces = replaces.and_then(|origin| origin.pod);
        NewPod { labels: self.labels_of_new(id, instance.revision()), replaces }
    }

    fn labels_of_new(&self, id: i32, revision: &str) -> BTreeMap<String, String> {
        let template = self.revisions.template(revision).unwrap_or(self.set.body.template.content());
        labels_of_new(template, id, revision)
    }
}

impl Change {
    /// With what marks the pod afterwards.
    pub(super) fn goal<'g>(&'g self, goal: Goal<'g>) -> Goal<'g> {
        let Goal { template: _, mut labels, annotations: _, keeps_digest } = goal;
        labels.extend(self.marks.labels.clone());
        let annotation = self.marks.annotation.clone().map(|value| (annotations::DECORATIONS.to_owned(), value));
        Goal { template: &self.to, labels, annotations: annotation.into_iter().collect(), keeps_digest }
    }
}

/// A template's revision together with the decorations of a pod.
fn together(template: &str, choice: &Choice) -> String {
    if choice.is_empty() { template.to_owned() } else { digest::short(&json!([template, choice])) }
}
