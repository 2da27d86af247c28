//! Which revision of which decorations each pod of a CollaSet is to have.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_api::selector::{self, Fault, Selector};
use serde_json::Value;

use super::names::{LABEL, label};
use super::revisions::Revisions;
use super::undecorated::Undecorated;
use super::{PodDecoration, body, marks, members, node_access, render};
use crate::kinds::colla_set::pods;
use crate::object::Object;
use crate::pod_set::pods::stays;
use crate::template::Template;
use crate::world::World;

/// Names of decorations and of their revisions, in the order in which they are applied.
pub(crate) type Choice = Vec<(String, String)>;

type Labels = BTreeMap<String, String>;

/// A pod that is to be made.
pub(crate) struct NewPod<'a> {
    pub(crate) labels: Labels,
    /// The pod that it replaces.
    pub(crate) replaces: Option<&'a PodView>,
}

/// The decorations of a namespace that concern one CollaSet.
pub(crate) struct Decorations<'a, 'w> {
    /// In the order in which they are applied.
    all: Vec<Decoration<'a>>,
    /// The new pods of pairs, by uid, with those that they replace.
    stands_for: BTreeMap<&'a str, &'a PodView>,
    /// What makes no sense in one of them.
    fault: Option<String>,
    /// What keeps pods as they are until it is there.
    awaited: Option<String>,
    /// The labels that selectors go by.
    labels: Option<&'w Undecorated<'a>>,
}

