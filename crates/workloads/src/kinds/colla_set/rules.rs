//! What KusionStack decides about a CollaSet's pods.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hitless_api::pod::PodView;

use super::membership::{excluded, included};
use super::{CollaSet, names};
use crate::pod_set::{Instances, Member, Rules};
use crate::world::World;

/// The rules of one CollaSet.
pub(super) struct CollaSetRules<'w, 'a> {
    pub(super) set: CollaSet<'a>,
    pub(super) world: &'w World<'a>,
}

impl CollaSetRules<'_, '_> {
    fn is_listed(&self, pod: &PodView) -> bool {
        self.set.body.pods_to_delete.contains(&pod.id.name)
    }
}

impl Rules for CollaSetRules<'_, '_> {
    /// Upstream's order, but a pod that leaves already goes first of all that the owner does not name.
    fn order_of_removal(&self, mut all: Vec<Member<'_, '_>>) -> Vec<i32> {
        all.sort_by_key(|member| {
            let id = Reverse(member.id);
            let Some(pod) = member.instance.pod else {
                return (false, false, false, Reverse(None), Reverse(None), id);
            };
            let (is_named, is_available) = (self.is_listed(pod), self.is_available(pod));
            (!is_named, !member.is_leaving, is_available, Reverse(pod.ready_since()), Reverse(pod.created), id)
        });
        all.into_iter().map(|member| member.id).collect()
    }

    /// Upstream's order: those that are there already or on their way, then those that don't serve.
    fn order_of_update(&self, mut all: Vec<Member<'_, '_>>) -> Vec<i32> {
        all.sort_by_key(|member| {
            let pod = member.instance.pod;
            let ready = pod.and_then(PodView::ready_since);
            let created = pod.and_then(|pod| pod.created);
            let is_available = pod.is_some_and(|pod| self.is_available(pod));
            let is_there = (!member.is_at_target, !member.is_moving, pod.is_none());
            (is_there, is_available, Reverse(ready), Reverse(created), member.id)
        });
        all.into_iter().map(|member| member.id).collect()
    }

    fn is_available(&self, pod: &PodView) -> bool {
        pod.available()
    }

    fn is_named(&self, pod: &PodView) -> bool {
        pod.labels.contains_key(names::TO_DELETE) || self.is_listed(pod)
    }

    /// In sequence the new pod has the name of the old one, and would have to go, too.
    fn is_made_anew(&self, pod: &PodView) -> bool {
        let is_listed = !self.set.body.in_sequence && self.is_listed(pod);
        is_listed || pod.labels.contains_key(names::TO_DELETE)
    }

    /// Finalizers of PodOpsLifecycle are looked at elsewhere, for pods of all kinds.
    fn is_kept(&self, _: &PodView) -> bool {
        false
    }

    fn is_to_be_replaced(&self, pod: &PodView) -> bool {
        pod.labels.contains_key(names::TO_REPLACE) && !pod.labels.contains_key(names::REPLACED_BY)
    }

    fn excluded(&self, instances: &Instances<'_>) -> BTreeSet<i32> {
        excluded(self.set, self.world, instances)
    }

    fn taken_on(&self) -> usize {
        included(self.set, self.world).count()
    }

    fn labels(&self, id: i32, replaces: Option<&str>) -> Vec<(&'static str, String)> {
        let own = [(names::CONTROL, "true".to_owned()), (names::INSTANCE_ID, id.to_string())];
        let origin = replaces.map(|name| (names::PAIR_ORIGIN, name.to_owned()));
        own.into_iter().chain(origin).collect()
    }
}
