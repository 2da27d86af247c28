//! Which revision of which decorations each pod of a CollaSet is to have.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_api::pod_decoration::DecorationTemplate;
use hitless_api::selector;
use serde_json::{Value, json};

use super::plan::label;
use super::revisions::Revisions;
use super::{LABEL, PodDecoration, body, render};
use crate::world::World;

/// Annotation of a pod: the revisions of all its decorations, as JSON.
pub(crate) const ANNOTATION: &str = hitless_api::names::annotations::DECORATIONS;

/// Names of decorations and of their revisions, in the order in which they are applied.
pub(crate) type Choice = Vec<(String, String)>;

/// A pod that is there, or that is to be made.
#[derive(Clone, Copy)]
struct Member<'m> {
    labels: &'m BTreeMap<String, String>,
    /// Name of the CollaSet, and instance id.
    place: (&'m str, i32),
    /// uid, if it is there.
    uid: Option<&'m str>,
}

/// The decorations of a namespace, as they count for one CollaSet.
pub(crate) struct Decorations<'a> {
    /// In the order in which they are applied.
    all: Vec<Decoration<'a>>,
}

struct Decoration<'a> {
    object: PodDecoration<'a>,
    label: String,
    templates: BTreeMap<&'a str, DecorationTemplate>,
    /// Name of the template's revision, if that is there.
    updated: Option<&'a str>,
    current: &'a str,
    /// uids of pods, and ids of pods that are to be made, that are to have the updated one.
    meant: BTreeSet<Meant>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meant {
    Pod(String),
    New(i32),
}

/// What marks a pod that has decorations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) labels: BTreeMap<String, String>,
    /// Value of [`ANNOTATION`].
    pub(crate) annotation: Option<String>,
}

impl<'a> Decorations<'a> {
    /// Those of the CollaSet's namespace. `new`: labels of its pods that are to be made, by id.
    pub(crate) fn of(
        namespace: &str,
        set: &str,
        world: &World<'a>,
        new: &BTreeMap<i32, BTreeMap<String, String>>,
    ) -> Self {
        let mut all: Vec<Decoration<'a>> =
            world.decorations(namespace).filter_map(|object| Decoration::of(object.pod_decoration()?, world)).collect();
        all.sort_by_key(|each| (Reverse(each.object.body.weight()), &each.object.object.id.name));
        if !all.is_empty() {
            let mut members: Vec<Member<'_>> = Vec::new();
            for other in world.colla_sets(namespace) {
                let live = world.pods(&other.id.uid).iter().filter(|pod| !pod.terminating && !pod.finished);
                members.extend(live.map(|pod| Member {
                    labels: &pod.labels,
                    place: (&other.id.name, id(pod)),
                    uid: Some(&pod.id.uid),
                }));
            }
            members.extend(new.iter().map(|(id, labels)| Member { labels, place: (set, *id), uid: None }));
            all.iter_mut().for_each(|each| each.choose(&members));
        }
        Self { all }
    }

