//! Learns whose connections are lost when a pod becomes not Ready, and keeps it on the workload (docs/contract.md#lost-connections).

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::mode::ConnectionLosses;
use crate::round::facts::wishes::Wishes;

/// What is known of one workload.
pub(crate) struct Known {
    pub(crate) losses: ConnectionLosses,
    /// It does not stand on the workload yet.
    pub(crate) is_news: bool,
}

/// What workloads remember and reports show, by index of the plan.
pub(crate) fn known(wishes: &Wishes<'_>, now: Timestamp) -> BTreeMap<usize, Known> {
    let remembered = wishes.plans.iter().enumerate().filter_map(|(index, plan)| {
        let losses = ConnectionLosses::parse(plan.losses.as_deref(), now)?;
        Some((index, Known { losses, is_news: false }))
    });
    let mut known: BTreeMap<usize, Known> = remembered.collect();
    for (pod, transition) in wishes.reports() {
        let Some(losses) = ConnectionLosses::reported(&pod.id.name, transition, now) else { continue };
        let Some(workload) = wishes.workload_of(pod) else { continue };
        if losses.is_news(known.get(&workload).map(|known| &known.losses)) {
            known.insert(workload, Known { losses, is_news: true });
        }
    }
    known
}
