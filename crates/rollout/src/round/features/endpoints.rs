//! Workloads whose pods ask for the endpoint of their node's agent and do not get it (docs/endpoint.md): their preStop hooks fail, and
//! nobody else tells their owners.

use hitless_api::event::{EventNote, Severity};
use hitless_workloads::{OptIn, registry};

use crate::round::features::{Effects, FeatureContext};

/// One pod is asked for each workload.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let desired = &context.facts.desired;
    let opted_in = desired.plans.iter().filter(|plan| plan.opt_in != OptIn::No);
    let notes = opted_in.filter_map(|plan| {
        let pod = desired.pod_of(plan)?;
        let fault = pod.endpoint_fault()?;
        Some(EventNote {
            regarding: plan.workload.reference(registry::version(&plan.workload.group_kind)),
            severity: Severity::Warning,
            reason: "EndpointInvalid",
            action: "Observe",
            text: format!("pod {} asks for the endpoint of its agent in vain: {fault}", pod.id.name),
        })
    });
    Effects::default().telling(notes)
}