struct Decoration<'a> {
    object: PodDecoration<'a>,
    /// A pod's label that names the revision that it has.
    label: String,
    /// Whom it is for, or why nobody can tell; `None`: nobody.
    selector: Option<Result<Selector<'a>, Fault>>,
    templates: BTreeMap<&'a str, &'a Value>,
    /// Name of the template's revision, if that is there.
    updated: Option<&'a str>,
    /// Those that are to have the updated one, where only so many are.
    counted: Option<BTreeSet<Id<'a>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id<'a> {
    /// uid of a pod that is there.
    Pod(&'a str),
    /// Instance id of a pod of the CollaSet that is to be made.
    New(i32),
}

/// Who may be meant. A pod and the one that replaces it are one: the first of them.
struct Member<'a, 'm> {
    id: Id<'a>,
    /// The pod that is there.
    pod: Option<&'a PodView>,
    labels: &'m Labels,
    /// Name of the CollaSet, and instance id.
    place: (&'a str, i32),
}

impl<'a, 'w> Decorations<'a, 'w> {
    /// Those for `set`. `new`: its pods that are to be made, by id; `usual`: labels of such a pod, if there were one.
    pub(crate) fn of(
        set: &'a Object,
        world: &'w World<'a>,
        new: &BTreeMap<i32, NewPod<'a>>,
        usual: &BTreeMap<String, String>,
    ) -> Self {
        let namespace = &set.id.namespace;
        let mut decorations = Self { labels: world.undecorated(set), ..Self::none() };
        let marks: BTreeSet<&String> = members(set, world).flat_map(marks::on).map(|(mark, _)| mark).collect();
        // Pods that have one that does not count any more keep it, as long as nobody has decided which ones are to go.
        let kept = marks.iter().filter_map(|mark| mark.strip_prefix(LABEL));
        decorations.fault = kept.into_iter().find_map(|name| world.uncounted_decoration(namespace, name));
        let concerns = |each: &Decoration<'a>| {
            let selected = |own: &Selector<'_>| {
                let mut there = decorations.labels.into_iter();
                there.any(|known| known.selected(own).any(stays))
                    || new.values().map(|pod| &pod.labels).chain([usual]).any(|labels| own.matches(labels))
            };
            let is_meant = match &each.selector {
                None => false,
                Some(Ok(own)) => selected(own),
                Some(Err(_)) => true,
            };
            is_meant || marks.contains(&each.label)
        };
        let known = world.decorations(namespace).iter();
        let known = known.filter_map(|object| Decoration::of(object.pod_decoration()?, world));
        let mut all: Vec<Decoration<'a>> = known.filter(concerns).collect();
        if all.is_empty() {
            return decorations;
        }
        all.sort_by_key(|each| (Reverse(each.object.body.weight()), &each.object.object.id.name));
        let template = set.template().map(Template::content);
        let refused = decorations.fault.take();
        decorations.fault = refused.or_else(|| all.iter().find_map(|each| each.fault(template)));
        decorations.stands_for = pods::pairs_of(members(set, world)).1;
        if all.iter().any(|each| each.kept() > 0) {
            let members = Member::all(set, world, new);
            for each in &mut all {
                each.count(&members);
            }
        }
        let decorations = Self { all, ..decorations };
        let awaited = world.pods(&set.id.uid).iter().find_map(|pod| decorations.awaited(pod));
        let awaited = awaited.map(|each| format!("PodDecoration {} has no revision yet", each.object.object.id.name));
        Self { awaited, ..decorations }
    }

    /// No decorations.
    pub(crate) fn none() -> Self {
        Self { all: Vec::new(), stands_for: BTreeMap::new(), fault: None, awaited: None, labels: None }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What makes no sense in one of them: no pod of the CollaSet is made or changed.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Why no pod of the CollaSet can be changed now: one of them makes no sense, or nobody can tell yet what it gives.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.refusal().or(self.awaited.as_deref())
    }

    /// The decoration that selects the pod, while none of its revisions is known that the pod could have.
    fn awaited(&self, pod: &PodView) -> Option<&Decoration<'a>> {
        let mut selecting = self.all.iter().filter(|each| each.selects(self.labels_of(pod)));
        selecting.find(|each| each.updated.is_none() && each.kept_by(Some(pod)).is_none())
    }

    /// Whether the revisions of all that select a pod with these labels are there.
    pub(crate) fn are_known(&self, labels: &Labels) -> bool {
        self.all.iter().filter(|each| each.selects(labels)).all(|each| each.updated.is_some())
    }

    /// Whether the pod has what it is to have.
    pub(crate) fn are_on(&self, pod: &PodView) -> bool {
        let wanted: BTreeMap<String, String> =
            self.of_pod(pod).into_iter().map(|(name, revision)| (label(&name), revision)).collect();
        marks::on(pod).eq(wanted.iter())
    }

    /// What a pod that is there is to have.
    pub(crate) fn of_pod(&self, pod: &PodView) -> Choice {
        let first = self.stands_for.get(pod.id.uid.as_str()).copied().unwrap_or(pod);
        self.choice(self.labels_of(pod), (Id::Pod(&first.id.uid), self.labels_of(first)), Some(pod))
    }

    /// What a pod of this id that is to be made is to have. One that replaces another has what that is to have.
    pub(crate) fn of_new(&self, id: i32, new: &NewPod<'_>) -> Choice {
        let first = new.replaces.map_or((Id::New(id), &new.labels), |pod| (Id::Pod(&pod.id.uid), self.labels_of(pod)));
        self.choice(&new.labels, first, new.replaces)
    }

    /// The updated revisions of all that select a pod with these labels.
    pub(crate) fn of_all(&self, labels: &Labels) -> Choice {
        let all = self.all.iter().filter(|each| each.selects(labels));
        all.filter_map(|each| Some((each.object.object.id.name.clone(), each.updated?.to_owned()))).collect()
    }

    /// `first`: the pod itself, or the one that it replaces. `before`: the pod whose revisions are kept where the updated one is not
    /// meant.
    fn choice(&self, labels: &Labels, first: (Id<'_>, &Labels), before: Option<&PodView>) -> Choice {
        let selecting = self.all.iter().filter(|each| each.selects(labels));
        let chosen = selecting.filter_map(|each| {
            let name = each.updated.filter(|_| each.means(first)).or_else(|| each.kept_by(before));
            Some((each.object.object.id.name.clone(), name?.to_owned()))
        });
        chosen.collect()
    }

    /// What the pod has, if all of it is known.
    pub(crate) fn has(&self, pod: &PodView) -> Option<Choice> {
        let marks = marks::on(pod).count();
        let known = self.all.iter().filter_map(|each| {
            let revision = pod.labels.get(&each.label).filter(|name| each.templates.contains_key(name.as_str()))?;
            Some((each.object.object.id.name.clone(), revision.clone()))
        });
        let known: Choice = known.collect();
        (known.len() == marks).then_some(known)
    }

    /// The template of a pod that has these.
    pub(crate) fn render(&self, template: &Value, choice: &Choice) -> Value {
        let template_of = |(name, revision): &(String, String)| {
            let decoration = self.all.iter().find(|each| each.object.object.id.name == *name)?;
            decoration.templates.get(revision.as_str()).map(|template| body::template(template))
        };
        let templates: Vec<_> = choice.iter().filter_map(template_of).collect();
        render::render(template, &templates)
    }

    fn labels_of<'p>(&'p self, pod: &'p PodView) -> &'p Labels {
        self.labels.map_or(&pod.labels, |known| known.labels(pod))
    }
}

