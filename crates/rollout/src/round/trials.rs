//! What an operation of a pod that is not available may cost: an unverified version must not get onto more pods than may be
//! unavailable, whatever their readiness says (docs/decisions/0040-pods-in-trial.md).
//!
//! All of it is derived from what is observed, so a new leader decides the same.

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use hitless_api::pod::PodView;
use hitless_gate::Absence;
use hitless_workloads::Plan;

use super::candidates::Basis;
use super::endings::Ended;
use super::lost::Lost;
use super::wishes::Wishes;
use crate::companion;

/// Which pods have the versions that their workloads are being brought to.
pub(super) struct Trials<'a> {
    /// uids of pods that have it or are between two versions.
    pub(super) updated: Vec<&'a str>,
    /// Plans whose version has been verified: a pod that has it is available for long enough, and its operation is over.
    verified: BTreeSet<usize>,
}

impl<'a> Trials<'a> {
    pub(super) fn of(wishes: &Wishes<'a>, ended: &Ended<'a>, lost: &Lost<'_>) -> Self {
        let mut updated: Vec<&str> = ended.transfers.keys().copied().collect();
        let mut verified = BTreeSet::new();
        for (index, plan) in wishes.plans.iter().enumerate().filter(|(_, plan)| !plan.behind.is_empty()) {
            for pod in wishes.pods_of(plan).filter(|pod| stays(pod) && plan.has_target(pod)) {
                let uid = pod.id.uid.as_str();
                // It proves nothing, and nobody learns more of it as long as its node is away.
                if !lost.has(uid) {
                    updated.push(uid);
                }
                let is_new = wishes.world.recently_ready.contains_key(uid) || ended.late.contains(uid);
                if pod.available() && !ended.is_taken(uid) && !is_new {
                    verified.insert(index);
                }
            }
        }
        Self { updated, verified }
    }
}

fn stays(pod: &PodView) -> bool {
    !pod.terminating && !pod.finished && !companion::is_companion(pod)
}

impl<'a> Basis<'a, '_> {
    /// What operating the pod may cost if it is not available. `op`: what is to be done, if that is known.
    pub(super) fn absence(&self, pod: &'a PodView, op: Option<&GrantOp>) -> Absence {
        let index = self.wishes.workload_of(pod);
        let behind = |plan: &&Plan| plan.behind.contains(&pod.id.uid);
        let plan = index.map(|index| &self.wishes.plans[index]).filter(behind);
        match op {
            // It leaves for good, and nobody is made anew of a version that is not verified.
            Some(GrantOp::Drain) if plan.is_none() => return Absence::CostsNothing,
            // Nothing of it is replaced.
            Some(GrantOp::Relabel) => return Absence::CostsNothing,
            // Nobody knows what they make of it.
            Some(GrantOp::Foreign) => return Absence::SameVersion,
            Some(GrantOp::Drain | GrantOp::Update | GrantOp::Restart | GrantOp::Unknown(_)) | None => {}
        }
        let is_between = self.ended.transfers.contains_key(pod.id.uid.as_str());
        let own_fault = pod.containers.iter().any(|container| companion::failure(container).is_some());
        let is_verified = index.is_some_and(|index| self.trials.verified.contains(&index));
        match plan {
            _ if is_between => Absence::CostsNothing,
            None if own_fault => Absence::CostsNothing,
            None => Absence::SameVersion,
            Some(plan) if plan.leaves_bad(pod) || (own_fault && is_verified) => Absence::CostsNothing,
            Some(_) => Absence::NewVersion,
        }
    }
}
