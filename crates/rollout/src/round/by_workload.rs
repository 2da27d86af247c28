//! What is told of single workloads: those at which something happens. The others are only counted.

use std::collections::BTreeMap;

use hitless_api::ObjectRef;
use hitless_workloads::Stage;

use super::facts::desired::DesiredState;
use super::{PodVerdict, WaitReason};

/// A workload that has opted in, at which something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByWorkload {
    /// The workload.
    pub workload: ObjectRef,
    /// Where it is, by [`Stage::name`].
    pub stage: &'static str,
    /// Pods that have its version.
    pub updated: usize,
    /// Pods that are being operated, whatever version they have.
    pub operated: usize,
    /// Pods that want an operation and wait.
    pub waiting: usize,
}

/// Whether the workload itself gives reason to look at it.
const fn is_at_rest(stage: &Stage) -> bool {
    match stage {
        Stage::NotOurs | Stage::Idle => true,
        Stage::Native
        | Stage::Rolling
        | Stage::Finishing
        | Stage::SteppingAside(_)
        | Stage::Refused(_)
        | Stage::Halted(_) => false,
    }
}

pub(super) fn of(desired: &DesiredState<'_>, verdicts: &[PodVerdict]) -> Vec<ByWorkload> {
    let mut pods: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for verdict in verdicts {
        let Some(owner) = &verdict.owner else { continue };
        let (operated, waiting) = pods.entry(&owner.uid).or_default();
        let is_under_way = verdict.waiting.as_ref().is_none_or(|reason| matches!(reason, WaitReason::InProgress));
        *(if is_under_way { operated } else { waiting }) += 1;
    }
    let ours = desired.plans.iter().filter(|plan| plan.stage != Stage::NotOurs);
    let told = ours.filter_map(|plan| {
        let counted = pods.get(plan.workload.uid.as_str());
        if is_at_rest(&plan.stage) && counted.is_none() {
            return None;
        }
        let (operated, waiting) = counted.copied().unwrap_or_default();
        Some(ByWorkload {
            workload: plan.workload.clone(),
            stage: plan.stage.name(),
            updated: plan.total.saturating_sub(plan.behind.len()),
            operated,
            waiting,
        })
    });
    told.collect()
}
