//! What new pods get of all SidecarSets together.

use hitless_api::names::{labels, system_namespace};
use hitless_api::{GroupKind, InjectedSet};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{SidecarSet, injected, render};
use crate::object::SidecarInjection;
use crate::world::World;
use crate::write::Write;

/// Most bytes of all of them together: an object of the API has room for about 1.5 MB, and admission reads it for each pod.
const MOST_BYTES: usize = 1 << 20;

/// What is done when it changes.
pub(super) const INJECT: &str = "inject-sidecars";

/// Admission reads the new form as soon as this is written; what was there before goes on until then.
pub(super) fn writes(injection: SidecarInjection<'_>, world: &World<'_>) -> Vec<Write> {
    let known = injection.body.sets();
    let (mut sets, mut writes, mut room) = (Vec::new(), Vec::new(), MOST_BYTES);
    for set in world.sidecar_sets().iter().filter_map(|object| object.sidecar_set()) {
        let before = known.iter().find(|each| each.uid == set.object.id.uid);
        let (wanted, attempt) = wanted(set, before, world);
        writes.extend(attempt);
        let fits = |each: &&InjectedSet| bytes(each) <= room;
        if let Some(each) = wanted.as_ref().filter(fits).or_else(|| before.filter(fits).filter(|_| wanted.is_some())) {
            room -= bytes(each);
            sets.push(each.clone());
        }
    }
    if sets != known {
        writes.push(Write::patch(INJECT, injection.object, |patch| patch.add(&["spec", "sets"], json!(sets))));
    }
    writes
}

fn bytes(set: &InjectedSet) -> usize {
    serde_json::to_vec(set).map_or(usize::MAX, |text| text.len())
}

/// What pods are to get of it, and what the API server is asked before it is another thing.
fn wanted(
    set: SidecarSet<'_>,
    before: Option<&InjectedSet>,
    world: &World<'_>,
) -> (Option<InjectedSet>, Option<Write>) {
    if set.object.deleting || is_paused(set) {
        return (None, None);
    }
    // An edit that makes no sense takes nothing away.
    if set.body.fault.is_some() || before.is_some_and(|before| before.generation == set.object.generation) {
        return (before.cloned(), None);
    }
    let new = injected::of(set, world.now.unwrap_or(Timestamp::UNIX_EPOCH));
    if let Some(before) = before.filter(|before| is_same(before, &new)) {
        return (Some(InjectedSet { generation: new.generation, ..before.clone() }), None);
    }
    let attempt = attempt(set, &new);
    match &world.accepted {
        Some(accepted) if !accepted.contains(&attempt.key()) => (before.cloned(), Some(attempt)),
        Some(_) | None => (Some(new), None),
    }
}

/// New pods get nothing of it.
pub(super) fn is_paused(set: SidecarSet<'_>) -> bool {
    set.body.spec.injection_strategy.as_ref().is_some_and(|strategy| strategy.paused)
}

/// Nothing that pods get has changed.
fn is_same(before: &InjectedSet, new: &InjectedSet) -> bool {
    let InjectedSet { found, generation, pod_hash, pod_hash_without_image, .. } = before.clone();
    *before == InjectedSet { found, generation, pod_hash, pod_hash_without_image, ..new.clone() }
}

/// Asks the API server for a pod that has its containers: it says itself what is wrong with them. None is made.
pub(super) fn attempt(set: SidecarSet<'_>, new: &InjectedSet) -> Write {
    let name = format!("hitless-sidecarset-{}", set.object.id.name);
    let pod: Value = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": system_namespace(),
            "labels": {labels::SIDECAR_SET: set.object.id.name, labels::GATE: "disabled"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "hitless-application", "image": "hitless.dev/application:1"}]}});
    let pod = render::with(pod, &[new]);
    let subject = format!("{}/{}", set.object.id.uid, set.object.generation);
    Write::create("try-sidecars", &GroupKind::POD, pod).tried("try-sidecars", &name).about(subject)
}