    /// No decorations.
    pub(crate) fn none() -> Self {
        Self { all: Vec::new() }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Why the pods of a CollaSet can't be made or changed now.
    pub(crate) fn fault(&self) -> Option<String> {
        self.all.iter().find_map(|each| {
            let name = &each.object.object.id.name;
            each.object.body.fault().map(|why| format!("PodDecoration {name} can't be understood: {why}"))
        })
    }

    /// Whether the revisions of all that select a pod with these labels are there.
    pub(crate) fn are_known(&self, labels: &BTreeMap<String, String>) -> bool {
        self.all.iter().filter(|each| each.selects(labels)).all(|each| each.updated.is_some())
    }

    /// What a pod that is there is to have.
    pub(crate) fn of_pod(&self, pod: &PodView) -> Choice {
        let meant = Meant::Pod(pod.id.uid.clone());
        self.choice(&pod.labels, |each| {
            let has = pod.labels.get(&each.label).map(String::as_str).filter(|name| each.templates.contains_key(*name));
            (each.meant.contains(&meant), has)
        })
    }

    /// The updated revisions of all that select a pod with these labels.
    pub(crate) fn of_all(&self, labels: &BTreeMap<String, String>) -> Choice {
        let all = self.all.iter().filter(|each| each.selects(labels));
        all.filter_map(|each| Some((each.object.object.id.name.clone(), each.updated?.to_owned()))).collect()
    }

    /// What a pod that is to be made is to have.
    pub(crate) fn of_new(&self, id: i32, labels: &BTreeMap<String, String>) -> Choice {
        let meant = Meant::New(id);
        self.choice(labels, |each| (each.meant.contains(&meant), None))
    }

    fn choice<'c>(
        &'c self,
        labels: &BTreeMap<String, String>,
        of: impl Fn(&'c Decoration<'a>) -> (bool, Option<&'c str>),
    ) -> Choice {
        let selecting = self.all.iter().filter(|each| each.selects(labels));
        let chosen = selecting.filter_map(|each| {
            let (is_meant, has) = of(each);
            let current = Some(each.current).filter(|name| each.templates.contains_key(*name));
            let name = if is_meant { each.updated.or(has) } else { has.or(current).or(each.updated) };
            Some((each.object.object.id.name.clone(), name?.to_owned()))
        });
        chosen.collect()
    }

    /// What the pod has, if all of it is known.
    pub(crate) fn has(&self, pod: &PodView) -> Option<Choice> {
        let marks = pod.labels.iter().filter(|(key, _)| key.starts_with(LABEL)).count();
        let known = self.all.iter().filter_map(|each| {
            let revision = pod.labels.get(&each.label)?;
            each.templates
                .contains_key(revision.as_str())
                .then(|| (each.object.object.id.name.clone(), revision.clone()))
        });
        let known: Choice = known.collect();
        (known.len() == marks).then_some(known)
    }

    /// The template of a pod that has these.
    pub(crate) fn render(&self, template: &Value, choice: &Choice) -> Value {
        let template_of = |(name, revision): &(String, String)| {
            let decoration = self.all.iter().find(|each| each.object.object.id.name == *name)?;
            decoration.templates.get(revision.as_str())
        };
        render::render(template, choice.iter().filter_map(template_of))
    }
}

impl Marks {
    /// Of a pod that has these.
    pub(crate) fn of(choice: &Choice) -> Self {
        let labels = choice.iter().map(|(name, revision)| (label(name), revision.clone())).collect();
        let list: Vec<Value> =
            choice.iter().map(|(name, revision)| json!({"name": name, "revision": revision})).collect();
        let annotation = (!list.is_empty()).then(|| Value::from(list).to_string());
        Self { labels, annotation }
    }

    /// Whether the pod has exactly these.
    pub(crate) fn are_on(&self, pod: &PodView) -> bool {
        pod.labels.iter().filter(|(key, _)| key.starts_with(LABEL)).eq(self.labels.iter())
    }

    /// Puts them on a pod that is to be made.
    pub(crate) fn put_on(&self, pod: &mut Value) {
        for (key, value) in &self.labels {
            crate::template::set(pod, &["metadata", "labels", key], value);
        }
        if let Some(annotation) = &self.annotation {
            crate::template::set(pod, &["metadata", "annotations", ANNOTATION], annotation);
        }
    }
}

impl<'a> Decoration<'a> {
    /// One that is being deleted counts no more.
    fn of(object: PodDecoration<'a>, world: &World<'a>) -> Option<Self> {
        if object.object.deleting {
            return None;
        }
        let revisions = Revisions::of(object, world);
        let templates = revisions.by_name.iter();
        let templates =
            templates.filter_map(|(name, each)| Some((*name, body::template(each.body.template.as_deref()?))));
        Some(Self {
            object,
            label: label(&object.object.id.name),
            templates: templates.collect(),
            updated: revisions.target().map(|target| target.object.id.name.as_str()),
            current: &object.body.status.current_revision,
            meant: BTreeSet::new(),
        })
    }

    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.object.body.spec.selector.as_ref().is_some_and(|own| selector::matches(own, labels))
    }

    /// Those that have it already go first, then those that are to be made.
    fn choose(&mut self, members: &[Member<'_>]) {
        let Some(updated) = self.updated else { return };
        let rolling = self.object.body.rolling();
        let mut matched: Vec<&Member<'_>> = members.iter().filter(|member| self.selects(member.labels)).collect();
        let kept = rolling.partition.and_then(|kept| usize::try_from(kept).ok()).unwrap_or_default();
        let count = matched.len().saturating_sub(kept);
        let has_it = |member: &Member<'_>| member.labels.get(&self.label).is_some_and(|known| known == updated);
        matched.retain(|member| rolling.selector.as_ref().is_none_or(|own| selector::matches(own, member.labels)));
        matched.sort_by_key(|member| (!has_it(member), member.uid.is_some(), member.place));
        let meant = matched.into_iter().take(count).map(|member| match member.uid {
            Some(uid) => Meant::Pod(uid.to_owned()),
            None => Meant::New(member.place.1),
        });
        self.meant = meant.collect();
    }
}

fn id(pod: &PodView) -> i32 {
    let id = pod.labels.get(crate::kinds::colla_set::names::INSTANCE_ID);
    id.and_then(|id| id.parse().ok()).unwrap_or(i32::MAX)
}