impl<'a> Decoration<'a> {
    /// One that is being deleted counts no more.
    fn of(object: PodDecoration<'a>, world: &World<'a>) -> Option<Self> {
        if object.object.deleting {
            return None;
        }
        let revisions = Revisions::of(object, world);
        Some(Self {
            object,
            label: label(&object.object.id.name),
            selector: object.body.spec.selector.as_ref().map(selector::read),
            templates: revisions.templates().collect(),
            updated: revisions.target().map(|target| target.object.id.name.as_str()),
            counted: None,
        })
    }

    /// Why it can't be applied to pods with this template.
    fn fault(&self, template: Option<&Value>) -> Option<String> {
        let body = self.object.body;
        let why = body.fault.clone().or_else(|| node_access::beyond(template?, body.template.content()))?;
        Some(format!("PodDecoration {} can't be applied: {why}", self.object.object.id.name))
    }

    /// One that nobody understands adds to nobody, and lets no pod be made or changed ([`Decorations::refusal`]).
    fn selects(&self, labels: &Labels) -> bool {
        matches!(&self.selector, Some(Ok(own)) if own.matches(labels))
    }

    /// So many keep what they have.
    fn kept(&self) -> usize {
        let kept = self.object.body.rolling().and_then(|rolling| rolling.partition);
        kept.and_then(|kept| usize::try_from(kept).ok()).unwrap_or_default()
    }

    /// The revision of who does not get the updated one: that of this pod, else the one that all pods had last, if there is one.
    fn kept_by<'p>(&'p self, pod: Option<&'p PodView>) -> Option<&'p str> {
        let known = |name: &&str| self.templates.contains_key(*name);
        let has = pod.and_then(|pod| pod.labels.get(&self.label)).map(String::as_str).filter(known);
        has.or(Some(self.object.body.status.current_revision.as_str()).filter(known))
    }

    /// Whether it is to have the updated revision.
    fn means(&self, (id, labels): (Id<'_>, &Labels)) -> bool {
        match &self.counted {
            Some(counted) => counted.contains(&id),
            None => self.is_open_to(labels),
        }
    }

    /// Whether its strategy selects such a pod.
    fn is_open_to(&self, labels: &Labels) -> bool {
        let selector = self.object.body.rolling().and_then(|rolling| rolling.selector.as_ref());
        selector.is_none_or(|selector| selector::read(selector).is_ok_and(|open| open.matches(labels)))
    }

    /// Those that have it already go first, then those that are to be made.
    fn count(&mut self, members: &[Member<'a, '_>]) {
        let kept = self.kept();
        let Some(updated) = self.updated.filter(|_| kept > 0) else { return };
        let mut matched: Vec<&Member<'a, '_>> = members.iter().filter(|member| self.selects(member.labels)).collect();
        let count = matched.len().saturating_sub(kept);
        let has_it = |member: &Member<'_, '_>| {
            member.pod.and_then(|pod| pod.labels.get(&self.label)).is_some_and(|known| known == updated)
        };
        matched.retain(|member| self.is_open_to(member.labels));
        matched.sort_by_key(|member| (!has_it(member), matches!(member.id, Id::Pod(_)), member.place));
        self.counted = Some(matched.into_iter().take(count).map(|member| member.id).collect());
    }
}

impl<'a: 'm, 'm> Member<'a, 'm> {
    /// All that decorations of the CollaSet's namespace may select.
    fn all(set: &'a Object, world: &'m World<'a>, new: &'m BTreeMap<i32, NewPod<'a>>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for other in world.colla_sets(&set.id.namespace) {
            let (alone, _) = pods::pairs_of(members(other, world));
            let undecorated = world.undecorated(other);
            all.extend(alone.into_iter().map(|pod| Member {
                id: Id::Pod(&pod.id.uid),
                pod: Some(pod),
                labels: undecorated.map_or(&pod.labels, |known| known.labels(pod)),
                place: (&other.id.name, pods::instance_id(pod)),
            }));
        }
        let alone = new.iter().filter(|(_, pod)| pod.replaces.is_none());
        all.extend(alone.map(|(id, pod)| Member {
            id: Id::New(*id),
            pod: None,
            labels: &pod.labels,
            place: (&set.id.name, *id),
        }));
        all
    }
}
