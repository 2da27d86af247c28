//! Pods that are made.

use std::collections::BTreeSet;

use super::dress::Dress;
use super::facts::Facts;
use super::follow::outdated;
use super::instances::{Instance, Instances};
use super::pod::{self, Made};
use super::pods::stays;
use super::tell::normal;
use crate::write::Write;

/// As many at once as there are already, so that a template that is refused is refused once.
pub(super) fn creations<'a>(facts: &Facts<'_, 'a>, instances: &Instances<'a>, dress: &dyn Dress<'a>) -> Vec<Write> {
    let Facts { spec, revisions, claims, world, target, .. } = *facts;
    // None at all where the limit is 0: no more may be unavailable.
    let there = facts.pods.iter().filter(|pod| stays(pod)).count().max(1).min(spec.limits.burst);
    let missing = instances.by_id.iter().filter(|(_, instance)| instance.is_free);
    let (outdated, none) = (outdated(facts), BTreeSet::new());
    let origins = instances.origins();
    let count = missing.clone().count().min(there);
    let (mut writes, mut is_first) = (Vec::new(), true);
    for (id, instance) in missing.take(there) {
        let replaces = origins.get(id).and_then(|origin| instances.by_id.get(origin));
        let Some(template) = dress.of_new(*id, instance, replaces) else { continue };
        let templates = revisions.claims(instance.revision());
        let of_target = if instance.revision() == target { &outdated } else { &none };
        let Some(needed) = claims.needed((*id, instance.pod_name()), templates, of_target, world) else {
            continue;
        };
        let made = Made { id: *id, name: instance.pod_name(), revision: instance.revision(), template: &template };
        let needs = needed.writes.iter().map(Write::key).collect();
        let tells = match replaces {
            Some(origin) => {
                let text = format!("made pod {} with id {id} to replace {}", instance.pod_name(), origin.pod_name());
                Some(normal(&spec, spec.names.reasons.made_to_replace, text))
            }
            // One Event for all of them: each is a write.
            None if is_first => {
                is_first = false;
                let text = format!("makes {count} pods, {} first", instance.pod_name());
                Some(normal(&spec, spec.names.reasons.made, text))
            }
            None => None,
        };
        writes.extend(needed.writes);
        let creation = pod::create(facts, &made, &needed.mounts, replaces.map(Instance::pod_name));
        writes.push(Write { tells, needs, ..creation });
    }
    writes
}
