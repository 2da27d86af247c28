//! What must be true at every step, told by the API server's true state and by nothing that our own code believes.
//!
//! **Budgets.** A pod counts as *taken by us* from the moment its place stands in the ledger, and from the moment its InService
//! is lowered, until it is Ready and in service again (or gone), whatever the ledger says by then. When a place is added for a pod
//! that is available, every rule that selects the pod must have room for it: pods taken by us in truth (both leaders', also those
//! whose place was given back too early), pods that the deciding controller could see to be unavailable, and pods that it could
//! see to be missing, must together stay within the rule. What happened without us and had not reached the controller yet (a
//! crash, a scale-down, a changed rule) is not counted against it. Every InService→False of an available pod must then rest on
//! such a place; a place that was given only because the pod was unavailable does not count once it is available.
//!
//! **Places.** One is given back only when its pod is gone or going, or was never taken out of service, or has been Ready and in
//! service since. A grant for a pod that exists is written only when its place stands in the ledger. Epochs never go back.
//!
//! **Operations.** Images are patched only as the true ledger says, forward only while the pod is out of service for this very
//! operation and not Ready, and never once its agent has seen it cancelled. A pod is never taken out for a second operation
//! before it is back from the first.
//!
//! **Images.** No pod is operated to an image that its node does not have.
//!
//! **CollaSets.** There are never more pods than their owner has wanted since it was last at rest, beside those that leave; an instance
//! id has one pod. A pod that serves, or whose clients are connected, is not deleted before the deadline of its drain. A revision
//! that a pod has is kept.
//!
//! **Companions.** A companion pod that serves leaves only while no pod of its workload is operated and somebody else serves, and is
//! deleted only once its clients are gone. No pod goes for a version that does not run in its workload's companion pod.
//!
//! **Load balancers.** Before the deadline of its drain no pod is operated that gets sessions from a load balancer outside of the
//! cluster, or has some.
//!
//! **Pauses.** No operation of a paused workload's pods begins.
//!
//! **Holds.** A held pod is never lowered by its operation; it counts as taken by us from its image patch until it is Ready with
//! what its spec says. Its grant is decided only by somebody who sees those Services open that have no other pod, and its images
//! are patched only if they have been open since its place was taken. None of them is closed by us meanwhile, and none that its
//! owner wants open is ever written to.

mod budget;
mod colla_sets;
mod companions;
mod holds;
mod jobs;
mod lifecycle;
mod native;
mod pauses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{Grant, PullPolicy, Reservation, TransitionLedgerSpec};
use hitless_rollout::mode::ServiceView;
use hitless_rollout::snapshot::RuleView;
use hitless_workloads::Object;
use hitless_world::kubelet::runs;
use jiff::Timestamp;

use crate::clock::{Micros, SECOND};
use crate::counts::HoldCounts;
use crate::server::Server;

pub(crate) use budget::{number as image_number, partition};
use colla_sets::CollaSets;
pub(crate) use colla_sets::{at_rest as colla_set_at_rest, unfinished as colla_set_unfinished};
use holds::{Replaced, Services};
use jobs::Jobs;

/// The operation that an agent's write belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) granted: Timestamp,
    /// Towards the new images.
    pub(crate) forward: bool,
    /// The pod stays in service.
    pub(crate) held: bool,
}

/// Where the registry is asked at every start, it has answered so recently: half a minute before the grant, which is begun within
/// 90 s, and the drain of the pod.
const LATEST_ANSWER: Micros = 240 * SECOND;

/// `drain.deadlineSeconds` of all pods.
const DEADLINE: Micros = 8 * SECOND;

/// What a controller saw when it decided to reserve.
pub(crate) struct Seen {
    pub(crate) pods: Vec<Arc<PodView>>,
    pub(crate) rules: Vec<Arc<RuleView>>,
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) services: Vec<Arc<ServiceView>>,
}

impl Seen {
    /// A load balancer outside of the cluster sends that pod connections for one of its Services.
    fn is_controlled(&self, uid: &str) -> bool {
        let mut controlled = self.services.iter().filter(|service| service.control.is_some());
        let pod = self.pods.iter().find(|pod| pod.id.uid == uid);
        pod.is_some_and(|pod| controlled.any(|service| service.selects(pod)))
    }
}

