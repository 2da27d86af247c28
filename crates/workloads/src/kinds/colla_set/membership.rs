//! Pods that a CollaSet lets go (`podToExclude`, label `to-exclude`), and pods that it takes on (`podToInclude`).
//!
//! Each is one write to the pod, which tests its version. What the ResourceContext says follows: a pod that nobody owns has no id, and
//! one that we own gets one.

use std::collections::BTreeSet;

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use hitless_api::selector;
use serde_json::json;

use super::view::View;
use super::{CollaSet, names};
use crate::pod_set::pods::stays;
use crate::pod_set::{Instances, warning};
use crate::world::World;
use crate::write::{Request, Write, patch_of_pod};

/// Ids of pods that are let go: nothing else is done to them.
pub(super) fn excluded(set: CollaSet<'_>, world: &World<'_>, instances: &Instances<'_>) -> BTreeSet<i32> {
    let body = set.body;
    let pairs = instances.pairs();
    let mut excluded = BTreeSet::new();
    for (id, instance) in instances.counted() {
        let Some(pod) = instance.pod else { continue };
        let is_named = body.pods_to_exclude.contains(&pod.id.name) || pod.labels.contains_key(names::TO_EXCLUDE);
        if !is_named || body.in_sequence || body.pods_to_include.contains(&pod.id.name) {
            continue;
        }
        // It is let go once what is under way has ended.
        let uid = &pod.id.uid;
        let is_busy = world.operating.contains(uid) || world.left.contains(uid);
        if !is_busy && !pairs.contains_key(&id) {
            excluded.insert(id);
        }
    }
    excluded
}

/// Pods that it takes on.
pub(super) fn included<'w, 'a>(set: CollaSet<'a>, world: &'w World<'a>) -> impl Iterator<Item = &'a PodView> + 'w {
    let body = set.body;
    // Nobody is taken on by a selector that nobody understands.
    let own = selector::read(&body.label_selector).ok();
    let is_meant = move |pod: &&PodView| {
        body.pods_to_include.contains(&pod.id.name)
            && !body.pods_to_exclude.contains(&pod.id.name)
            && !body.in_sequence
            && stays(pod)
            && own.as_ref().is_some_and(|own| own.matches(&pod.labels))
    };
    world.unowned_pods(&set.object.id.namespace).iter().copied().filter(is_meant)
}

impl View<'_, '_, '_> {
    fn included(&self) -> impl Iterator<Item = &PodView> {
        included(self.set, self.facts.world)
    }

    /// The writes for both.
    pub(super) fn membership_writes(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for id in &self.plan.leaving.excluded {
            let Some(pod) = self.plan.instances.pod(*id) else { continue };
            let own = self.facts.claims;
            let claims: Vec<Write> = own.of_id(*id).map(|claim| own.orphan(claim)).collect();
            let needs = claims.iter().map(Write::key).collect();
            writes.extend(claims);
            let patch = patch_of_pod(pod)
                .remove(&["metadata", "ownerReferences"])
                .add(&["metadata", "labels", names::ORPHANED], "true");
            writes.push(Write { needs, ..Write::on_pod("exclude-pod", &pod.id, Request::Patch(patch)) });
        }
        let mut id = self.plan.instances.unused();
        for pod in self.included() {
            let mut patch = patch_of_pod(pod)
                .add(&["metadata", "ownerReferences"], json!([self.facts.spec.owner()]))
                .add(&["metadata", "labels", names::INSTANCE_ID], id.to_string());
            for label in [names::ORPHANED, names::TO_EXCLUDE].into_iter().filter(|name| pod.labels.contains_key(*name))
            {
                patch = patch.remove(&["metadata", "labels", label]);
            }
            writes.push(Write::on_pod("include-pod", &pod.id, Request::Patch(patch)));
            id = id.saturating_add(1);
        }
        writes
    }

    /// What is asked for and can't be done.
    pub(super) fn membership_notes(&self) -> Vec<EventNote> {
        let body = self.set.body;
        let mut notes = Vec::new();
        let both: Vec<&str> = body.pods_to_exclude.intersection(&body.pods_to_include).map(String::as_str).collect();
        if !both.is_empty() {
            let text = format!("{} is both in podToExclude and podToInclude, and stays as it is", both.join(", "));
            notes.push(warning(&self.facts.spec, "DupExIncludedTarget", text));
        }
        if body.in_sequence && !(body.pods_to_exclude.is_empty() && body.pods_to_include.is_empty()) {
            let text = "podToExclude and podToInclude have no effect where pods are named in sequence".to_owned();
            notes.push(warning(&self.facts.spec, "ExcludeNotAllowed", text));
        }
        let own: BTreeSet<&str> = self.facts.pods.iter().map(|pod| pod.id.name.as_str()).collect();
        let foreign: Vec<&str> = body
            .pods_to_include
            .iter()
            .map(String::as_str)
            .filter(|name| !own.contains(name) && self.included().all(|pod| pod.id.name != *name))
            .collect();
        if !foreign.is_empty() && !body.in_sequence {
            let text = format!(
                "{} of podToInclude can't be taken on: a pod of that name has to be there, with the labels of the selector and {}=true, \
                 and without a controller",
                foreign.join(", "),
                names::CONTROL
            );
            notes.push(warning(&self.facts.spec, "IncludeNotAllowed", text));
        }
        notes
    }
}
