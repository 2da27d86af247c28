//! Which pods get the template's revision.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GroupKind;
use hitless_api::grant::ImageChange;
use hitless_api::names::labels;
use hitless_api::pod::PodView;

use super::departures::{Departures, Leave};
use super::dress::Dress;
use super::facts::Facts;
use super::instances::Instances;
use super::pod;
use super::pods::is_at;
use super::way::{Way, Ways};
use crate::because::{Because, Cause};
use crate::intent::DesiredOperation;
use crate::removal::{Removal, serves};
use crate::restart_annotations::RestartAnnotations;
use crate::write::Write;

/// How far the update is.
#[derive(Default)]
pub(crate) struct Progress {
    /// uids of pods that are not as they are to be.
    pub(crate) behind: BTreeSet<String>,
    /// uids of those that can't be brought there in the way that their owner allows.
    pub(crate) stuck: BTreeSet<String>,
    /// Pods that are brought to the target in the end.
    pub(crate) total: usize,
    /// Why pods stay as they are.
    pub(crate) refused: Option<Because>,
    /// Whether pods that are to be made would be accepted, by the revision that they are made from.
    pub(super) tries: BTreeMap<String, Write>,
}

/// What an update is decided on.
pub(super) struct Update<'r, 'w, 'a> {
    pub(super) facts: &'r Facts<'w, 'a>,
    pub(super) dress: &'r dyn Dress<'a>,
    /// The pairs of ids.
    pub(super) pairs: BTreeMap<i32, i32>,
    /// Ids that are to be at the template's revision.
    pub(super) scope: BTreeSet<i32>,
}

/// Pods that are still to be made get the revision that their place wants.
pub(super) fn retarget<'a>(facts: &Facts<'_, 'a>, instances: &mut Instances<'a>, scope: &BTreeSet<i32>) {
    let Facts { spec, revisions, target, .. } = *facts;
    let current = if revisions.has(spec.current) { spec.current } else { target };
    let news = instances.origins();
    for (id, instance) in &mut instances.by_id {
        if instance.pod.is_some() || news.contains_key(id) {
            continue;
        }
        let marks = instance.record.marks;
        let revision = match scope.contains(id) {
            true if marks.to_make || marks.recreate => target,
            false if marks.to_make => current,
            _ if revisions.has(instance.revision()) => continue,
            _ => target,
        };
        revision.clone_into(&mut instance.record.revision);
    }
}

impl<'a> Update<'_, '_, 'a> {
    /// DesiredState and departures of pods that are not as they are to be.
    pub(super) fn run(&self, instances: &mut Instances<'a>, leaving: &mut Departures<'a>) -> Progress {
        let Facts { spec, world, .. } = *self.facts;
        let mut progress = Progress { refused: self.dress.refusal(), ..Progress::default() };
        let of = if spec.has_metadata_in_place { RestartAnnotations::of_followed } else { RestartAnnotations::of };
        let restarts = of(spec.object, spec.template);
        let ways = Ways { facts: self.facts, dress: self.dress, restarts: &restarts };
        let news: BTreeSet<i32> = self.pairs.values().copied().collect();
        let unmade = self.unmade(instances);
        let aims = self.aims(instances);
        let room = self.room_for(&aims, instances, leaving);
        for (id, to) in aims {
            let Some(pod) = instances.pod(id).filter(|_| !news.contains(&id)) else { continue };
            progress.total += 1;
            let is_done = is_at(pod, to) && self.dress.is_on(pod);
            if is_done || (leaving.going.contains(&id) && !self.pairs.contains_key(&id)) {
                continue;
            }
            progress.behind.insert(pod.id.uid.clone());
            // Who is replaced is not updated.
            if spec.paused || self.dress.is_open() || self.pairs.contains_key(&id) || self.facts.has_left(pod) {
                continue;
            }
            let way = match (ways.of(pod, to), &unmade) {
                (Way::Anew, Some(because)) if serves(pod, world) => Way::Refused(because.clone()),
                (Way::Anew, _) => self.asked((id, pod, to), instances, &mut progress),
                (way, _) => way,
            };
            match way {
                Way::InPlace(intent) => {
                    let delay_seconds = spec.delays.update;
                    leaving.desired.push(DesiredOperation { delay_seconds, ..DesiredOperation::new(pod, Ok(*intent)) });
                }
                Way::Replaced | Way::Asked => {}
                Way::Anew => {
                    let how = Leave { delay_seconds: spec.delays.update, fetch: self.images(pod, to), removal: room };
                    self.make_anew((id, pod), Some(to), how, instances, leaving);
                }
                Way::Refused(because) => {
                    progress.stuck.insert(pod.id.uid.clone());
                    progress.refused = Some(because);
                }
            }
        }
        self.make_those_anew_that_left(instances, leaving, &mut progress);
        progress
    }

