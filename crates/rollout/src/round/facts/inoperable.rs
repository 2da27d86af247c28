//! Workloads with a pod that can't be operated.

use std::collections::BTreeMap;

use hitless_workloads::OptIn;

use crate::mode::Policies;
use crate::round::facts::desired::DesiredState;
use crate::round::wait_reason::WaitReason;

/// What such a pod would wait for, by index of the workload's plan. One pod is asked for each workload.
pub(crate) type Inoperable = BTreeMap<usize, WaitReason>;

pub(crate) fn find(desired: &DesiredState<'_>, policies: &Policies<'_>) -> Inoperable {
    let opted_in = desired.plans.iter().enumerate().filter(|(_, plan)| plan.opt_in != OptIn::No);
    let refused = opted_in.filter_map(|(index, plan)| Some((index, policies.refusal(desired.pod_of(plan)?)?)));
    refused.map(|(index, error)| (index, WaitReason::Drain(error))).collect()
}
