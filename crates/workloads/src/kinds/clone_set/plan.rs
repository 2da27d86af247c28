//! What is to be done for one CloneSet.

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use hitless_api::pod::PodView;

use super::difference::Difference;
use super::journal::InstancesAnnotation;
use super::limit::{Bounds, chosen};
use super::rules::{CloneSetRules, is_available, is_named};
use super::view::{Refusal, View};
use super::{CLONE_SET, CloneSet, gates, hooks, spec};
use crate::because::{Because, Cause};
use crate::intent::{DesiredOperation, Obstacle, share};
use crate::plan::{Plan, Stage};
use crate::pod_set::dress::Undressed;
use crate::pod_set::pods::{is_at, stays};
use crate::pod_set::{self, Claims, Facts, Own, Revisions, warning};
use crate::restart_annotations;
use crate::revision::Revision;
use crate::world::World;
use crate::write::Write;

pub(super) fn plan<'a>(set: CloneSet<'a>, world: &World<'a>) -> Plan {
    let mut plan = without_gates(set, world);
    plan.writes.extend(gates::open(world.pods(&set.object.id.uid), world.now));
    plan
}

fn without_gates<'a>(set: CloneSet<'a>, world: &World<'a>) -> Plan {
    if set.object.deleting {
        // Upstream has no finalizer: the garbage collector deletes its pods.
        return idle(set, Stage::NotOurs);
    }
    if let Some(large) = set.body.template.too_large() {
        // Nothing is done, and nothing is lost.
        return idle(set, Stage::Refused(Because::too_large(large)));
    }
    let revisions = Revisions::of(spec::without_pods(set), world);
    let target = revisions.target();
    let name = target.map_or("", |target| &target.object.id.name);
    let pods = world.pods(&set.object.id.uid);
    let found = spec::found(set, name, pods, &|pod| is_available(world, pod));
    let spec = spec::with_pods(set, &found, pods);
    let claims = Claims::of(spec, world);
    let facts = Facts {
        spec,
        rules: &CloneSetRules { set, world, old_to_remove: found.to_remove_old },
        world,
        pods,
        revisions: &revisions,
        claims: &claims,
        target: name,
    };
    let view = |plan| View { set, facts: &facts, plan, found };
    match (target, &set.body.fault) {
        (None, _) => begun(set, &facts),
        (Some(_), Some(fault)) => {
            let plan = pod_set::still(&facts, &InstancesAnnotation { set });
            faulty(view(&plan), fault)
        }
        (Some(target), None) => {
            let undressed = || Box::new(Undressed { spec, revisions: &revisions });
            let mut plan = pod_set::advance(&facts, &InstancesAnnotation { set }, &|_| undressed());
            hold_back(&facts, &found, &mut plan);
            rolled(view(&plan), target)
        }
    }
}

/// A plan that does nothing.
fn idle(set: CloneSet<'_>, stage: Stage) -> Plan {
    let target = set.body.template.revision().to_owned();
    let progress_deadline_seconds = set.body.progress_deadline_seconds;
    Plan { stage, target, permanent: true, progress_deadline_seconds, ..Plan::nothing(set.object) }
}

/// Its template has no revision yet.
fn begun(set: CloneSet<'_>, facts: &Facts<'_, '_>) -> Plan {
    let there = facts.pods.iter().filter(|pod| stays(pod));
    let behind: BTreeSet<String> = there.map(|pod| pod.id.uid.clone()).collect();
    Plan { writes: vec![facts.revisions.create()], total: behind.len(), behind, ..idle(set, Stage::Rolling) }
}

/// It makes no sense: nothing is done, and nothing is lost.
fn faulty(view: View<'_, '_, '_>, fault: &str) -> Plan {
    let because = Because::of(Cause::InvalidSpec, fault.to_owned());
    let notes = vec![warning(&view.facts.spec, "InvalidSpec", because.text.clone())];
    Plan { writes: view.report(&[]).into_iter().collect(), notes, ..idle(view.set, Stage::Refused(because)) }
}

