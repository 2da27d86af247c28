//! Pods that leave service because others serve, while nobody else serves any more: they are put back (docs/contract.md#leave-or-hold).

use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;
use hitless_api::{Cancel, Grant, GrantMode, MicroTime, Phase};
use jiff::Timestamp;

use crate::mode::{Mode, Serving, StandIn, Traffic};
use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::{Ended, is_given_up};
use crate::snapshot::Snapshot;

/// Grants that end before anything is replaced, so that their pods serve again at once. Granted anew, such a pod is held.
pub(crate) fn cancels<'a>(
    desired: &DesiredState<'a>,
    ended: &Ended<'a>,
    traffic: &Traffic<'a>,
    snapshot: &'a Snapshot,
    now: Timestamp,
) -> Vec<Change<'a>> {
    let serving = |pod: &PodView| Serving::of(pod, ended.is_taken(&pod.id.uid));
    let mut changes = Vec::new();
    for (node, view) in &snapshot.node_transitions {
        // Another agent would replace the containers and then undo that.
        if !view.agent.as_ref().is_some_and(|agent| agent.can(Cancel::LAST_ENDPOINT_FEATURE)) {
            continue;
        }
        let live = view.unfinished().filter(|grant| grant.cancel.is_none() && rests_on_others(grant));
        for grant in live.filter(|grant| !is_given_up(grant, desired, snapshot)) {
            let is_begun = view.transition(grant).is_some_and(|transition| transition.phase >= Phase::Operating);
            let pod = desired.pods.get(grant.pod.uid.as_str()).filter(|pod| !is_begun && would_serve(grant, pod));
            if pod.is_some_and(|pod| traffic.stand_in(pod, &serving) == StandIn::None) {
                let cancel = Cancel { reason: Cancel::LAST_ENDPOINT.to_owned(), since: MicroTime(now) };
                changes.push(Change::Cancel { node, grant, cancel });
            }
        }
    }
    changes
}

/// It leaves only because another pod served when it was granted.
fn rests_on_others(grant: &Grant) -> bool {
    let word = Mode::word(&grant.mode_reason);
    grant.mode == GrantMode::Leave && Mode::REST_ON_OTHERS.contains(&word)
}

/// It has its old containers, and they run: all that is missing is that it is put back.
fn would_serve(grant: &Grant, pod: &PodView) -> bool {
    let is_old = |(name, change): (&String, &ImageChange)| {
        pod.container(name).is_some_and(|container| container.image == change.from)
    };
    let runs = pod.conditions.get("ContainersReady").is_some_and(|condition| condition.is_true);
    runs && !pod.terminating && grant.containers.iter().all(is_old)
}
