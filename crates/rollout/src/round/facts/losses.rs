//! Learns whose connections are lost when a pod becomes not Ready, and keeps it on the workload (docs/contract.md#lost-connections).

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::mode::ConnectionLosses;
use crate::round::facts::desired::DesiredState;

/// What is known of one workload.
pub(crate) struct WorkloadLosses {
    pub(crate) losses: ConnectionLosses,
    /// It does not stand on the workload yet.
    pub(crate) is_news: bool,
}

/// What workloads remember and reports show, by index of the plan.
pub(crate) fn known(desired: &DesiredState<'_>, now: Timestamp) -> BTreeMap<usize, WorkloadLosses> {
    let remembered = desired.plans.iter().enumerate().filter_map(|(index, plan)| {
        let losses = ConnectionLosses::parse(plan.losses.as_deref(), now)?;
        Some((index, WorkloadLosses { losses, is_news: false }))
    });
    let mut known: BTreeMap<usize, WorkloadLosses> = remembered.collect();
    for (pod, transition) in desired.reports() {
        let Some(losses) = ConnectionLosses::reported(&pod.id.name, transition, now) else { continue };
        let Some(workload) = desired.workload_of(pod) else { continue };
        if losses.is_news(known.get(&workload).map(|known| &known.losses)) {
            known.insert(workload, WorkloadLosses { losses, is_news: true });
        }
    }
    known
}
