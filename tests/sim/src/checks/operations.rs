//! Checks what agents do to pods: out of service, to other images, and back.

use hitless_api::pod::PodView;
use hitless_api::{Grant, PullPolicy};

use super::{Checks, Operation};
use crate::clock::{Micros, SECOND};
use crate::server::Server;

/// Where the registry is asked at every start, it has answered so recently: half a minute before the grant, which is begun within
/// 90 s, and the drain of the pod.
const LATEST_ANSWER: Micros = 240 * SECOND;

/// `drain.deadlineSeconds` of all pods.
const DEADLINE: Micros = 8 * SECOND;

impl Checks {
    /// An agent has seen the grant, and that it is cancelled.
    pub(crate) fn cancel_seen(&mut self, grant: &Grant) {
        if !self.cancelled.iter().any(|(id, granted)| *id == grant.id && *granted == grant.granted.0) {
            self.cancelled.insert((grant.id.clone(), grant.granted.0));
        }
    }

    /// InService of a pod is about to be written by an agent.
    pub(crate) fn in_service(
        &mut self,
        server: &Server,
        before: &PodView,
        after: &PodView,
        operation: Option<&Operation>,
    ) {
        let is_false = |pod: &PodView| pod.in_service().is_some_and(|is| !is.is_true);
        if !is_false(after) && is_false(before) {
            self.put_back(server, before);
        }
        if !is_false(after) {
            self.truth(&before.id.uid).raised = true;
        }
        if !is_false(after) || is_false(before) {
            return;
        }
        let (uid, name) = (&before.id.uid, &before.id.name);
        let Some(operation) = operation else {
            return self.fail(server.now, format!("pod {name} was taken out of service without an operation"));
        };
        let places = server.ledgers.get(before.id.namespace.as_str());
        let place = places.and_then(|ledger| ledger.spec.reservations.get(uid));
        if place.is_none_or(|place| place.id != operation.id) {
            let what = format!("pod {name} was taken out of service without its place in the ledger");
            return self.fail(server.now, what);
        }
        if operation.held {
            return self.fail(server.now, format!("pod {name} was taken out of service in a Hold"));
        }
        let truth = self.truth(uid);
        if let Some(other) = truth.out.as_ref().filter(|other| **other != operation.id && !truth.raised) {
            let what = format!("pod {name} was taken out for {} while it is out for {other}", operation.id);
            return self.fail(server.now, what);
        }
        let free = truth.free && !truth.had_room;
        (truth.out, truth.replaced) = (Some(operation.id.clone()), None);
        truth.raised = false;
        truth.clients = None;
        if free {
            self.free_place(server, before);
        }
    }

    /// Images of a pod are about to be patched by an agent.
    pub(crate) fn images(&mut self, server: &Server, before: &PodView, after: &PodView, operation: &Operation) {
        let (uid, name) = (&before.id.uid, &before.id.name);
        let place = server
            .ledgers
            .get(before.id.namespace.as_str())
            .and_then(|ledger| ledger.spec.reservations.get(uid))
            .filter(|place| place.id == operation.id && place.since.0 == operation.granted);
        let Some(place) = place else {
            return self
                .fail(server.now, format!("an image of pod {name} was patched without its place in the ledger"));
        };
        let images = if operation.forward { &place.images } else { &place.from_images };
        for (container, old) in after.containers.iter().zip(&before.containers) {
            if container.image != old.image && images.get(&container.name) != Some(&container.image) {
                let what = format!("pod {name}: the ledger does not name image {}", container.image);
                return self.fail(server.now, what);
            }
        }
        self.given(server, before, after, operation);
        if !operation.forward {
            return;
        }
        self.in_order(server, before, after, operation);
        let node = before.node.as_deref().unwrap_or_default();
        let changed = after.containers.iter().zip(&before.containers).filter(|(new, old)| new.image != old.image);
        for (new, _) in changed {
            let grants = server.transitions.get(node).map(|node| node.view.spec.grants.as_slice());
            let mut granted = grants.unwrap_or_default().iter();
            let is_unfetched = granted.any(|grant| grant.id == operation.id && grant.unfetched);
            // Nobody fetches it, or asks the registry whether it would answer: the pods that do are refused.
            if is_unfetched && server.has_refused.contains(&before.id.namespace) {
                continue;
            }
            let Some(asked) = server.images.asked_at(node, &new.image) else {
                let what = format!("pod {name} was operated to {}, which is not on {node}", new.image);
                return self.fail(server.now, what);
            };
            if new.pull_policy == PullPolicy::Always && server.now - asked > LATEST_ANSWER {
                let what = format!("pod {name} was operated to {}, whose registry may be away", new.image);
                return self.fail(server.now, what);
            }
        }
        if operation.held {
            return self.held_images(server, before, operation);
        }
        if before.ready() || !before.in_service().is_some_and(|is| !is.is_true && is.message == operation.id) {
            let what = format!("an image of pod {name} was patched while the pod is not out of service for that");
            return self.fail(server.now, what);
        }
        let since = self.pods.get(uid).and_then(|truth| truth.lowered_at).unwrap_or(server.now);
        // One whose Service was deleted while the load balancer could not be read is nobody's. What comes later can't be waited for.
        let mut services = server.services.values().map(|service| &service.view);
        let is_named = services.any(|service| service.control.is_some() && service.selects(before))
            && self.services.controlled.contains(&(operation.id.clone(), operation.granted));
        let balancer = server.balancer.as_ref().filter(|_| is_named);
        let is_served = balancer.zip(before.ip.as_ref()).is_some_and(|(it, ip)| it.serves(ip, server.now));
        // Times in conditions are whole seconds, and were taken before the write arrived.
        if server.now - since < DEADLINE - 2 * SECOND && is_served {
            let what = format!("pod {name} was operated while its load balancer sends it clients");
            return self.fail(server.now, what);
        }
        if before.terminating {
            self.fail(server.now, format!("an image of pod {name} was patched while the pod is being deleted"));
        }
    }

    /// An agent is about to send an image patch.
    pub(crate) fn operating(&mut self, now: Micros, operation: &Operation) {
        if operation.forward && self.cancelled.contains(&(operation.id.clone(), operation.granted)) {
            self.fail(now, format!("operation {} was seen cancelled, and operates all the same", operation.id));
        }
    }
}
