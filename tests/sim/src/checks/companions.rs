//! Companion pods: whether a version is tried before a pod gets it, and who serves meanwhile. What is said of a decision is told by
//! what it was decided on; what is done to a companion by the API server's true state.

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_api::{Reservation, TransitionLedgerSpec};
use hitless_rollout::round::Step;
use hitless_rollout::snapshot::{LedgerView, Snapshot};

use super::holds::{is_lost, leads, stand_in};
use super::{Checks, image_number};
use crate::clock::Micros;
use crate::server::Server;

impl Checks {
    /// A controller has decided: who is to be operated by it.
    pub(super) fn beside_companions(&mut self, now: Micros, snapshot: &Snapshot, steps: &[Step]) {
        for step in steps {
            let Some(next) = LedgerView::after(&step.write, None) else { continue };
            let known = snapshot.ledgers.get(&next.namespace).map(|ledger| &ledger.spec.reservations);
            for (uid, place) in &next.spec.reservations {
                let is_known = known.and_then(|known| known.get(uid)).is_some_and(|known| known.since == place.since);
                let Some(pod) = snapshot.pods.iter().find(|pod| pod.id.uid == *uid && !is_known) else { continue };
                let fault = if is_companion(pod) {
                    leaves_too_soon(snapshot, &next.spec, pod)
                } else {
                    goes_too_soon(snapshot, pod, place)
                };
                if let Some(what) = fault {
                    self.fail(now, what);
                }
            }
        }
    }

    /// A companion pod is about to be deleted.
    pub(crate) fn companion_deleted(&mut self, server: &Server, pod: &PodView) {
        let Some(in_service) = pod.in_service().filter(|_| !pod.finished && !pod.terminating) else { return };
        let mut grants = server.transitions.values().flat_map(|node| node.view.unfinished());
        let is_leaving = grants.any(|grant| grant.pod.uid == pod.id.uid);
        if in_service.is_true {
            self.fail(server.now, format!("companion pod {} was deleted while it is in service", pod.id.name));
        } else if is_leaving {
            self.fail(server.now, format!("companion pod {} was deleted before its clients were gone", pod.id.name));
        }
    }
}

fn is_companion(pod: &PodView) -> bool {
    pod.labels.contains_key(labels::COMPANION)
}

/// uid of the topmost workload of a pod.
fn workload<'a>(snapshot: &'a Snapshot, pod: &'a PodView) -> Option<&'a str> {
    let direct = pod.owner.as_ref()?;
    let object = snapshot.objects.iter().find(|object| object.id.uid == direct.uid);
    Some(object.and_then(|object| object.owner.as_ref()).map_or(direct.uid.as_str(), |above| above.uid.as_str()))
}

/// A companion pod leaves though a pod of its workload is operated, or nobody else serves.
fn leaves_too_soon(snapshot: &Snapshot, places: &TransitionLedgerSpec, companion: &PodView) -> Option<String> {
    let name = &companion.id.name;
    let is_taken = |pod: &PodView| places.reservations.contains_key(&pod.id.uid);
    let own = workload(snapshot, companion);
    let mut pods = snapshot.pods.iter().filter(|pod| !is_companion(pod) && workload(snapshot, pod) == own).peekable();
    // Its workload has no pods any more.
    pods.peek()?;
    if let Some(pod) = pods.find(|pod| is_taken(pod) && !is_lost(snapshot, pod)) {
        return Some(format!("companion pod {name} leaves while pod {} is operated", pod.id.name));
    }
    let mut services = snapshot.services.iter().filter(|service| service.has_address && leads(service, companion));
    let without_others = services.find(|service| {
        let others = snapshot.pods.iter().map(|pod| &**pod).filter(|pod| pod.id.uid != companion.id.uid);
        !stand_in(service, companion, others.filter(|pod| pod.available() && !is_taken(pod)))
    });
    without_others.map(|service| format!("companion pod {name} leaves, and nobody else serves for {}", service.name))
}

/// A pod goes for a version that does not run in its workload's companion pod.
fn goes_too_soon(snapshot: &Snapshot, pod: &PodView, place: &Reservation) -> Option<String> {
    let mut services = snapshot.services.iter().filter(|service| service.has_address && leads(service, pod));
    if services.any(|service| service.open && service.held_by.is_none()) {
        // A companion pod would get connections at once, so there is none any more.
        return None;
    }
    let own = workload(snapshot, pod)?;
    let wanted = |name: &str| place.images.get(name).and_then(|image| image_number(image));
    let does_not_run = |companion: &PodView| {
        companion.containers.iter().any(|container| {
            let status = container.status.as_ref().filter(|status| status.running_since.is_none());
            status.is_some_and(|status| status.waiting.as_deref() == Some("CrashLoopBackOff"))
                && wanted(&container.name).is_some_and(|wanted| image_number(&container.image) == Some(wanted))
        })
    };
    let companion = snapshot.companions.iter().find(|companion| {
        companion.owner.as_ref().is_some_and(|owner| owner.uid == own)
            && companion.in_service().is_none()
            && !companion.terminating
            && does_not_run(companion)
    })?;
    Some(format!("pod {} goes for a version that does not run in companion pod {}", pod.id.name, companion.id.name))
}
