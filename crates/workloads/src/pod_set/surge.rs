//! A pod that is replaced by another one: the new one first, then the old one leaves.
//!
//! A pair counts as one pod. The old pod leaves service once the new one serves, and is deleted then; so they are never both removed.
//! At most the kind's `surge` of pods more than wanted are there.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;

use super::departures::{Departures, Leave};
use super::dress::Dress;
use super::facts::Facts;
use super::instances::{Instance, Instances};
use super::policy::UpgradePolicy;

/// What pairs are decided on.
pub(super) struct Replacing<'r, 'w, 'a> {
    pub(super) facts: &'r Facts<'w, 'a>,
    pub(super) dress: &'r dyn Dress<'a>,
}

impl<'a> Replacing<'_, '_, 'a> {
    /// Whether the pod is to be replaced by another one.
    fn is_to_be_replaced(&self, pod: &PodView, is_in_scope: bool) -> bool {
        let Facts { spec, rules, .. } = self.facts;
        let is_behind = || (is_in_scope && !self.facts.is_at_target(pod)) || !self.dress.is_on(pod);
        let is_updated = spec.policy == UpgradePolicy::Replace && !spec.paused && is_behind();
        rules.is_to_be_replaced(pod) || is_updated
    }

    /// The revision that the new pod of a pair is made from.
    fn revision_of_new<'r>(&self, instances: &'r Instances<'a>, origin: i32, scope: &BTreeSet<i32>) -> &'r str
    where
        'a: 'r,
    {
        let Facts { spec, revisions, target, .. } = *self.facts;
        if scope.contains(&origin) && !spec.paused && spec.policy != UpgradePolicy::InPlaceOnly {
            return target;
        }
        let known = instances.by_id.get(&origin).map_or("", Instance::revision);
        if revisions.has(known) { known } else { target }
    }

    /// Pairs go on: to the end, back, or to a newer revision.
    pub(super) fn go_on(&self, instances: &mut Instances<'a>, leaving: &mut Departures<'a>) {
        instances.drop_lone_links();
        let scope = self.facts.scope(instances);
        for (origin, new) in instances.pairs() {
            match (instances.pod(origin), instances.pod(new)) {
                (None, Some(_)) => {
                    // Somebody has deleted it.
                    instances.unlink([origin, new]);
                    instances.mark_scale_in(origin);
                }
                (Some(old), pod)
                    if !leaving.going.contains(&origin) && self.is_to_be_replaced(old, scope.contains(&origin)) =>
                {
                    let revision = self.revision_of_new(instances, origin, &scope).to_owned();
                    match pod {
                        Some(pod) if self.serves(pod) || self.facts.has_left(old) => {
                            self.finish([origin, new], [old, pod], instances, leaving);
                        }
                        Some(pod) => self.renew(new, pod, &revision, instances, leaving),
                        None => instances.set_revision(new, &revision),
                    }
                }
                (_, pod) => {
                    instances.unlink([origin, new]);
                    if pod.is_none() {
                        instances.mark_scale_in(new);
                    }
                }
            }
        }
    }

    /// Whether the new pod serves for good.
    fn serves(&self, pod: &PodView) -> bool {
        let Facts { rules, world, .. } = self.facts;
        rules.is_available(pod)
            && !self.facts.has_left(pod)
            && !world.recently_ready.contains_key(pod.id.uid.as_str())
            && !rules.is_named(pod)
    }

    /// The old pod leaves.
    fn finish(
        &self,
        [origin, new]: [i32; 2],
        [old, pod]: [&'a PodView; 2],
        instances: &mut Instances<'a>,
        leaving: &mut Departures<'a>,
    ) {
        leaving.going.insert(origin);
        leaving.successors.insert(old.id.uid.clone(), pod.id.clone());
        if leaving.remove(self.facts, Some(old), Leave::after(self.facts.spec.delays.update)) {
            instances.mark_scale_in(origin);
            instances.unlink([origin, new]);
        }
    }

    /// A new pod that does not serve, and is not what it is to be any more, is made anew.
    fn renew(
        &self,
        new: i32,
        pod: &'a PodView,
        revision: &str,
        instances: &mut Instances<'a>,
        leaving: &mut Departures<'a>,
    ) {
        let is_outdated = instances.by_id.get(&new).is_some_and(|each| each.revision() != revision);
        if (is_outdated || !self.dress.is_on(pod))
            && !leaving.going.contains(&new)
            && leaving.remove(self.facts, Some(pod), Leave::after(0))
        {
            leaving.going.insert(new);
            instances.mark_recreate(new, Some(revision));
        }
    }

    /// New pairs, as far as there is room.
    pub(super) fn begin(&self, instances: &mut Instances<'a>, leaving: &Departures<'a>, taken: &BTreeSet<&str>) {
        if self.facts.is_paused() {
            return;
        }
        let scope = self.facts.scope(instances);
        let pairs = instances.pairs();
        let most = self.facts.spec.replicas + self.facts.spec.limits.surge;
        let is_open = |(id, instance): (i32, &Instance<'a>)| {
            let pod = instance.pod?;
            let is_open = !pairs.contains_key(&id)
                && !self.facts.has_left(pod)
                && !leaving.going.contains(&id)
                && self.is_to_be_replaced(pod, scope.contains(&id));
            is_open.then_some(id)
        };
        let open: Vec<i32> = instances.counted().filter_map(is_open).collect();
        for origin in open {
            if instances.by_id.len() >= most || instances.is_full() {
                break;
            }
            let revision = self.revision_of_new(instances, origin, &scope).to_owned();
            let new = instances.add(&self.facts.spec, taken, &revision);
            instances.link(origin, new);
        }
    }
}
