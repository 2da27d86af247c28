//! What an operation of a pod that is not available may cost: an unverified version must not get onto more pods than may be
//! unavailable, whatever their readiness says (docs/decisions/0040-pods-in-trial.md).
//!
//! All of it is derived from what is observed, so a new leader decides the same.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;

use crate::companion;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::Ended;
use crate::round::facts::lost::Lost;

/// Which pods have the versions that their workloads are being brought to.
pub(crate) struct Trials<'a> {
    /// uids of pods that have it or are between two versions.
    pub(crate) updated: Vec<&'a str>,
    /// Plans whose version has been verified: a pod that has it is available for long enough, and its operation is over.
    pub(crate) verified: BTreeSet<usize>,
}

impl<'a> Trials<'a> {
    pub(crate) fn of(desired: &DesiredState<'a>, ended: &Ended<'a>, lost: &Lost<'_>) -> Self {
        let mut updated: Vec<&str> = ended.transfers.keys().copied().collect();
        let mut verified = BTreeSet::new();
        for (index, plan) in desired.plans.iter().enumerate().filter(|(_, plan)| !plan.behind.is_empty()) {
            for pod in desired.pods_of(plan).filter(|pod| stays(pod) && plan.has_target(pod)) {
                let uid = pod.id.uid.as_str();
                // It proves nothing, and nobody learns more of it as long as its node is away.
                if !lost.has(uid) {
                    updated.push(uid);
                }
                let is_new = desired.world.recently_ready.contains_key(uid) || ended.late.contains(uid);
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
