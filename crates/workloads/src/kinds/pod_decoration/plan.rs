//! What is written for one PodDecoration: its revisions and its status.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_api::pod_decoration::{DecoratedPod, DecorationDetail, PodDecorationStatus};
use hitless_api::selector;
use serde_json::json;

use super::revisions::Revisions;
use super::{LABEL, PodDecoration};
use crate::object::Object;
use crate::world::World;
use crate::write::{Request, Write};

pub(super) fn writes(decoration: PodDecoration<'_>, world: &World<'_>) -> Vec<Write> {
    // It counts no more, and its revisions go with it. Pods that have it get rid of it by their CollaSets' rules.
    if decoration.object.deleting {
        return Vec::new();
    }
    let revisions = Revisions::of(decoration, world);
    let Some(target) = revisions.target() else { return vec![revisions.create()] };
    let status = status(decoration, world, &target.object.id.name);
    let label = label(&decoration.object.id.name);
    let pods = || pods(decoration.object, world).into_iter().flat_map(|(_, pods)| pods);
    let used: BTreeSet<&str> = pods().filter_map(|pod| pod.labels.get(&label)).map(String::as_str).collect();
    let is_used = |name: &str| {
        used.contains(name) || [&status.current_revision, &status.updated_revision].into_iter().any(|used| used == name)
    };
    let mut writes: Vec<Write> = revisions.renumber(target).into_iter().collect();
    writes.extend(revisions.prune(is_used));
    if decoration.body.status != status {
        let write = Write::patch("report-status", decoration.object, |patch| patch.add(&["status"], json!(status)));
        let request = match write.request {
            Request::Patch(patch) => Request::Status(patch),
            other => other,
        };
        writes.push(Write { request, ..write });
    }
    writes
}

/// A pod's label that names the revision of this decoration.
pub(super) fn label(name: &str) -> String {
    format!("{LABEL}{name}")
}

/// CollaSets of the decoration's namespace with their pods that are there to stay.
fn pods<'a>(decoration: &Object, world: &World<'a>) -> Vec<(&'a Object, Vec<&'a PodView>)> {
    let sets = world.colla_sets(&decoration.id.namespace);
    let live = |set: &Object| -> Vec<&'a PodView> {
        let pods = world.pods(&set.id.uid).iter().copied();
        pods.filter(|pod| !pod.terminating && !pod.finished).collect()
    };
    sets.map(|set| (set, live(set))).collect()
}

fn status(decoration: PodDecoration<'_>, world: &World<'_>, updated: &str) -> PodDecorationStatus {
    let (body, known) = (decoration.body, &decoration.body.status);
    let label = label(&decoration.object.id.name);
    let is_meant = |pod: &PodView| body.spec.selector.as_ref().is_some_and(|own| selector::matches(own, &pod.labels));
    let mut by_set: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
    let mut is_complete = true;
    for (set, pods) in pods(decoration.object, world) {
        let matched: Vec<&PodView> = pods.into_iter().filter(|pod| is_meant(pod)).collect();
        let wanted = set.colla_set().map_or(0, |set| set.body.replicas);
        is_complete &= matched.is_empty() || matched.len() >= wanted;
        if !matched.is_empty() {
            by_set.insert(&set.id.name, matched);
        }
    }
    let matched = || by_set.values().flatten().copied();
    let revision = |pod: &PodView| pod.labels.get(&label).cloned();
    let is_updated = |pod: &PodView| pod.labels.get(&label).is_some_and(|known| known == updated);
    let serves = |pod: &PodView| pod.available() && !world.left.contains(&pod.id.uid);
    let count = |is_counted: &dyn Fn(&PodView) -> bool| {
        i32::try_from(matched().filter(|pod| is_counted(pod)).count()).unwrap_or(i32::MAX)
    };
    let info = |pod: &&PodView| DecoratedPod {
        name: pod.id.name.clone(),
        revision: revision(pod).unwrap_or_default(),
        escaped: revision(pod).is_none(),
    };
    let detail = |(set, pods): (&&str, &Vec<&PodView>)| DecorationDetail {
        colla_set: (*set).to_owned(),
        affected_replicas: i32::try_from(pods.len()).unwrap_or(i32::MAX),
        pods: if body.spec.disable_pod_detail { Vec::new() } else { pods.iter().map(info).collect() },
    };
    let (matched_pods, updated_pods) = (count(&|_| true), count(&|pod| is_updated(pod)));
    // Upstream's rule.
    let is_through = is_complete && updated_pods == matched_pods;
    let is_first = known.current_revision.is_empty();
    PodDecorationStatus {
        observed_generation: decoration.object.generation,
        current_revision: if is_through || is_first { updated.to_owned() } else { known.current_revision.clone() },
        updated_revision: updated.to_owned(),
        collision_count: known.collision_count,
        matched_pods,
        injected_pods: count(&|pod| revision(pod).is_some()),
        updated_pods,
        updated_ready_pods: count(&|pod| is_updated(pod) && pod.ready()),
        updated_available_pods: count(&|pod| is_updated(pod) && serves(pod)),
        details: by_set.iter().map(detail).collect(),
    }
}
