//! Claims that follow their pods, and those that are superseded.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;

use super::claim::{hash, name_of};
use super::claims::{Claims, label, told};
use super::departures::Departures;
use super::facts::Facts;
use super::instances::{Instance, Instances};
use super::pods::revision_of;
use super::update::Progress;
use crate::object::Object;
use crate::write::Write;

/// Hashes of claim templates that the target does not have any more.
pub(super) fn outdated(facts: &Facts<'_, '_>) -> BTreeSet<String> {
    let wanted: BTreeSet<String> = facts.spec.claims.iter().map(hash).collect();
    facts.revisions.other_claims(facts.target).map(hash).filter(|hash| !wanted.contains(hash)).collect()
}

/// Claims of pods that are excluded or were included follow their pods.
pub(super) fn follow(facts: &Facts<'_, '_>, instances: &Instances<'_>) -> Vec<Write> {
    let Facts { spec, world, claims, .. } = *facts;
    let unowned = world.unowned_claims(spec.namespace());
    if claims.own().is_empty() && unowned.is_empty() {
        return Vec::new();
    }
    let mut writes = Vec::new();
    let (unowned, own) = (by_name(unowned), by_name(claims.own()));
    for (id, instance) in &instances.by_id {
        let Some(pod) = instance.pod else { continue };
        let text = (spec.names.id_text)(*id);
        let moved = made_for(facts, pod, &own).into_iter();
        let moved = moved.filter(|claim| label(claim, spec.names.instance_id) != text);
        let taken_on = made_for(facts, pod, &unowned).into_iter().chain(moved);
        writes.extend(taken_on.map(|claim| claims.take_on(claim, *id)));
    }
    let taken_on: BTreeSet<&str> = writes.iter().map(|write| write.on.name.as_str()).collect();
    let mut ownership = claims.ownership();
    ownership.retain(|write| !taken_on.contains(write.on.name.as_str()));
    writes.extend(ownership);
    writes
}

/// Claims of an earlier template go once all pods are available with others.
pub(super) fn superseded<'a>(
    facts: &Facts<'_, 'a>,
    instances: &Instances<'a>,
    leaving: &Departures<'a>,
    progress: &Progress,
) -> Vec<Write> {
    let Facts { spec, claims, .. } = *facts;
    let outdated = outdated(facts);
    if spec.keeps_claims.when_scaled || outdated.is_empty() || !is_through(facts, instances, leaving, progress) {
        return Vec::new();
    }
    let mut deletions = Vec::new();
    for (id, instance) in &instances.by_id {
        let Some(pod) = instance.pod else { continue };
        let is_old = |claim: &&Object| {
            let is_mounted = pod.claims.iter().any(|mounted| mounted.claim == claim.id.name);
            !is_mounted && outdated.contains(label(claim, spec.names.claim_hash))
        };
        deletions.extend(claims.of_id(*id).filter(is_old).map(Claims::delete));
    }
    told(&spec, deletions, "all pods are available with those of the changed volumeClaimTemplates")
}

/// Those that are not being deleted, by name.
fn by_name<'a>(claims: &[&'a Object]) -> BTreeMap<&'a str, &'a Object> {
    let there = claims.iter().copied().filter(|claim| !claim.deleting);
    there.map(|claim| (claim.id.name.as_str(), claim)).collect()
}

/// Those of these claims that a set has made for the pod. A claim that its template names as a volume like any other is its owner's,
/// whatever labels it has.
fn made_for<'a>(facts: &Facts<'_, '_>, pod: &PodView, claims: &BTreeMap<&str, &'a Object>) -> Vec<&'a Object> {
    let names = facts.spec.names;
    let templates = facts.revisions.claims(revision_of(pod));
    let made = pod.claims.iter().filter_map(|mounted| {
        let claim = claims.get(mounted.claim.as_str()).copied()?;
        let is_of_template = templates.iter().any(|template| name_of(template) == mounted.volume)
            && label(claim, names.claim_template) == mounted.volume
            && claim.labels.contains_key(names.instance_id);
        is_of_template.then_some(claim)
    });
    made.collect()
}

/// Whether nothing is left to do, and every pod is available at the target: a version that can't work with a new volume has not taken
/// the old one with it.
fn is_through<'a>(
    facts: &Facts<'_, 'a>,
    instances: &Instances<'a>,
    leaving: &Departures<'a>,
    progress: &Progress,
) -> bool {
    let is_done = |instance: &Instance<'_>| {
        instance.pod.is_some_and(|pod| {
            let is_new = facts.world.recently_ready.contains_key(pod.id.uid.as_str());
            facts.is_at_target(pod) && facts.rules.is_available(pod) && !is_new && !facts.is_busy(pod)
        })
    };
    progress.behind.is_empty()
        && leaving.desired.is_empty()
        && leaving.removed.is_empty()
        && instances.count() >= facts.spec.replicas
        && instances.by_id.values().all(is_done)
}
