//! Workloads with a pod that can't be operated, because what is wished of its drain, mode or hooks makes no sense. Their owners
//! are told as soon as such a pod is seen, and not when the images change.

use std::collections::BTreeMap;

use hitless_api::event::{EventNote, Severity};
use hitless_workloads::{OptIn, registry};

use super::wait_reason::WaitReason;
use super::wishes::Wishes;
use crate::mode::Policies;

/// What such a pod would wait for, by index of the workload's plan. One pod is asked for each workload.
pub(super) type Inoperable = BTreeMap<usize, WaitReason>;

pub(super) fn find(wishes: &Wishes<'_>, policies: &Policies<'_>) -> Inoperable {
    let opted_in = wishes.plans.iter().enumerate().filter(|(_, plan)| plan.opt_in != OptIn::No);
    let refused = opted_in.filter_map(|(index, plan)| Some((index, policies.refusal(wishes.pod_of(plan)?)?)));
    refused.map(|(index, error)| (index, WaitReason::Drain(error))).collect()
}

pub(super) fn notes(wishes: &Wishes<'_>, found: &Inoperable) -> impl Iterator<Item = EventNote> {
    found.iter().map(|(index, why)| {
        let workload = &wishes.plans[*index].workload;
        EventNote {
            regarding: workload.reference(registry::version(&workload.group_kind)),
            severity: Severity::Warning,
            reason: why.reason(),
            action: "UpdateInPlace",
            text: format!("at least one of its pods can't be operated: {}", why.text()),
        }
    })
}
