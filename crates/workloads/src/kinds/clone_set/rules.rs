//! What OpenKruise decides about a CloneSet's pods.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;

use super::hooks::{self, State};
use super::order::{RemovalRank, UpdateRank};
use super::priority::{Priority, priority};
use super::scatter::scatter;
use super::{CloneSet, names};
use crate::pod_set::{Instances, Member, Rules};
use crate::world::World;

/// The rules of one CloneSet.
pub(super) struct CloneSetRules<'w, 'a> {
    pub(super) set: CloneSet<'a>,
    pub(super) world: &'w World<'a>,
    /// So many of the pods that are too many are of another than the update revision.
    pub(super) old_to_remove: usize,
}

/// Its owner wants the pod deleted.
pub(super) fn is_named(set: CloneSet<'_>, pod: &PodView) -> bool {
    pod.labels.contains_key(names::SPECIFIED_DELETE) || set.body.pods_to_delete.contains(&pod.id.name)
}

/// Ready for long enough, and nobody does anything to it.
pub(super) fn is_available(world: &World<'_>, pod: &PodView) -> bool {
    let is_normal = State::of(pod) == State::Normal;
    let is_recent = world.recently_ready.contains_key(pod.id.uid.as_str());
    is_normal && pod.available() && !is_recent && !world.left.contains(&pod.id.uid)
}

impl CloneSetRules<'_, '_> {
    /// Terms of `scatterStrategy` as the pods have them: how many match each, and how many don't.
    fn scattered(&self, order: Vec<usize>, pods: &[&PodView]) -> Vec<usize> {
        let terms = &self.set.body.scatter;
        if terms.is_empty() {
            return order;
        }
        let has = |term: usize, pod: &PodView| pod.labels.get(&terms[term].key) == Some(&terms[term].value);
        let own = self.world.pods(&self.set.object.id.uid);
        let all = |term: usize| {
            let matched = own.iter().filter(|pod| has(term, pod)).count();
            (matched, own.len() - matched)
        };
        let all: Vec<(usize, usize)> = (0..terms.len()).map(all).collect();
        scatter(order, &all, &|term, place| has(term, pods[place]))
    }
}

impl Rules for CloneSetRules<'_, '_> {
    /// First what the owner has named or what leaves already, then pods of old revisions as far as there are too many, then the others.
    fn order_of_removal(&self, all: Vec<Member<'_, '_>>) -> Vec<i32> {
        let mut crowds: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in all.iter().filter_map(|member| member.instance.pod).filter(|pod| pod.ready()) {
            *crowds.entry(pod.node.as_deref().unwrap_or_default()).or_default() += 1;
        }
        let (mut first, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for member in &all {
            let Some(pod) = member.instance.pod else {
                first.push((true, None, member.id));
                continue;
            };
            let crowd = crowds.get(pod.node.as_deref().unwrap_or_default()).copied().unwrap_or_default();
            let rank = RemovalRank::of(pod, self.is_available(pod), crowd);
            let side = match () {
                () if is_named(self.set, pod) || member.is_leaving => &mut first,
                () if member.is_at_target => &mut new,
                () => &mut old,
            };
            // Of those that go in any case one without a pod is given up last: its place is free.
            side.push((false, Some(rank), member.id));
        }
        for side in [&mut first, &mut old, &mut new] {
            side.sort();
        }
        let rest = old.split_off(self.old_to_remove.min(old.len()));
        first.into_iter().chain(old).chain(new).chain(rest).map(|(_, _, id)| id).collect()
    }

    /// First those that are there already or on their way, then upstream's order: that of Kubernetes, priorities, and then scattered.
    fn order_of_update(&self, all: Vec<Member<'_, '_>>) -> Vec<i32> {
        let (mut first, mut candidates) = (Vec::new(), Vec::new());
        for member in &all {
            match member.instance.pod {
                Some(pod) if !member.is_at_target && !member.is_moving => candidates.push((member.id, pod)),
                pod => first.push((!member.is_at_target, pod.is_none(), member.id)),
            }
        }
        first.sort_unstable();
        let rank = |pod: &PodView| -> (Option<Priority>, UpdateRank) {
            (self.set.body.priority.as_ref().map(|strategy| priority(strategy, &pod.labels)), UpdateRank::of(pod))
        };
        candidates.sort_by_cached_key(|(id, pod)| (rank(pod), *id));
        let pods: Vec<&PodView> = candidates.iter().map(|(_, pod)| *pod).collect();
        let order = self.scattered((0..pods.len()).collect(), &pods);
        first.into_iter().map(|(_, _, id)| id).chain(order.into_iter().map(|place| candidates[place].0)).collect()
    }

    fn is_available(&self, pod: &PodView) -> bool {
        is_available(self.world, pod)
    }

    fn is_named(&self, pod: &PodView) -> bool {
        is_named(self.set, pod)
    }

    fn is_made_anew(&self, pod: &PodView) -> bool {
        is_named(self.set, pod)
    }

    /// Pods of CloneSets are not replaced by others that are there before.
    fn is_to_be_replaced(&self, _: &PodView) -> bool {
        false
    }

    fn excluded(&self, _: &Instances<'_>) -> BTreeSet<i32> {
        BTreeSet::new()
    }

    fn taken_on(&self) -> usize {
        0
    }

    fn is_kept(&self, pod: &PodView) -> bool {
        hooks::pending_deletion(&self.set.body.hooks, pod).is_some()
    }

    /// Without a hook a new pod is `Normal` at once, which upstream's label says, too, where it is absent: one write less.
    fn labels(&self, id: i32, _: Option<&str>) -> Vec<(&'static str, String)> {
        let begins = self.set.body.hooks.pre_normal.is_some();
        let state = begins.then(|| (names::LIFECYCLE_STATE, State::PreparingNormal.as_str().to_owned()));
        [(names::INSTANCE_ID, names::id_text(id))].into_iter().chain(state).collect()
    }
}
