//! What PodDecorations add to the pods of a CollaSet.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::digest;
use hitless_api::names::labels;
use hitless_api::pod::PodView;
use serde_json::{Value, json};

use super::names;
use super::plan::Work;
use super::roster::Instance;
use crate::kinds::pod_decoration::{Choice, Decorations, Marks};
use crate::kinds::revision::label as revision_label;
use crate::need::Goal;
use crate::plan::Because;
use crate::template::Template;

/// What a pod was made from and what it is to become, both with their decorations.
pub(super) struct Change {
    pub(super) from: Template,
    pub(super) to: Template,
    marks: Marks,
}

impl Work<'_, '_> {
    /// Which decorations count for the pods that are there and for those that are to be made.
    pub(super) fn decorate(&mut self) {
        let id = &self.set.object.id;
        if self.world.decorations(&id.namespace).next().is_none() {
            return;
        }
        let new = self.roster.instances.iter().filter(|(_, instance)| instance.pod.is_none());
        let new = new.map(|(id, instance)| (*id, self.labels_of_new(*id, instance.revision())));
        self.decorations = Decorations::of(&id.namespace, &id.name, self.world, &new.collect());
        if let Some(text) = self.decorations.fault() {
            self.refused = Some(Because { reason: "InvalidDecoration", text });
        }
    }

    /// Whether the pod has the decorations that it is to have.
    pub(super) fn is_decorated(&self, pod: &PodView) -> bool {
        Marks::of(&self.decorations.of_pod(pod)).are_on(pod)
    }

    /// The template of a pod that is to be made, with its decorations; `None` while one of them has no revision yet, or can't be
    /// understood.
    pub(super) fn decorated(&self, id: i32, instance: &Instance<'_>, template: &Value) -> Option<Value> {
        if self.decorations.is_empty() {
            return Some(template.clone());
        }
        let labels = self.labels_of_new(id, instance.revision());
        if self.decorations.fault().is_some() || !self.decorations.are_known(&labels) {
            return None;
        }
        let choice = self.decorations.of_new(id, &labels);
        let mut pod = self.decorations.render(template, &choice);
        Marks::of(&choice).put_on(&mut pod);
        Some(pod)
    }

    /// What becomes of a pod that goes to the revision with this name; `None` if its containers are not the same ones then.
    pub(super) fn change(&self, pod: &PodView, to: &str) -> Option<Change> {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        let (has, wanted) = (self.decorations.has(pod)?, self.decorations.of_pod(pod));
        let names = |choice: &Choice| -> Vec<String> { choice.iter().map(|(name, _)| name.clone()).collect() };
        if names(&has) != names(&wanted) {
            return None;
        }
        let rendered = |revision: &str, choice: &Choice| {
            let (template, shape) = (self.revisions.template(revision)?, self.revisions.shape(revision)?);
            Some(
                Template::new(self.decorations.render(template, choice))
                    .with_revision(&together(&shape.revision, choice)),
            )
        };
        Some(Change { from: rendered(label, &has)?, to: rendered(to, &wanted)?, marks: Marks::of(&wanted) })
    }

    /// The revision that pods with all updated decorations are brought to, and those that single pods are brought to: because a
    /// partition keeps them at an earlier template or decoration. What failed at one of them says nothing about the next one.
    pub(super) fn goals(&self) -> (String, BTreeSet<String>) {
        let revision = self.set.body.template.revision();
        if self.decorations.is_empty() {
            return (revision.to_owned(), BTreeSet::new());
        }
        let goal = together(revision, &self.decorations.of_all(&self.labels_of_new(0, self.target)));
        let single = self.roster.instances.values().filter_map(|instance| {
            let pod = instance.pod?;
            let own = self.revisions.shape(pod.labels.get(labels::CONTROLLER_REVISION_HASH)?);
            let wanted = self.decorations.of_pod(pod);
            let revisions = own.map(|shape| shape.revision.as_str()).into_iter().chain([revision]);
            Some(revisions.map(|revision| together(revision, &wanted)).collect::<Vec<_>>())
        });
        let single = single.flatten().filter(|revision| *revision != goal).collect();
        (goal, single)
    }

    fn labels_of_new(&self, id: i32, revision: &str) -> BTreeMap<String, String> {
        let template = self.revisions.template(revision).unwrap_or(self.set.body.template.content());
        let own = template["metadata"]["labels"].as_object().into_iter().flatten();
        let mut all: BTreeMap<String, String> =
            own.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        for (key, value) in [(names::CONTROL, "true"), (names::INSTANCE_ID, &id.to_string())] {
            all.insert(key.to_owned(), value.to_owned());
        }
        all.extend(revision_label(revision));
        all
    }
}

impl Change {
    /// With what marks the pod afterwards.
    pub(super) fn goal<'g>(&'g self, goal: Goal<'g>) -> Goal<'g> {
        let Goal { mut labels, keeps_digest, .. } = goal;
        labels.extend(self.marks.labels.clone());
        let annotation = self.marks.annotation.clone();
        let annotations = annotation.map(|value| (hitless_api::names::annotations::DECORATIONS.to_owned(), value));
        Goal { template: &self.to, labels, annotations: annotations.into_iter().collect(), keeps_digest }
    }
}

/// A template's revision together with the decorations of a pod.
fn together(template: &str, choice: &Choice) -> String {
    if choice.is_empty() { template.to_owned() } else { digest::short(&json!([template, choice])) }
}