/// Of pods that serve, the rules and the budgets decide. Of the others no more begin at a time than upstream's walk would choose, so that a
/// version that does not start does not take all pods that do not serve.
fn hold_back(facts: &Facts<'_, '_>, found: &Difference, plan: &mut pod_set::Plan<'_, '_>) {
    let is_open = |pod: &PodView| {
        let is_behind = plan.progress.behind.contains(&pod.id.uid) && !facts.is_busy(pod);
        is_behind && !plan.leaving.is_removed(pod) && !facts.rules.is_available(pod)
    };
    let in_order = facts.rules.order_of_update(facts.members(&plan.instances));
    let open = in_order.into_iter().filter_map(|id| plan.instances.pod(id));
    let open: Vec<&PodView> = open.filter(|pod| is_open(pod)).collect();
    let unavailable = || facts.pods.iter().filter(|pod| stays(pod) && !facts.rules.is_available(pod));
    let in_target = || unavailable().filter(|pod| is_at(pod, facts.target) || facts.is_busy(pod));
    let bounds = Bounds {
        number: usize::try_from(found.to_update).unwrap_or_default(),
        most: found.most_unavailable,
        unavailable_in_target: in_target().count(),
        unavailable: unavailable().count(),
    };
    let begin = chosen(bounds, open.iter().map(|_| false));
    let Some(first) = in_target().map(|pod| &**pod).chain(open.first().copied()).next() else { return };
    let place = |wanted: &DesiredOperation| open.iter().position(|pod| pod.id.uid == wanted.pod.uid);
    // The others keep their version.
    plan.leaving.desired.retain(|wanted| place(wanted).is_none_or(|place| place < bounds.number));
    for wanted in plan.leaving.desired.iter_mut().filter(|wanted| wanted.intent.is_ok()) {
        if place(wanted).is_some_and(|place| place >= begin) {
            wanted.intent = Err(Obstacle::NewPodsUnavailable { first: first.id.name.clone() });
        }
    }
}

/// Whether the pod is to leave for good.
fn is_leaving(plan: &pod_set::Plan<'_, '_>, world: &World<'_>, pod: &PodView) -> bool {
    let drains = |wanted: &DesiredOperation| {
        wanted.pod.uid == pod.id.uid && wanted.intent.as_ref().is_ok_and(|intent| intent.operation.op == GrantOp::Drain)
    };
    world.left.contains(&pod.id.uid) || plan.leaving.is_removed(pod) || plan.leaving.desired.iter().any(drains)
}

/// It goes on to what its owner wants.
fn rolled(view: View<'_, '_, '_>, target: Revision<'_>) -> Plan {
    let View { set, facts, plan, .. } = view;
    let world = facts.world;
    let journal = InstancesAnnotation { set };
    let decided = |pod: &PodView| hooks::Decided { leaves: is_leaving(plan, world, pod), is_named: is_named(set, pod) };
    let beside = hooks::writes(set, world, decided);
    let mut writes: Vec<Write> = plan.writes(facts, &journal, Own { beside, ..Own::default() });
    writes.extend(facts.revisions.renumber(target));
    // What is under way is not taken back because other pods can't follow, and may be rolled back to the revision that it left.
    let is_operating = facts.pods.iter().any(|pod| world.operating.contains(&pod.id.uid));
    if plan.progress.behind.is_empty() && !is_operating {
        let used = facts.used_revisions(&plan.instances, &set.body.status.update_revision);
        writes.extend(facts.revisions.prune(&used));
    }
    let refused = writes.iter().filter_map(|write| Some((write.verb, world.refused.get(&write.key())?.clone())));
    let refusals: Vec<Refusal> = refused.collect();
    // The journal and the status are of one object: of two writes the second one would be of an old version.
    let is_written = writes.iter().any(|write| write.verb == "update-instances");
    writes.extend(view.report(&refusals).filter(|_| !is_written));
    let mut notes = view.notes();
    notes.extend(restart_annotations::notes(set.object, &CLONE_SET));
    let overdue = hooks::Overdue::of(set, world);
    notes.extend(overdue.text.map(|text| warning(&facts.spec, "HookPending", text)));
    let unsettled = facts.pods.iter().filter(|pod| hooks::is_unsettled(pod)).map(|pod| pod.id.uid.clone());
    let (goal, single) = plan.goals();
    let pod_set::Progress { behind, stuck, total, refused, .. } = &plan.progress;
    let mut desired = plan.leaving.desired.clone();
    share(&mut desired);
    let stage = match refused {
        Some(because) if desired.is_empty() && !is_operating => {
            notes.push(warning(&facts.spec, "FailedUpdate", because.text.clone()));
            Stage::Refused(because.clone())
        }
        _ if behind.is_empty() && desired.is_empty() => Stage::Idle,
        _ => Stage::Rolling,
    };
    Plan {
        target: goal,
        target_label: Some(facts.target.to_owned()),
        single,
        writes,
        desired,
        behind: behind.clone(),
        stuck: stuck.clone(),
        unsettled: unsettled.collect(),
        total: *total,
        notes,
        wake_at: view.deadline().into_iter().chain(overdue.wake_at).min(),
        ..idle(set, stage)
    }
}
