//! What is to be done for one CollaSet.

use std::collections::BTreeSet;

use super::context::Context;
use super::decorations::Decorated;
use super::rules::CollaSetRules;
use super::spec::spec;
use super::view::{Refusal, View, idle};
use super::{COLLA_SET, CollaSet, deletion};
use crate::because::{Because, Cause};
use crate::intent::share;
use crate::plan::{Plan, Stage};
use crate::pod_set::pods::stays;
use crate::pod_set::{self, Claims, Facts, Revisions, warning};
use crate::restart_annotations;
use crate::revision::Revision;
use crate::world::World;
use crate::write::Write;

pub(super) fn plan<'a>(set: CollaSet<'a>, world: &World<'a>) -> Plan {
    if let Some(large) = set.body.template.too_large().filter(|_| !set.object.deleting) {
        // Nothing is done, and nothing is lost.
        return idle(set, Stage::Refused(Because::too_large(large)));
    }
    let spec = spec(set);
    let (revisions, claims) = (Revisions::of(spec, world), Claims::of(spec, world));
    let target = revisions.target();
    let facts = Facts {
        spec,
        rules: &CollaSetRules { set, world },
        world,
        pods: world.pods(&set.object.id.uid),
        revisions: &revisions,
        claims: &claims,
        target: target.map_or("", |target| &target.object.id.name),
    };
    if set.object.deleting {
        return deletion::plan(set, &facts);
    }
    let finalizer = deletion::with_finalizer(set).into_iter();
    match (target, &set.body.fault) {
        (None, _) => begun(set, &facts, finalizer),
        (Some(_), Some(fault)) => faulty(set, &facts, finalizer, fault),
        (Some(target), None) => rolled(set, &facts, finalizer, target),
    }
}

/// Its template has no revision yet.
fn begun(set: CollaSet<'_>, facts: &Facts<'_, '_>, finalizer: impl Iterator<Item = Write>) -> Plan {
    let there = facts.pods.iter().filter(|pod| stays(pod));
    let behind: BTreeSet<String> = there.map(|pod| pod.id.uid.clone()).collect();
    let writes = finalizer.chain([facts.revisions.create()]).collect();
    Plan { writes, total: behind.len(), behind, ..idle(set, Stage::Rolling) }
}

/// It makes no sense: nothing is done, and nothing is lost.
fn faulty<'a>(set: CollaSet<'a>, facts: &Facts<'_, 'a>, finalizer: impl Iterator<Item = Write>, fault: &str) -> Plan {
    let because = Because::of(Cause::InvalidSpec, fault.to_owned());
    let plan = pod_set::still(facts, &Context::of(set, facts.world));
    let report = View { set, facts, plan: &plan }.report(&[]);
    let notes = vec![warning(&facts.spec, "InvalidSpec", because.text.clone())];
    Plan { writes: finalizer.chain(report).collect(), notes, ..idle(set, Stage::Refused(because)) }
}

/// It goes on to what its owner wants.
fn rolled<'a>(
    set: CollaSet<'a>,
    facts: &Facts<'_, 'a>,
    finalizer: impl Iterator<Item = Write>,
    target: Revision<'a>,
) -> Plan {
    let world = facts.world;
    let context = Context::of(set, world);
    let plan = pod_set::advance(facts, &context, &|instances| Box::new(Decorated::of(set, *facts, instances)));
    let view = View { set, facts, plan: &plan };
    let mut writes: Vec<Write> = finalizer.collect();
    writes.extend(plan.writes(facts, &context, view.own()));
    writes.extend(facts.revisions.renumber(target));
    // What is under way is not taken back because other pods can't follow, and may be rolled back to the revision that it left.
    let is_operating = facts.pods.iter().any(|pod| world.operating.contains(&pod.id.uid));
    if plan.progress.behind.is_empty() && !is_operating {
        let used = facts.used_revisions(&plan.instances, &set.body.status.updated_revision);
        writes.extend(facts.revisions.prune(&used));
    }
    let refused = writes.iter().filter_map(|write| Some((write.verb, world.refused.get(&write.key())?.clone())));
    let refusals: Vec<Refusal> = refused.collect();
    writes.extend(view.report(&refusals));
    let mut notes = view.notes();
    notes.extend(restart_annotations::notes(set.object, &COLLA_SET));
    let (goal, single) = plan.goals();
    let pod_set::Plan { leaving, progress, .. } = plan;
    let pod_set::Progress { behind, stuck, total, refused, .. } = progress;
    let mut desired = leaving.desired;
    share(&mut desired);
    let stage = match refused {
        Some(because) if desired.is_empty() && !is_operating => {
            notes.push(warning(&facts.spec, "RolloutRefused", because.text.clone()));
            Stage::Refused(because)
        }
        _ if behind.is_empty() && desired.is_empty() => Stage::Idle,
        _ => Stage::Rolling,
    };
    let target_label = Some(facts.target.to_owned());
    Plan { target: goal, target_label, single, writes, desired, behind, stuck, total, notes, ..idle(set, stage) }
}
