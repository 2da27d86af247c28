//! What PodDecorations add to the pods of a CollaSet.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitless_api::digest;
use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use serde_json::{Map, Value, json};

use super::CollaSet;
use super::pods::labels_of_new;
use crate::because::{Because, Cause};
use crate::kinds::pod_decoration::names::mark_among;
use crate::kinds::pod_decoration::{Choice, Decorations, Marks, NewPod};
use crate::pod_set::{Change, Dress, Facts, Instance, Instances};
use crate::template::Template;

/// Changes that are known already: many pods have the same. By revision and decorations, before and afterwards.
type Changes = BTreeMap<(String, Choice, String, Choice), Option<Rc<Change>>>;

/// A CollaSet with its decorations.
pub(super) struct Decorated<'w, 'a> {
    set: CollaSet<'a>,
    facts: Facts<'w, 'a>,
    decorations: Decorations<'a, 'w>,
    known: RefCell<Changes>,
}

impl<'w, 'a> Decorated<'w, 'a> {
    /// Which decorations count for the pods that are there and for those that are to be made.
    pub(super) fn of(set: CollaSet<'a>, facts: Facts<'w, 'a>, instances: &Instances<'a>) -> Self {
        let decorations = Decorations::none();
        let plain = Self { set, facts, decorations, known: RefCell::default() };
        if facts.world.decorations(&set.object.id.namespace).is_empty() {
            return plain;
        }
        let origins = instances.origins();
        let missing = instances.by_id.iter();
        let missing = missing.filter(|(_, instance)| instance.pod.is_none() && !instance.is_given_up());
        let new = missing.map(|(id, instance)| {
            let replaces = origins.get(id).and_then(|origin| instances.by_id.get(origin));
            (*id, plain.new_pod(*id, instance, replaces))
        });
        let usual = plain.labels_of_new(0, facts.target);
        let decorations = Decorations::of(set.object, facts.world, &new.collect(), &usual);
        Self { decorations, ..plain }
    }

    fn new_pod(&self, id: i32, instance: &Instance<'a>, replaces: Option<&Instance<'a>>) -> NewPod<'a> {
        let replaces = replaces.and_then(|origin| origin.pod);
        NewPod { labels: self.labels_of_new(id, instance.revision()), replaces }
    }

    fn labels_of_new(&self, id: i32, revision: &str) -> BTreeMap<String, String> {
        labels_of_new(self.facts.revisions.template_or_own(revision), id, revision)
    }

    /// The template of a revision with these decorations.
    fn rendered(&self, revision: &str, choice: &Choice) -> Option<Template> {
        let revisions = self.facts.revisions;
        let (template, shape) = (revisions.template(revision)?, revisions.shape(revision)?);
        let template = Template::new(self.decorations.render(template, choice));
        Some(template.with_revision(&together(&shape.revision, choice)))
    }
}

impl<'a> Dress<'a> for Decorated<'_, 'a> {
    fn refusal(&self) -> Option<Because> {
        self.decorations.refusal().map(|text| Because::of(Cause::InvalidDecoration, text.to_owned()))
    }

    fn is_open(&self) -> bool {
        self.decorations.fault().is_some()
    }

    fn is_plain(&self) -> bool {
        self.decorations.is_empty()
    }

    fn is_on(&self, pod: &PodView) -> bool {
        self.is_open() || self.decorations.are_on(pod)
    }

    /// `None` while one of its decorations has no revision yet, or makes no sense.
    fn of_new(&self, id: i32, instance: &Instance<'a>, replaces: Option<&Instance<'a>>) -> Option<Cow<'a, Value>> {
        let template = self.facts.revisions.template_or_own(instance.revision());
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

    fn template_at(&self, pod: &PodView, revision: &str) -> Cow<'_, Template> {
        if self.decorations.is_empty() && revision == self.facts.target {
            return Cow::Borrowed(&self.set.body.template);
        }
        let template = self.facts.revisions.template_or_own(revision);
        Cow::Owned(Template::new(self.decorations.render(template, &self.decorations.of_pod(pod))))
    }

    /// `None` if its containers are not the same ones then.
    fn change(&self, pod: &PodView, to: &str) -> Option<Rc<Change>> {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        let (has, wanted) = (self.decorations.has(pod)?, self.decorations.of_pod(pod));
        let names = |choice: &Choice| -> Vec<String> { choice.iter().map(|(name, _)| name.clone()).collect() };
        if names(&has) != names(&wanted) {
            return None;
        }
        let change = || {
            let (from, to) = (self.rendered(label, &has)?, self.rendered(to, &wanted)?);
            let Marks { labels, annotation } = Marks::of(&wanted);
            let annotation = annotation.map(|value| (annotations::DECORATIONS.to_owned(), value));
            Some(Rc::new(Change { from, to, labels, annotations: annotation.into_iter().collect() }))
        };
        let key = (label.clone(), has.clone(), to.to_owned(), wanted.clone());
        self.known.borrow_mut().entry(key).or_insert_with(change).clone()
    }

    fn fixed(&self) -> &'static str {
        "something else than images in a PodDecoration"
    }

    /// Single pods are brought to others because a partition keeps them at an earlier template or decoration. What failed at one of them
    /// says nothing about the next one.
    fn goals(&self, instances: &Instances<'a>) -> (String, BTreeSet<String>) {
        let revision = self.set.body.template.revision();
        if self.decorations.is_empty() {
            return (revision.to_owned(), BTreeSet::new());
        }
        let goal = together(revision, &self.decorations.of_all(&self.labels_of_new(0, self.facts.target)));
        let pods = instances.by_id.values().filter_map(|instance| instance.pod);
        let wanted: BTreeSet<(&str, Choice)> = pods
            .flat_map(|pod| {
                let own = pod.labels.get(labels::CONTROLLER_REVISION_HASH);
                let own = own.and_then(|name| self.facts.revisions.shape(name)).map(|shape| shape.revision.as_str());
                let wanted = self.decorations.of_pod(pod);
                own.into_iter().chain([revision]).map(move |revision| (revision, wanted.clone()))
            })
            .collect();
        let single = wanted.iter().map(|(revision, choice)| together(revision, choice));
        let single = single.filter(|revision| *revision != goal).collect();
        (goal, single)
    }
}

/// A template's revision together with the decorations of a pod.
fn together(template: &str, choice: &Choice) -> String {
    if choice.is_empty() { template.to_owned() } else { digest::short(&json!([template, choice])) }
}
