//! Labels of pods that tell others what is done to them, and those that have done their work.

use super::names;
use super::view::View;
use crate::pod_set::Instance;
use crate::pod_set::policy::Scope;
use crate::write::{Request, Write, patch_of_pod};

impl View<'_, '_, '_> {
    /// One write for each pod whose labels are not as they should be.
    pub(super) fn relabels(&self) -> Vec<Write> {
        let instances = &self.plan.instances;
        let (pairs, origins) = (instances.pairs(), instances.origins());
        let mut writes = Vec::new();
        for (id, instance) in &instances.by_id {
            let Some(pod) = instance.pod.filter(|pod| self.plan.keeps(*id, pod)) else { continue };
            let wanted = self.wanted(*id, instance, pairs.get(id).copied(), origins.get(id).copied());
            let differs = |(name, value): &(&'static str, Option<String>)| pod.labels.get(*name) != value.as_ref();
            let changes: Vec<_> = wanted.into_iter().filter(differs).collect();
            if changes.is_empty() {
                continue;
            }
            let mut patch = patch_of_pod(pod);
            for (name, value) in changes {
                let label = ["metadata", "labels", name];
                patch = match value {
                    Some(value) => patch.add(&label, value),
                    None => patch.remove(&label),
                };
            }
            writes.push(Write::on_pod("label-pod", &pod.id, Request::Patch(patch)));
        }
        writes
    }

    /// Labels and what they should be.
    fn wanted(
        &self,
        id: i32,
        instance: &Instance<'_>,
        new: Option<i32>,
        origin: Option<i32>,
    ) -> Vec<(&'static str, Option<String>)> {
        let Some(pod) = instance.pod else { return Vec::new() };
        let mut wanted = vec![(names::INSTANCE_ID, Some(id.to_string()))];
        let is_there = |id: &i32| self.plan.instances.by_id.get(id).is_some_and(|each| each.pod.is_some());
        let new = new.filter(is_there);
        wanted.push((names::PAIR_NEW, new.map(|new| new.to_string())));
        let is_ours = !pod.labels.contains_key(names::TO_REPLACE) || pod.labels.contains_key(names::REPLACED_BY);
        if is_ours {
            let revision = new.and_then(|new| self.plan.instances.by_id.get(&new)).map(|new| new.revision().to_owned());
            wanted.push((names::TO_REPLACE, revision.as_ref().map(|_| "true".to_owned())));
            wanted.push((names::REPLACED_BY, revision));
        }
        let origin =
            origin.and_then(|origin| self.plan.instances.by_id.get(&origin)).map(|each| each.pod_name().to_owned());
        wanted.push((names::PAIR_ORIGIN, origin));
        let is_through = matches!(self.set.body.scope, Scope::ByLabel(_))
            && self.facts.is_at_target(pod)
            && pod.available()
            && !self.facts.world.operating.contains(&pod.id.uid);
        if is_through {
            wanted.push((names::UPDATE_INCLUDED, None));
        }
        wanted
    }
}
