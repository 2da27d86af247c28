//! Labels of pods that tell others what is done to them, and those that have done their work.

use std::collections::BTreeMap;

use super::body::Scope;
use super::names;
use super::plan::Work;
use super::roster::Instance;
use crate::write::{Request, Write, patch_of_pod};

impl Work<'_, '_> {
    /// One write for each pod whose labels are not as they should be.
    pub(super) fn relabels(&self) -> Vec<Write> {
        let pairs = self.roster.pairs();
        let origins: BTreeMap<i32, i32> = pairs.iter().map(|(origin, new)| (*new, *origin)).collect();
        let mut writes = Vec::new();
        for (id, instance) in &self.roster.instances {
            let Some(pod) = instance.pod.filter(|pod| !self.is_removed(pod) && !self.excluded.contains(id)) else {
                continue;
            };
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
        let is_there = |id: &i32| self.roster.instances.get(id).is_some_and(|each| each.pod.is_some());
        let new = new.filter(is_there);
        wanted.push((names::PAIR_NEW, new.map(|new| new.to_string())));
        let is_ours = !pod.labels.contains_key(names::TO_REPLACE) || pod.labels.contains_key(names::REPLACED_BY);
        if is_ours {
            let revision = new.and_then(|new| self.roster.instances.get(&new)).map(|new| new.revision().to_owned());
            wanted.push((names::TO_REPLACE, revision.as_ref().map(|_| "true".to_owned())));
            wanted.push((names::REPLACED_BY, revision));
        }
        let origin =
            origin.and_then(|origin| self.roster.instances.get(&origin)).map(|each| each.pod_name().to_owned());
        wanted.push((names::PAIR_ORIGIN, origin));
        let is_through = self.set.body.scope == Scope::ByLabel
            && self.is_at_target(pod)
            && pod.available()
            && !self.world.operating.contains(&pod.id.uid);
        if is_through {
            wanted.push((names::UPDATE_INCLUDED, None));
        }
        wanted
    }
}