/// What is known of a pod beside the object itself.
#[derive(Default)]
struct Truth {
    /// Taken out of service or, in a Hold, replaced for this operation, and not back yet.
    out: Option<String>,
    /// When it left service.
    lowered_at: Option<Micros>,
    /// In a Hold: what was replaced.
    replaced: Option<Replaced>,
    /// Its agent has given it up: InService is True again, and the pod is not Ready.
    raised: bool,
    /// Its place rests on its being unavailable.
    free: bool,
    /// Until when clients are connected to it, as far as that is known.
    clients: Option<Micros>,
}

/// The first broken invariant, and what is needed to find it.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) broken: Option<(Micros, String)>,
    pods: BTreeMap<String, Truth>,
    /// By id and time of an operation of a StatefulSet's pod: the revision that the StatefulSet had when it was decided.
    decided_at: BTreeMap<(String, Timestamp), String>,
    /// Operations that an agent has seen cancelled.
    cancelled: BTreeSet<(String, Timestamp)>,
    services: Services,
    jobs: Jobs,
    colla_sets: CollaSets,
    /// Since when workloads are paused, by uid.
    paused: BTreeMap<String, Micros>,
    /// What has happened around Holds.
    pub(crate) counted: HoldCounts,
    off: bool,
}

impl Checks {
    /// Checks that check nothing.
    pub(crate) fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    pub(crate) fn fail(&mut self, now: Micros, what: String) {
        if self.broken.is_none() {
            self.broken = Some((now, what));
        }
    }

    fn truth(&mut self, uid: &str) -> &mut Truth {
        if !self.pods.contains_key(uid) {
            self.pods.insert(uid.to_owned(), Truth::default());
        }
        self.pods.entry(uid.to_owned()).or_default()
    }

    /// A pod is as `view` says now.
    pub(crate) fn pod(&mut self, now: Micros, view: &PodView) {
        match view.in_service() {
            Some(condition) if !condition.is_true => {
                let truth = self.truth(&view.id.uid);
                truth.lowered_at.get_or_insert(now);
                if !runs(view) {
                    truth.clients = Some(truth.clients.map_or(now, |until| until.min(now)));
                }
            }
            Some(_) | None => {
                if let Some(truth) = self.pods.get_mut(&view.id.uid) {
                    truth.lowered_at = None;
                }
            }
        }
        if view.ready()
            && view.in_service().is_some_and(|is| is.is_true)
            && let Some(truth) = self.pods.get_mut(&view.id.uid)
            && truth.replaced.as_ref().is_none_or(|replaced| replaced.is_over(view))
        {
            (truth.out, truth.replaced) = (None, None);
        }
    }

    pub(crate) fn pod_gone(&mut self, view: &PodView) {
        self.pods.remove(&view.id.uid);
    }

    /// An agent has seen the grant, and that it is cancelled.
    pub(crate) fn cancel_seen(&mut self, grant: &Grant) {
        if !self.cancelled.iter().any(|(id, granted)| *id == grant.id && *granted == grant.granted.0) {
            self.cancelled.insert((grant.id.clone(), grant.granted.0));
        }
    }

