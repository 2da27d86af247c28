//! Companion pods that are made, put in service and deleted, and what they have told.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_workloads::{Plan, PodIntent, Write, registry};
use jiff::Timestamp;

use crate::companion::{self, Outcome, State};
use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::facts::agents::{AGENT_IS_AWAY, without_agent_for};
use crate::round::facts::companions::{ROOM_WITHIN, SLOW_AFTER, deadline, is_moving, is_of_target, target_key, tried};
use crate::round::features::{Effects, FeatureContext};
use crate::round::wait_reason::WaitReason;
use crate::round::wait_reason::companion::Companion;
use crate::round::write::pods::{self, WithoutAgent};
use crate::round::write_plan::WritePlan;

/// Once the verdicts are known.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let FeatureContext { facts, verdicts, writes, now, .. } = *context;
    let mut changes = Vec::new();
    let mut leaving: BTreeSet<(&str, &str)> = BTreeSet::new();
    // Several pods may wait for the same one.
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for verdict in verdicts {
        let Some(WaitReason::Companion { pod, stage }) = &verdict.waiting else { continue };
        let Some(wanted) = facts.desired.by_pod.get(verdict.pod.uid.as_str()) else { continue };
        let Some(plan) = wanted.workload.map(|index| &facts.desired.plans[index]) else { continue };
        if !seen.insert((verdict.pod.namespace.as_str(), pod.as_str())) {
            continue;
        }
        let change = match stage {
            Companion::Missing => {
                wanted.intent.as_ref().ok().and_then(|intent| create(facts, plan, wanted.pod, intent))
            }
            Companion::Joining => {
                facts.companions.of(plan).filter(|pod| !companion::has_served(pod)).map(|pod| join(pod, now))
            }
            Companion::Tried(tried) => {
                let object = facts.desired.world.object(&plan.workload.uid).filter(|_| plan.writes.is_empty());
                object.map(|object| {
                    Change::Write(Write::annotate("record-trial", object, annotations::TRIED, &tried.text()))
                })
            }
            Companion::Leaving => {
                leaving.insert((verdict.pod.namespace.as_str(), pod.as_str()));
                None
            }
            Companion::Starting(_)
            | Companion::Slow(_)
            | Companion::Failing(_)
            | Companion::Failed(_)
            | Companion::Needed(_) => None,
        };
        changes.extend(change);
    }
    let gone = facts.snapshot.companions.iter().map(|pod| &**pod).filter(|pod| !pod.terminating);
    let gone = gone.filter_map(|pod| {
        let is_leaving = leaving.contains(&(pod.id.namespace.as_str(), pod.id.name.as_str()));
        delete(facts, pod, is_leaving, writes)
    });
    changes.extend(gone.map(Change::Write));
    Effects::of(changes).waking(wake_at(facts))
}

fn create<'a>(facts: &Facts<'a, '_>, plan: &Plan, beside: &PodView, intent: &PodIntent) -> Option<Change<'a>> {
    let root = facts.desired.world.object(&plan.workload.uid)?;
    let template = registry::of_workload(&plan.workload.group_kind)?.surge(root).ok()?;
    let images: BTreeMap<String, String> =
        intent.operation.containers.iter().map(|(name, change)| (name.clone(), change.to.clone())).collect();
    let key = target_key(plan);
    let manifest = companion::manifest(&plan.workload, &key, template, &images, beside.node.as_deref()?);
    Some(Change::Write(pods::create_companion(&key, manifest)))
}

fn join<'a>(pod: &PodView, now: Timestamp) -> Change<'a> {
    Change::Write(pods::in_service(&pod.id, &pod.resource_version, WithoutAgent::Companion, now))
}

/// Nothing as long as it is needed, or has to be drained before.
fn delete(facts: &Facts<'_, '_>, pod: &PodView, is_leaving: bool, writes: &WritePlan<'_>) -> Option<Write> {
    // Nobody was ever sent to one that goes at once, so its containers are not asked to end.
    let write = |at_once: bool| {
        let version = Some(pod.resource_version.as_str());
        Some(pods::delete_helper("companion", &pod.id, version, at_once.then_some(0)))
    };
    let uid = pod.id.uid.as_str();
    match pod.in_service() {
        _ if pod.finished => write(false),
        None => {
            let plan = facts.desired.workload_of_companion(pod).map(|index| &facts.desired.plans[index]);
            let is_wanted = plan.is_some_and(|plan| {
                // One that runs is tried once, and may have to serve each time.
                is_of_target(pod, plan) && tried(plan).is_none_or(|tried| tried.outcome == Outcome::Good)
            });
            // Nobody has a connection to it.
            if is_wanted && !is_leaving { None } else { write(true) }
        }
        Some(_) => {
            let mut own = writes.every_grant().filter(|grant| grant.pod.uid == uid).peekable();
            // A grant that was written without an answer is not seen, and may have arrived.
            let is_reserved = writes.reservation(&pod.id.namespace, uid).is_some();
            let has_grant = own.peek().is_some();
            let is_operated = if has_grant { own.any(|grant| !facts.has_ended(grant)) } else { is_reserved };
            let has_failed = facts.ended.failures.iter().any(|failure| failure.grant.pod.uid == uid);
            let is_drained = pod.in_service().is_some_and(|condition| !condition.is_true) && !is_operated;
            if has_failed || is_drained { write(false) } else { None }
        }
    }
}

/// When companions are to be looked at again even if nothing changes.
fn wake_at(facts: &Facts<'_, '_>) -> Option<Timestamp> {
    let by_plan: BTreeMap<String, &Plan> = if facts.snapshot.companions.is_empty() {
        return None;
    } else {
        let moving = facts.desired.plans.iter().filter(|plan| is_moving(plan));
        moving.map(|plan| (target_key(plan), plan)).collect()
    };
    let at = facts.companions.by_key.iter().filter_map(|(key, pod)| {
        let deadline = pod.created?.saturating_add(deadline(by_plan.get(*key)?, pod)).ok()?;
        let next = match State::of(pod, facts.companions.now) {
            State::Unschedulable { since, .. } => since.or(pod.created)?.saturating_add(ROOM_WITHIN).ok()?,
            State::Starting { until, .. } => {
                let slow = pod.created?.saturating_add(SLOW_AFTER).ok()?;
                let now = facts.companions.now;
                [until, Some(slow), Some(deadline)].into_iter().flatten().filter(|at| *at > now).min()?
            }
            State::Failing(_) => deadline,
            State::Ready { .. } => without_agent_for(AGENT_IS_AWAY, facts.snapshot, pod, facts.companions.now)?,
        };
        (next > facts.companions.now).then_some(next)
    });
    at.min()
}
