//! Other images of the containers that SidecarSets have put into pods, in place: a request of the SidecarSet for pods of any workload
//! (docs/contract.md#sidecarset).

use hitless_api::Grant;
use hitless_api::pod::PodView;

use super::restart;
use crate::component::{Component, KRUISE, Switch};
use crate::intent::DesiredOperation;
use crate::kinds::sidecar_set::names::SIDECAR_SETS;
use crate::kinds::sidecar_set::{Campaign, SWITCH, sets_of};
use crate::request::{OperationFailures, Reports, RequestContext, RequestKind};

/// The kind of request: a SidecarSet of another version.
pub(crate) struct SidecarUpdates;

impl RequestKind for SidecarUpdates {
    fn component(&self) -> Option<&'static Component> {
        Some(&KRUISE)
    }

    fn switch(&self) -> Option<Switch> {
        Some(SWITCH)
    }

    fn desired(&self, context: &RequestContext<'_, '_>) -> Vec<DesiredOperation> {
        let all = Campaign::all(context.world).flat_map(|campaign| campaign.desired(context.world));
        // One that is about to be brought to another version of its own workload, or to be replaced, has that first.
        let may_go = |wanted: &DesiredOperation| {
            let pod = context.pod(&wanted.pod.namespace, &wanted.pod.name);
            pod.is_some_and(|pod| restart::revision((context.plan_of)(pod), pod).is_some())
        };
        all.filter(may_go).collect()
    }

    fn wants(&self, grant: &Grant, pod: Option<&PodView>, context: &RequestContext<'_, '_>) -> bool {
        let Some(to) = sets_of(grant) else { return false };
        // What has begun ends, whatever became of the SidecarSet.
        let is_on = |pod: &PodView| pod.annotations.get(SIDECAR_SETS).is_some_and(|on| on == to);
        pod.is_none_or(is_on)
            || Campaign::all(context.world).any(|campaign| campaign.goes_on() && campaign.is_led_to(to))
    }

    fn report(&self, context: &RequestContext<'_, '_>, failures: &OperationFailures) -> Reports {
        let mut reports = Reports::default();
        for campaign in Campaign::all(context.world).filter(Campaign::goes_on) {
            let token = campaign.token();
            let mut failed = failures.failed.iter().filter(|((_, of), _)| *of == token);
            let Some(((uid, _), failure)) = failed.next() else { continue };
            let pod = context.pods.iter().find(|pod| pod.id.uid == *uid).map_or("", |pod| pod.id.name.as_str());
            reports.writes.push(campaign.halt(pod, &failure.reason, &failure.text));
        }
        reports
    }
}