    /// Whether the pod is out of service, or being replaced, because of us.
    fn is_out(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|truth| truth.out.is_some())
    }

    /// uids of the namespace's pods that are taken by us.
    fn taken<'a>(&'a self, server: &'a Server, places: &'a TransitionLedgerSpec) -> BTreeSet<&'a str> {
        let reserved = places.reservations.keys().map(String::as_str).filter(|uid| server.pods.contains_key(*uid));
        reserved.chain(self.pods.iter().filter(|(_, truth)| truth.out.is_some()).map(|(uid, _)| uid.as_str())).collect()
    }

    /// A ledger is about to be written.
    pub(crate) fn ledger(
        &mut self,
        server: &Server,
        namespace: &str,
        before: &TransitionLedgerSpec,
        after: &TransitionLedgerSpec,
        seen: Option<&Seen>,
    ) {
        if self.off {
            return;
        }
        if after.leader.epoch < before.leader.epoch {
            let (old, new) = (before.leader.epoch, after.leader.epoch);
            self.fail(server.now, format!("the ledger of {namespace} went from epoch {old} back to {new}"));
        }
        let same = |a: &Reservation, b: &Reservation| a.id == b.id && a.since == b.since;
        for uid in before.reservations.keys() {
            let is_there = server.pods.get(uid.as_str()).is_some_and(|pod| !pod.view.terminating);
            if !after.reservations.contains_key(uid) && is_there && self.is_out(uid) {
                let what =
                    format!("the place of pod {uid} was given back while the pod is out of service or being replaced");
                self.fail(server.now, what);
            }
        }
        let is_new =
            |uid: &String, place: &Reservation| !before.reservations.get(uid).is_some_and(|known| same(known, place));
        let added: Vec<&String> =
            after.reservations.iter().filter(|(uid, place)| is_new(uid, place)).map(|(uid, _)| uid).collect();
        if added.is_empty() {
            return;
        }
        for place in added.iter().filter_map(|uid| after.reservations.get(*uid)) {
            self.services.placed.insert((place.id.clone(), place.since.0), server.now);
        }
        let Some(seen) = seen else {
            return self
                .fail(server.now, format!("places in the ledger of {namespace} that no decision stands behind"));
        };
        let mut spending: BTreeSet<&str> = BTreeSet::new();
        for uid in added {
            if let Some((place, revision)) = after.reservations.get(uid).zip(native::update_revision(seen, uid)) {
                self.decided_at.insert((place.id.clone(), place.since.0), revision);
            }
            if let Some(place) = after.reservations.get(uid).filter(|_| seen.is_controlled(uid)) {
                self.services.controlled.insert((place.id.clone(), place.since.0));
            }
            let believed = seen.pods.iter().find(|pod| pod.id.uid == *uid).is_some_and(|pod| pod.available());
            self.truth(uid).free = !believed;
            if believed && server.pods.get(uid.as_str()).is_some_and(|pod| pod.view.available()) {
                spending.insert(uid);
            }
        }
        if spending.is_empty() {
            return;
        }
        let taken = self.taken(server, after);
        if let Err(what) = budget::check(seen, namespace, &taken, &spending) {
            self.fail(server.now, what);
        }
    }

    /// Grants are about to be written.
    pub(crate) fn grants(&mut self, server: &Server, node: &str, epoch: i64, grants: &[Grant]) {
        let known = server.transitions.get(node);
        if let Some(known) = known.filter(|known| known.view.spec.epoch > epoch) {
            let what = format!("the grants of {node} went from epoch {} back to {epoch}", known.view.spec.epoch);
            self.fail(server.now, what);
        }
        for grant in grants {
            let is_known = known.is_some_and(|known| {
                known.view.spec.grants.iter().any(|other| other.id == grant.id && other.granted == grant.granted)
            });
            let place = server
                .ledgers
                .get(grant.pod.namespace.as_str())
                .and_then(|ledger| ledger.spec.reservations.get(&grant.pod.uid));
            let is_there = server.pods.contains_key(grant.pod.uid.as_str());
            if !is_known && is_there && !place.is_some_and(|place| place.id == grant.id && place.since == grant.granted)
            {
                self.fail(server.now, format!("grant {} was written without its place in the ledger", grant.id));
            }
            if !is_known {
                self.begins_under_pause(server, grant);
            }
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
        let free = truth.free;
        (truth.out, truth.replaced) = (Some(operation.id.clone()), None);
        truth.raised = false;
        truth.clients = None;
        if free {
            self.free_place(server, before);
        }
    }

    /// The place of a pod that is taken now rests on its being unavailable.
    fn free_place(&mut self, server: &Server, pod: &PodView) {
        if !pod.available() {
            return;
        }
        let (uid, namespace) = (pod.id.uid.as_str(), pod.id.namespace.as_str());
        let seen = Seen {
            pods: server.pods.values().map(|pod| pod.view.clone()).collect(),
            rules: server.rules.values().cloned().collect(),
            objects: server.objects.values().map(|each| each.view.clone()).collect(),
            services: server.services.values().map(|each| each.view.clone()).collect(),
        };
        let empty = TransitionLedgerSpec::default();
        let places = server.ledgers.get(namespace);
        let taken = self.taken(server, places.map_or(&empty, |ledger| &ledger.spec));
        if let Err(what) = budget::check(&seen, namespace, &taken, &[uid].into()) {
            let name = &pod.id.name;
            self.fail(server.now, format!("the place of pod {name} rests on its being unavailable, but it is: {what}"));
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
        if !operation.forward {
            return;
        }
        self.in_order(server, before, after, operation);
        let node = before.node.as_deref().unwrap_or_default();
        let changed = after.containers.iter().zip(&before.containers).filter(|(new, old)| new.image != old.image);
        for (new, _) in changed {
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
