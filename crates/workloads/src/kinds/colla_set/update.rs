//! Which pods get the template's revision, and how.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GroupKind;
use hitless_api::grant::ImageChange;
use hitless_api::names::labels;
use hitless_api::pod::PodView;

use super::body::{Scope, UpgradePolicy};
use super::decorations::Changes;
use super::names;
use super::plan::Work;
use super::pod;
use super::roster::Instance;
use crate::because::{Because, Cause};
use crate::intent::{PodIntent, PodWish};
use crate::kinds::revision;
use crate::need::{Goal, Need, Origin, need};
use crate::removal::{Removal, serves};
use crate::restart_annotations::RestartAnnotations;
use crate::shape::Shape;
use crate::write::Write;

/// How one pod gets it.
enum Way {
    InPlace(Box<PodIntent>),
    /// The pod is removed and made anew.
    Anew,
    /// The same; whether the pod that would be made is accepted is being asked.
    Asked,
    /// Another one is made before, as soon as there is room.
    Replaced,
    /// Its owner does not let it be done as it would have to be.
    Refused(Because),
}

impl<'a> Work<'a, '_> {
    pub(super) fn update(&mut self) {
        let scope = self.scope();
        self.retarget(&scope);
        // Pods that are to be made have got their revisions.
        self.decorate();
        let is_refused = self.decorations.fault().is_some();
        let restarts = RestartAnnotations::of(self.set.object, &self.set.body.template);
        let pairs = self.roster.pairs();
        let news: BTreeSet<i32> = pairs.values().copied().collect();
        let mut changes = Changes::default();
        let unmade = self.unmade();
        let aims = self.aims(&scope);
        let room = self.room_for(&aims);
        for (id, to) in aims {
            let Some((pod, uid)) =
                self.roster.instances.get(&id).and_then(|each| each.pod).map(|pod| (pod, &pod.id.uid))
            else {
                continue;
            };
            if news.contains(&id) {
                continue;
            }
            self.total += 1;
            let is_done = is_at(pod, to) && self.is_decorated(pod);
            if is_done || (self.going.contains(&id) && !pairs.contains_key(&id)) {
                continue;
            }
            self.behind.insert(uid.clone());
            // Who is replaced is not updated.
            if self.set.body.paused || is_refused || pairs.contains_key(&id) || self.world.left.contains(uid) {
                continue;
            }
            let way = match (self.way(pod, to, &restarts, &mut changes), &unmade) {
                (Way::Anew, Some(because)) if serves(pod, self.world) => Way::Refused(because.clone()),
                (Way::Anew, _) => self.asked(id, pod, to),
                (way, _) => way,
            };
            match way {
                Way::InPlace(intent) => {
                    let delay_seconds = self.set.body.update_delay_seconds;
                    self.wishes.push(PodWish { delay_seconds, ..PodWish::new(pod, Ok(*intent)) });
                }
                Way::Replaced | Way::Asked => {}
                Way::Anew => self.make_anew(id, Some(to), self.new_images(pod, to), room),
                Way::Refused(because) => {
                    self.stuck.insert(uid.clone());
                    self.refused = Some(because);
                }
            }
        }
        self.make_those_anew_that_left(&scope, &pairs);
    }

    /// Which revision each id is to have: the template's, or, outside of the scope, its own where only its decorations differ.
    fn aims(&self, scope: &BTreeSet<i32>) -> Vec<(i32, &'a str)> {
        let inside = scope.iter().map(|id| (*id, self.target));
        let outside = self.roster.counted().filter(|(id, _)| !scope.contains(id)).filter_map(|(id, instance)| {
            let pod = instance.pod.filter(|pod| !self.is_decorated(pod))?;
            let own = pod.labels.get(labels::CONTROLLER_REVISION_HASH)?;
            self.revisions.has(own).then_some((id, own.as_str()))
        });
        inside.chain(outside).collect()
    }

    /// Unavailable pods that are as they are to be take from the room of the others. Those that only keep the version that they had
    /// say nothing about a new one.
    fn room_for(&self, aims: &[(i32, &str)]) -> Removal {
        let aims: BTreeMap<i32, &str> = aims.iter().copied().collect();
        self.made_anew(|id, pod| {
            let is_new = !self.decorations.is_empty() || self.is_at_target(pod);
            is_new && aims.get(&id).is_some_and(|to| is_at(pod, to)) && self.is_decorated(pod)
        })
    }

    /// Pods that have left service for good go, also those that nobody wants gone any more: nobody puts them back. One of a pair goes
    /// with that.
    fn make_those_anew_that_left(&mut self, scope: &BTreeSet<i32>, pairs: &BTreeMap<i32, i32>) {
        let paused = self.set.body.paused;
        let left = self.roster.instances.iter().filter_map(|(id, instance)| {
            let uid = &instance.pod?.id.uid;
            let is_wanted = !instance.is(names::SCALE_IN) && !self.going.contains(id) && !pairs.contains_key(id);
            (is_wanted && self.world.left.contains(uid)).then(|| (*id, uid.clone()))
        });
        for (id, uid) in left.collect::<Vec<_>>() {
            let revision = (scope.contains(&id) && !paused).then_some(self.target);
            self.make_anew(id, revision, BTreeMap::new(), Removal::Surplus);
            self.behind.insert(uid);
        }
    }

    /// The pod of the id is removed, once these images are on its node, and made anew of this revision, or of the one that it has.
    fn make_anew(&mut self, id: i32, revision: Option<&str>, fetch: BTreeMap<String, ImageChange>, room: Removal) {
        if self.remove_once_fetched(id, self.set.body.update_delay_seconds, fetch, room)
            && let Some(instance) = self.roster.instances.get_mut(&id)
        {
            instance.data.extend(revision.map(|revision| (names::REVISION.to_owned(), revision.to_owned())));
            instance.mark(names::RECREATE);
        }
    }

    /// Images that differ from the pod's where it is made anew at this revision: a tag that nobody can pull takes no pod out of service.
    fn new_images(&self, pod: &PodView, to: &str) -> BTreeMap<String, ImageChange> {
        let template = self.template_at(pod, to);
        let change = |(name, wanted): (&str, &str)| {
            let container = pod.container(name).filter(|container| container.image != wanted)?;
            Some((name.to_owned(), ImageChange { from: container.image.clone(), to: wanted.to_owned() }))
        };
        template.images().filter_map(change).collect()
    }

    /// A pod that is to be made is not accepted: admission, quota. Who leaves to be made anew would not come back either.
    fn unmade(&self) -> Option<Because> {
        let id = &self.set.object.id;
        let key = |name: &str| Write::key_of("create-pod", &GroupKind::POD, &id.namespace, name);
        let mut free = self.roster.instances.values().filter(|instance| instance.is_free);
        let words = free.find_map(|instance| self.world.refused.get(&key(instance.pod_name())))?;
        let text = format!("no other pod leaves service, because a new one is not accepted: {words}");
        Some(Because::of(Cause::PodNotAccepted, text))
    }

    /// Before the first pod goes that is made anew from a revision, the API server is asked whether it accepts such a pod: where a policy, a
    /// webhook or Pod Security says no, nobody goes.
    fn asked(&mut self, id: i32, pod: &PodView, to: &str) -> Way {
        let is_made = |other: &&PodView| !other.terminating && is_at(other, to);
        let Some(accepted) = self.world.accepted.as_ref().filter(|_| !self.pods.iter().any(is_made)) else {
            return Way::Anew;
        };
        let Some(instance) = self.roster.instances.get(&id) else { return Way::Anew };
        let mut instance = instance.clone();
        instance.data.insert(names::REVISION.to_owned(), to.to_owned());
        let template = self.template_at(pod, to);
        let made = pod::Plan { template: template.content(), claims: Vec::new(), replaces: None };
        let attempt = pod::create(self.set, id, &instance, &made).tried("try-pod", to);
        let key = attempt.key();
        if accepted.contains(&key) {
            return Way::Anew;
        }
        self.tries.insert(to.to_owned(), attempt);
        match self.world.refused.get(&key) {
            Some(words) => {
                let text =
                    format!("no pod leaves service, because the one in its place would not be accepted: {words}");
                Way::Refused(Because::of(Cause::PodNotAccepted, text))
            }
            None => Way::Asked,
        }
    }

    /// Ids that are to be at the template's revision.
    pub(super) fn scope(&self) -> BTreeSet<i32> {
        let instances = self.roster.counted();
        let mut scope: BTreeSet<i32> = match self.set.body.scope {
            Scope::ByLabel => {
                let is_meant = |instance: &Instance<'_>| {
                    instance.pod.is_some_and(|pod| pod.labels.contains_key(names::UPDATE_INCLUDED))
                };
                instances.filter(|(_, instance)| is_meant(instance)).map(|(id, _)| id).collect()
            }
            Scope::Partition(kept) => {
                let mut all: Vec<_> = instances.collect();
                let count = self.set.body.replicas.saturating_sub(kept);
                if count < self.set.body.replicas {
                    all.sort_by_key(|(id, instance)| self.place(*id, instance));
                    all.truncate(count);
                }
                all.into_iter().map(|(id, _)| id).collect()
            }
        };
        // Both pods of a pair are one.
        let of_pairs = self.roster.pairs().into_iter().filter(|(origin, _)| scope.contains(origin));
        let news: Vec<i32> = of_pairs.map(|(_, new)| new).collect();
        scope.extend(news);
        scope
    }

    /// Upstream's order: those that are there already or on their way, then those that don't serve.
    fn place(&self, id: i32, instance: &Instance<'_>) -> impl Ord + use<> {
        let at_target = match instance.pod {
            Some(pod) => self.is_at_target(pod),
            None => instance.revision() == self.target,
        };
        let uid = instance.pod.map(|pod| pod.id.uid.as_str());
        let is_moving = uid.is_some_and(|uid| self.world.operating.contains(uid) || self.world.left.contains(uid));
        let ready = instance.pod.and_then(PodView::ready_since);
        let created = instance.pod.and_then(|pod| pod.created);
        let is_available = instance.pod.is_some_and(PodView::available);
        let is_moving = is_moving || instance.data.contains_key(names::REPLACE_NEW);
        (!at_target, !is_moving, instance.pod.is_none(), is_available, Reverse(ready), Reverse(created), id)
    }

    /// Pods that are still to be made get the revision that their place wants.
    fn retarget(&mut self, scope: &BTreeSet<i32>) {
        let current = &self.set.body.status.current_revision;
        let current = if self.revisions.has(current) { current.as_str() } else { self.target };
        let news = self.roster.news();
        for (id, instance) in &mut self.roster.instances {
            if instance.pod.is_some() || news.contains(id) {
                continue;
            }
            let is_new = instance.is(names::JUST_CREATE);
            let revision = match scope.contains(id) {
                true if is_new || instance.is(names::RECREATE) => self.target,
                false if is_new => current,
                _ if self.revisions.has(instance.revision()) => continue,
                _ => self.target,
            };
            instance.data.insert(names::REVISION.to_owned(), revision.to_owned());
        }
    }

    /// The label tells.
    pub(super) fn is_at_target(&self, pod: &PodView) -> bool {
        is_at(pod, self.target)
    }

    fn way(&self, pod: &PodView, to: &str, restarts: &RestartAnnotations, changes: &mut Changes) -> Way {
        let policy = self.set.body.policy;
        if policy == UpgradePolicy::Recreate {
            return Way::Anew;
        }
        if policy == UpgradePolicy::Replace {
            return Way::Replaced;
        }
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
        let template = &self.set.body.template;
        let shape = self.revisions.shape(label);
        let has_same_claims = label == to || self.revisions.has_same_claims(label);
        let goal = Goal::of(self.set.object, template, revision::label(to));
        let in_place = if !has_same_claims {
            None
        } else if self.decorations.is_empty() && to == self.target && self.is_decorated(pod) {
            shape.and_then(|shape| in_place(pod, shape, &goal, restarts))
        } else {
            let change = self.change(pod, to, changes);
            change.and_then(|change| in_place(pod, change.from.shape(), &change.goal(goal), restarts))
        };
        match in_place {
            Some(intent) => Way::InPlace(Box::new(intent)),
            None if policy == UpgradePolicy::InPlaceOnly => Way::Refused(self.not_in_place(pod, to, restarts)),
            None => Way::Anew,
        }
    }

    /// Why it can't be done in a running pod.
    fn not_in_place(&self, pod: &PodView, to: &str, restarts: &RestartAnnotations) -> Because {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
        if label == to {
            return Because::field("something else than images in a PodDecoration");
        }
        let annotations = &self.set.body.template.shape().annotations;
        let shape = self.revisions.shape(label);
        let because = shape.and_then(|shape| restarts.first_native_change(&shape.annotations, annotations));
        because.unwrap_or_else(|| {
            Because::field(if self.revisions.has_same_claims(label) {
                "something else than images and restart annotations in spec.template"
            } else {
                "spec.volumeClaimTemplates"
            })
        })
    }

    /// Revisions that some pod has or is to have.
    pub(super) fn used_revisions(&self) -> BTreeSet<&str> {
        let of_pods = self.pods.iter().filter_map(|pod| pod.labels.get(labels::CONTROLLER_REVISION_HASH));
        let of_pods = of_pods.map(String::as_str);
        let of_ids = self.roster.instances.values().map(Instance::revision);
        let status = &self.set.body.status;
        let reported = [status.current_revision.as_str(), status.updated_revision.as_str(), self.target];
        of_pods.chain(of_ids).chain(reported).collect()
    }
}

/// Whether the pod's label names this revision.
fn is_at(pod: &PodView, revision: &str) -> bool {
    pod.labels.get(labels::CONTROLLER_REVISION_HASH).is_some_and(|label| label == revision)
}

/// The operation that brings the pod there, if all that differs can be changed in a running pod.
fn in_place(pod: &PodView, from: &Shape, goal: &Goal<'_>, restarts: &RestartAnnotations) -> Option<PodIntent> {
    let target = goal.template.shape();
    // Labels of a CollaSet's pods are its own and its decorations': they are changed with a new pod.
    let is_equal = from.fixed == target.fixed && from.labels == target.labels;
    let is_possible = is_equal
        && restarts.first_native_change(&from.annotations, &target.annotations).is_none()
        && restarts.asks_admission(&from.annotations, goal.template, &[pod]).is_none();
    if !is_possible {
        return None;
    }
    let origin = Origin::of(&from.revision);
    match need(pod, goal, &origin, [from]) {
        Need::Operation(Ok(intent)) => Some(intent),
        Need::Operation(Err(_)) | Need::Nothing => None,
    }
}
