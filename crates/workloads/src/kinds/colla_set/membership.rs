//! Pods that a CollaSet lets go (`podToExclude`, label `to-exclude`), and pods that it takes on (`podToInclude`).
//!
//! Each is one write to the pod, which tests its version. What the ResourceContext says follows: a pod that nobody owns has no id, and
//! one that we own gets one.

use std::collections::BTreeSet;

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use hitless_api::selector;
use serde_json::json;

use super::plan::{Work, warning};
use super::pods::stays;
use super::{names, owner};
use crate::write::{Request, Write, patch_of_pod};

impl Work<'_, '_> {
    /// Marks the ids of pods that are let go: nothing else is done to them.
    pub(super) fn exclude(&mut self) {
        let body = self.set.body;
        let pairs = self.roster.pairs();
        let mut excluded = Vec::new();
        for (id, instance) in self.roster.counted() {
            let Some(pod) = instance.pod else { continue };
            let is_named = body.pods_to_exclude.contains(&pod.id.name) || pod.labels.contains_key(names::TO_EXCLUDE);
            if !is_named || body.in_sequence || body.pods_to_include.contains(&pod.id.name) {
                continue;
            }
            // It is let go once what is under way has ended.
            let uid = &pod.id.uid;
            let is_busy = self.world.operating.contains(uid) || self.world.left.contains(uid);
            if !is_busy && !pairs.contains_key(&id) {
                excluded.push(id);
            }
        }
        self.going.extend(&excluded);
        self.excluded.extend(excluded);
    }

    /// The writes for both.
    pub(super) fn membership_writes(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for id in &self.excluded {
            let Some(pod) = self.roster.instances.get(id).and_then(|instance| instance.pod) else { continue };
            let claims: Vec<Write> = self.claims.of_id(*id).map(|claim| self.claims.orphan(claim)).collect();
            let needs = claims.iter().map(Write::key).collect();
            writes.extend(claims);
            let patch = patch_of_pod(pod)
                .remove(&["metadata", "ownerReferences"])
                .add(&["metadata", "labels", names::ORPHANED], "true");
            writes.push(Write { needs, ..Write::on_pod("exclude-pod", &pod.id, Request::Patch(patch)) });
        }
        let mut id = self.roster.unused();
        for pod in self.included() {
            let mut patch = patch_of_pod(pod)
                .add(&["metadata", "ownerReferences"], json!([owner(self.set)]))
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

    pub(super) fn included(&self) -> impl Iterator<Item = &PodView> {
        let body = self.set.body;
        // Nobody is taken on by a selector that nobody understands.
        let own = selector::read(&body.label_selector).ok();
        let is_meant = move |pod: &&PodView| {
            body.pods_to_include.contains(&pod.id.name)
                && !body.pods_to_exclude.contains(&pod.id.name)
                && !body.in_sequence
                && stays(pod)
                && own.as_ref().is_some_and(|own| own.matches(&pod.labels))
        };
        self.world.unowned_pods(&self.set.object.id.namespace).iter().copied().filter(is_meant)
    }

    /// What is asked for and can't be done.
    pub(super) fn membership_notes(&self) -> Vec<EventNote> {
        let body = self.set.body;
        let mut notes = Vec::new();
        let both: Vec<&str> = body.pods_to_exclude.intersection(&body.pods_to_include).map(String::as_str).collect();
        if !both.is_empty() {
            let text = format!("{} is both in podToExclude and podToInclude, and stays as it is", both.join(", "));
            notes.push(warning(self.set, "DupExIncludedTarget", text));
        }
        if body.in_sequence && !(body.pods_to_exclude.is_empty() && body.pods_to_include.is_empty()) {
            let text = "podToExclude and podToInclude have no effect where pods are named in sequence".to_owned();
            notes.push(warning(self.set, "ExcludeNotAllowed", text));
        }
        let own: BTreeSet<&str> = self.pods.iter().map(|pod| pod.id.name.as_str()).collect();
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
            notes.push(warning(self.set, "IncludeNotAllowed", text));
        }
        notes
    }
}