    /// Which revision each id is to have: the template's, or, outside of the scope, its own where only what it has beside it differs.
    fn aims(&self, instances: &Instances<'a>) -> Vec<(i32, &'a str)> {
        let inside = self.scope.iter().map(|id| (*id, self.facts.target));
        let outside = instances.counted().filter(|(id, _)| !self.scope.contains(id)).filter_map(|(id, instance)| {
            let pod = instance.pod.filter(|pod| !self.dress.is_on(pod))?;
            let own = pod.labels.get(labels::CONTROLLER_REVISION_HASH)?;
            self.facts.revisions.has(own).then_some((id, own.as_str()))
        });
        inside.chain(outside).collect()
    }

    /// Unavailable pods that are as they are to be take from the room of the others. Those that only keep the version that they had
    /// say nothing about a new one.
    fn room_for(&self, aims: &[(i32, &str)], instances: &Instances<'a>, leaving: &Departures<'a>) -> Removal {
        let aims: BTreeMap<i32, &str> = aims.iter().copied().collect();
        leaving.made_anew(self.facts, instances, |id, pod| {
            let is_new = !self.dress.is_plain() || self.facts.is_at_target(pod);
            is_new && aims.get(&id).is_some_and(|to| is_at(pod, to)) && self.dress.is_on(pod)
        })
    }

    /// Pods that have left service for good go, also those that nobody wants gone any more: nobody puts them back. One of a pair goes
    /// with that.
    fn make_those_anew_that_left(
        &self,
        instances: &mut Instances<'a>,
        leaving: &mut Departures<'a>,
        progress: &mut Progress,
    ) {
        let spec = &self.facts.spec;
        let left = instances.by_id.iter().filter_map(|(id, instance)| {
            let pod = instance.pod?;
            let is_wanted = !instance.is_given_up() && !leaving.going.contains(id) && !self.pairs.contains_key(id);
            (is_wanted && self.facts.has_left(pod)).then_some((*id, pod))
        });
        for (id, pod) in left.collect::<Vec<_>>() {
            let revision = (self.scope.contains(&id) && !spec.paused).then_some(self.facts.target);
            self.make_anew((id, pod), revision, Leave::after(spec.delays.update), instances, leaving);
            progress.behind.insert(pod.id.uid.clone());
        }
    }

    /// The pod of the id is removed and made anew of this revision, or of the one that it has.
    fn make_anew(
        &self,
        (id, pod): (i32, &'a PodView),
        revision: Option<&str>,
        how: Leave,
        instances: &mut Instances<'a>,
        leaving: &mut Departures<'a>,
    ) {
        if leaving.remove(self.facts, Some(pod), how) {
            instances.mark_recreate(id, revision);
        }
    }

    /// Images that differ from the pod's where it is made anew at this revision: a tag that nobody can pull takes no pod out of service.
    fn images(&self, pod: &PodView, to: &str) -> BTreeMap<String, ImageChange> {
        let template = self.dress.template_at(pod, to);
        let change = |(name, wanted): (&str, &str)| {
            let container = pod.container(name).filter(|container| container.image != wanted)?;
            Some((name.to_owned(), ImageChange { from: container.image.clone(), to: wanted.to_owned() }))
        };
        template.images().filter_map(change).collect()
    }

    /// A pod that is to be made is not accepted: admission, quota. Who leaves to be made anew would not come back either.
    fn unmade(&self, instances: &Instances<'a>) -> Option<Because> {
        let namespace = self.facts.spec.namespace();
        let key = |name: &str| Write::key_of("create-pod", &GroupKind::POD, namespace, name);
        let mut free = instances.by_id.values().filter(|instance| instance.is_free);
        let words = free.find_map(|instance| self.facts.world.refused.get(&key(instance.pod_name())))?;
        let text = format!("no other pod leaves service, because a new one is not accepted: {words}");
        Some(Because::of(Cause::PodNotAccepted, text))
    }

    /// Before the first pod goes that is made anew from a revision, the API server is asked whether it accepts such a pod: where a policy, a
    /// webhook or Pod Security says no, nobody goes.
    fn asked(&self, (id, pod, to): (i32, &PodView, &str), instances: &Instances<'a>, progress: &mut Progress) -> Way {
        let Facts { world, pods, .. } = *self.facts;
        let is_made = |other: &&PodView| !other.terminating && is_at(other, to);
        let Some(accepted) = world.accepted.as_ref().filter(|_| !pods.iter().any(is_made)) else {
            return Way::Anew;
        };
        let Some(instance) = instances.by_id.get(&id) else { return Way::Anew };
        let template = self.dress.template_at(pod, to);
        let made = pod::Made { id, name: instance.pod_name(), revision: to, template: template.content() };
        let attempt = pod::create(self.facts, &made, &[], None).tried("try-pod", to);
        let key = attempt.key();
        if accepted.contains(&key) {
            return Way::Anew;
        }
        progress.tries.insert(to.to_owned(), attempt);
        match world.refused.get(&key) {
            Some(words) => {
                let text =
                    format!("no pod leaves service, because the one in its place would not be accepted: {words}");
                Way::Refused(Because::of(Cause::PodNotAccepted, text))
            }
            None => Way::Asked,
        }
    }
}
