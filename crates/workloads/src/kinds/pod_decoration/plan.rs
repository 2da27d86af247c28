//! What is written for one PodDecoration: its revisions and its status.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;
use hitless_api::pod_decoration::{DecoratedPod, DecorationDetail, PodDecorationStatus};
use hitless_api::selector;
use serde_json::json;

use super::names::label;
use super::revisions::Revisions;
use super::{PodDecoration, members};
use crate::pod_set::pods::stays;
use crate::world::World;
use crate::write::Write;

/// So many pods the status lists at most: an object of the API has room for about 10,000.
const MOST_LISTED: usize = 1_000;

/// The pods of a CollaSet that it selects.
struct Matched<'a> {
    set: &'a str,
    pods: Vec<&'a PodView>,
    /// The CollaSet has all its pods.
    is_complete: bool,
}

pub(super) fn writes(decoration: PodDecoration<'_>, world: &World<'_>) -> Vec<Write> {
    // It counts no more, and its revisions go with it. Pods that have it get rid of it by their CollaSets' rules.
    if decoration.object.deleting {
        return Vec::new();
    }
    let revisions = Revisions::of(decoration, world);
    let Some(target) = revisions.target() else { return vec![revisions.create()] };
    let status = status(decoration, world, &target.object.id.name);
    let label = label(&decoration.object.id.name);
    let pods = || world.colla_sets(&decoration.object.id.namespace).iter().flat_map(|set| members(set, world));
    let used: BTreeSet<&str> = pods().filter_map(|pod| pod.labels.get(&label)).map(String::as_str).collect();
    let reported = [status.current_revision.as_str(), status.updated_revision.as_str()];
    let mut writes: Vec<Write> = revisions.renumber(target).into_iter().collect();
    // What is under way may be rolled back to the revision that it left.
    if !pods().any(|pod| world.operating.contains(&pod.id.uid)) {
        writes.extend(revisions.prune(|name| used.contains(name) || reported.contains(&name)));
    }
    if decoration.body.status != status {
        writes.push(Write::status("report-status", decoration.object, json!(status)));
    }
    writes
}

fn matched<'a>(decoration: PodDecoration<'a>, world: &World<'a>) -> Vec<Matched<'a>> {
    let namespace = &decoration.object.id.namespace;
    // One that nobody understands adds to nobody: it stops all CollaSets of the namespace.
    let Some(Ok(own)) = decoration.body.spec.selector.as_ref().map(selector::read) else { return Vec::new() };
    let of_set = |set: &&'a crate::Object| {
        let selected = world.undecorated(set).into_iter().flat_map(|known| known.selected(&own));
        let pods: Vec<&PodView> = selected.filter(|pod| stays(pod)).collect();
        let wanted = set.colla_set().map_or(0, |set| set.body.replicas);
        Matched { set: &set.id.name, is_complete: pods.len() >= wanted, pods }
    };
    world.colla_sets(namespace).iter().map(of_set).filter(|each| !each.pods.is_empty()).collect()
}

fn status(decoration: PodDecoration<'_>, world: &World<'_>, updated: &str) -> PodDecorationStatus {
    let (body, known) = (decoration.body, &decoration.body.status);
    let label = label(&decoration.object.id.name);
    let matched = matched(decoration, world);
    let revision = |pod: &PodView| pod.labels.get(&label).cloned();
    let is_updated = |pod: &PodView| pod.labels.get(&label).is_some_and(|known| known == updated);
    let serves = |pod: &PodView| pod.available() && !world.left.contains(&pod.id.uid);
    let count = |is_counted: &dyn Fn(&PodView) -> bool| {
        let counted = matched.iter().flat_map(|each| &each.pods).filter(|pod| is_counted(pod));
        number(counted.count())
    };
    let mut room = if body.spec.disable_pod_detail { 0 } else { MOST_LISTED };
    let details = matched.iter().map(|each| {
        let listed = each.pods.iter().take(room).map(|pod| DecoratedPod {
            name: pod.id.name.clone(),
            revision: revision(pod).unwrap_or_default(),
            escaped: revision(pod).is_none(),
        });
        let pods: Vec<DecoratedPod> = listed.collect();
        room -= pods.len();
        DecorationDetail { colla_set: each.set.to_owned(), affected_replicas: number(each.pods.len()), pods }
    });
    let details = details.collect();
    let (matched_pods, updated_pods) = (count(&|_| true), count(&is_updated));
    // Upstream's rule.
    let is_through = matched.iter().all(|each| each.is_complete) && updated_pods == matched_pods;
    PodDecorationStatus {
        observed_generation: decoration.object.generation,
        current_revision: if is_through { updated.to_owned() } else { known.current_revision.clone() },
        updated_revision: updated.to_owned(),
        collision_count: known.collision_count,
        matched_pods,
        injected_pods: count(&|pod| revision(pod).is_some()),
        updated_pods,
        updated_ready_pods: count(&|pod| is_updated(pod) && pod.ready()),
        updated_available_pods: count(&|pod| is_updated(pod) && serves(pod)),
        details,
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
