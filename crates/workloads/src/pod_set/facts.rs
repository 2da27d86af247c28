//! What is known of a set in one look at it. All phases read it, and none changes it.

use std::collections::BTreeSet;

use hitless_api::names::labels;
use hitless_api::pod::PodView;

use super::claims::Claims;
use super::instances::{Instance, Instances};
use super::pods::is_at;
use super::policy::Scope;
use super::revisions::Revisions;
use super::rules::{Member, Rules};
use super::spec::Spec;
use crate::world::World;

/// What is known of a set.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'w, 'a> {
    pub(crate) spec: Spec<'a>,
    pub(crate) rules: &'w dyn Rules,
    pub(crate) world: &'w World<'a>,
    /// Its pods, also those that leave.
    pub(crate) pods: &'w [&'a PodView],
    pub(crate) revisions: &'w Revisions<'a>,
    pub(crate) claims: &'w Claims<'a>,
    /// Name of the template's ControllerRevision.
    pub(crate) target: &'a str,
}

impl<'a> Facts<'_, 'a> {
    /// The label tells.
    pub(crate) fn is_at_target(&self, pod: &PodView) -> bool {
        is_at(pod, self.target)
    }

    /// An operation of the pod is under way, or it has left service for good.
    pub(crate) fn is_busy(&self, pod: &PodView) -> bool {
        self.world.operating.contains(&pod.id.uid) || self.has_left(pod)
    }

    /// The pod has left service for good.
    pub(crate) fn has_left(&self, pod: &PodView) -> bool {
        self.world.left.contains(&pod.id.uid)
    }

    /// Whether no operation of its pods is to begin (annotation `hitless.dev/paused`).
    pub(super) fn is_paused(&self) -> bool {
        self.spec.object.pause().is_some()
    }

    /// The ids that count, as rules see them.
    pub(crate) fn members<'m>(&self, instances: &'m Instances<'a>) -> Vec<Member<'m, 'a>> {
        instances.counted().map(|(id, instance)| self.member(id, instance)).collect()
    }

    fn member<'m>(&self, id: i32, instance: &'m Instance<'a>) -> Member<'m, 'a> {
        let pod = instance.pod;
        let is_at_target = pod.map_or_else(|| instance.revision() == self.target, |pod| self.is_at_target(pod));
        let is_moving = pod.is_some_and(|pod| self.is_busy(pod)) || instance.record.pair.new.is_some();
        let is_leaving = pod.is_some_and(|pod| self.has_left(pod) || self.world.removable.contains(&pod.id.uid));
        Member { id, instance, is_at_target, is_moving, is_leaving }
    }

    /// Ids that are to be at the template's revision.
    pub(super) fn scope(&self, instances: &Instances<'a>) -> BTreeSet<i32> {
        let ids = |all: &mut dyn Iterator<Item = (i32, &Instance<'_>)>| all.map(|(id, _)| id).collect();
        let mut scope: BTreeSet<i32> = match self.spec.scope {
            Scope::ByLabel(label) => {
                let is_meant = |instance: &Instance<'_>| instance.pod.is_some_and(|pod| pod.labels.contains_key(label));
                ids(&mut instances.counted().filter(|(_, instance)| is_meant(instance)))
            }
            Scope::Partition(kept) => {
                let count = self.spec.replicas.saturating_sub(kept);
                if count < self.spec.replicas {
                    self.rules.order_of_update(self.members(instances)).into_iter().take(count).collect()
                } else {
                    ids(&mut instances.counted())
                }
            }
        };
        // Both pods of a pair are one.
        let news = instances.pairs().into_iter().filter(|(origin, _)| scope.contains(origin)).map(|(_, new)| new);
        let news: Vec<i32> = news.collect();
        scope.extend(news);
        scope
    }

    /// Revisions that some pod has or is to have, and one that the set's status names.
    pub(crate) fn used_revisions<'r>(&'r self, instances: &'r Instances<'a>, reported: &'r str) -> BTreeSet<&'r str> {
        let of_pods = self.pods.iter().filter_map(|pod| pod.labels.get(labels::CONTROLLER_REVISION_HASH));
        let of_ids = instances.by_id.values().map(Instance::revision);
        of_pods.map(String::as_str).chain(of_ids).chain([self.spec.current, reported, self.target]).collect()
    }
}
