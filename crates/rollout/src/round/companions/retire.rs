//! Companion pods that serve and are not needed any more: they leave service as any pod does, and are deleted then.

use std::collections::HashMap;

use hitless_api::pod::PodView;
use hitless_workloads::PodIntent;

use crate::mode::{Serving, StandIn, Traffic};
use crate::round::facts::companions::is_of_target;
use crate::round::facts::desired::{DesiredState, PodOperation};
use crate::round::facts::endings::Ended;
use crate::round::facts::lost::Lost;
use crate::snapshot::Snapshot;

/// What is wanted for those companions: nothing but to leave.
pub(crate) fn retiring<'a>(
    desired: &DesiredState<'a>,
    ended: &Ended<'_>,
    traffic: &Traffic<'a>,
    lost: &Lost<'_>,
    snapshot: &'a Snapshot,
) -> HashMap<&'a str, PodOperation<'a>> {
    let serving = |pod: &PodView| Serving::of(pod, ended.is_taken(&pod.id.uid));
    let is_over = |pod: &&PodView| {
        let plan = desired.workload_of_companion(pod).map(|index| (index, &desired.plans[index]));
        if plan.is_some_and(|(index, plan)| is_of_target(pod, plan) && !ended.is_halted(index)) {
            return false;
        }
        if pod.owner.as_ref().is_some_and(|owner| snapshot.unreadable.contains(&owner.group_kind)) {
            return false;
        }
        let owner = pod.owner.as_ref().map_or("", |owner| owner.uid.as_str());
        let is_operated = |other: &&str| {
            // Nobody knows when one on a node that does not answer comes back.
            let other = desired.pods.get(*other).filter(|other| other.id.uid != pod.id.uid && !lost.has(&other.id.uid));
            other.and_then(|other| desired.owner(other)).is_some_and(|workload| workload.uid == owner)
        };
        // One that is back from an operation that has failed serves, and its result may stand there for ever.
        if ended.busy.iter().filter(|uid| ended.is_taken(uid)).any(is_operated) {
            return false;
        }
        let is_served = traffic.takes_clients(pod);
        let has_no_pods = plan.is_none_or(|(_, plan)| plan.total == 0) && desired.is_without_pods(owner);
        let is_replaced = match traffic.stand_in(pod, &serving) {
            StandIn::Serves | StandIn::ExceptOnNode(_) | StandIn::OnOtherNodes(_) => true,
            StandIn::ExceptFor(_) | StandIn::None => false,
        };
        !is_served || has_no_pods || is_replaced
    };
    let in_service = |pod: &&PodView| pod.in_service().is_some_and(|condition| condition.is_true);
    let companions = snapshot.companions.iter().map(|pod| &**pod);
    let companions = companions.filter(|pod| in_service(pod) && !pod.terminating && !pod.finished);
    let wanted = |pod: &'a PodView| {
        (
            pod.id.uid.as_str(),
            PodOperation { rank: i32::MAX, ..PodOperation::assumed(pod, PodIntent::drain(pod), None) },
        )
    };
    companions.filter(is_over).map(wanted).collect()
}
