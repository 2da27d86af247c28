//! Companion pods that are made, put in service and deleted, and what they have told.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_workloads::{Plan, PodIntent, Write, registry};
use jiff::Timestamp;

use super::{Companion, is_of_target, target_key, tried};
use crate::companion::{self, Outcome};
use crate::round::PodVerdict;
use crate::round::candidates::Basis;
use crate::round::change::Change;
use crate::round::draft::Draft;
use crate::round::wait_reason::WaitReason;
use crate::round::write::{CompanionWrite, InServiceFallback, WithoutAgent};

/// What is written, and when to look again.
pub(in crate::round) struct Companions<'a> {
    pub(in crate::round) changes: Vec<Change<'a>>,
    pub(in crate::round) wake_at: Option<Timestamp>,
}

/// Once the verdicts are known.
pub(in crate::round) fn decide<'a>(
    basis: &Basis<'a, '_>,
    verdicts: &[PodVerdict],
    draft: &Draft<'_>,
) -> Companions<'a> {
    let mut changes = Vec::new();
    let mut leaving: BTreeSet<(&str, &str)> = BTreeSet::new();
    // Several pods may wait for the same one.
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for verdict in verdicts {
        let Some(WaitReason::Companion { pod, stage }) = &verdict.waiting else { continue };
        let Some(wish) = basis.wishes.by_pod.get(verdict.pod.uid.as_str()) else { continue };
        let Some(plan) = wish.workload.map(|index| &basis.wishes.plans[index]) else { continue };
        if !seen.insert((verdict.pod.namespace.as_str(), pod.as_str())) {
            continue;
        }
        let change = match stage {
            Companion::Missing => wish.intent.as_ref().ok().and_then(|intent| create(basis, plan, wish.pod, intent)),
            Companion::Joining => basis.companions.of(plan).filter(|pod| !companion::has_served(pod)).map(join),
            Companion::Tried(tried) => {
                let object = basis.wishes.world.object(&plan.workload.uid).filter(|_| plan.writes.is_empty());
                object.map(|object| {
                    Change::Workload(Write::annotate("record-trial", object, annotations::TRIED, &tried.text()))
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
    let gone = basis.snapshot.companions.iter().map(|pod| &**pod).filter(|pod| !pod.terminating);
    let gone = gone.filter_map(|pod| {
        let is_leaving = leaving.contains(&(pod.id.namespace.as_str(), pod.id.name.as_str()));
        delete(basis, pod, is_leaving, draft)
    });
    changes.extend(gone.map(Change::Companion));
    Companions { changes, wake_at: super::wake_at(basis) }
}

fn create<'a>(basis: &Basis<'a, '_>, plan: &Plan, beside: &PodView, intent: &PodIntent) -> Option<Change<'a>> {
    let root = basis.wishes.world.object(&plan.workload.uid)?;
    let template = registry::of_workload(&plan.workload.group_kind)?.surge(root).ok()?;
    let images: BTreeMap<String, String> =
        intent.operation.containers.iter().map(|(name, change)| (name.clone(), change.to.clone())).collect();
    let key = target_key(plan);
    let manifest = companion::manifest(&plan.workload, &key, template, &images, beside.node.as_deref()?);
    let namespace = plan.workload.namespace.clone();
    Some(Change::Companion(CompanionWrite::Create { namespace, key, manifest }))
}

fn join<'a>(pod: &PodView) -> Change<'a> {
    let (pod, resource_version) = (pod.id.clone(), pod.resource_version.clone());
    Change::InServiceFallback(InServiceFallback { pod, resource_version, because: WithoutAgent::Companion })
}

/// Nothing as long as it is needed, or has to be drained before.
fn delete(basis: &Basis<'_, '_>, pod: &PodView, is_leaving: bool, draft: &Draft<'_>) -> Option<CompanionWrite> {
    let write = |at_once: bool| {
        let resource_version = pod.resource_version.clone();
        Some(CompanionWrite::Delete { pod: pod.id.clone(), resource_version, at_once })
    };
    let uid = pod.id.uid.as_str();
    match pod.in_service() {
        _ if pod.finished => write(false),
        None => {
            let plan = basis.wishes.workload_of_companion(pod).map(|index| &basis.wishes.plans[index]);
            let is_wanted = plan.is_some_and(|plan| {
                // One that runs is tried once, and may have to serve each time.
                is_of_target(pod, plan) && tried(plan).is_none_or(|tried| tried.outcome == Outcome::Good)
            });
            // Nobody has a connection to it.
            if is_wanted && !is_leaving { None } else { write(true) }
        }
        Some(_) => {
            let mut own = draft.every_grant().filter(|grant| grant.pod.uid == uid).peekable();
            // A grant that was written without an answer is not seen, and may have arrived.
            let is_reserved = draft.reservation(&pod.id.namespace, uid).is_some();
            let has_grant = own.peek().is_some();
            let is_operated = if has_grant { own.any(|grant| !basis.has_ended(grant)) } else { is_reserved };
            let has_failed = basis.ended.failures.iter().any(|failure| failure.grant.pod.uid == uid);
            let is_drained = pod.in_service().is_some_and(|condition| !condition.is_true) && !is_operated;
            if has_failed || is_drained { write(false) } else { None }
        }
    }
}
