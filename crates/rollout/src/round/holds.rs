//! Pods that are held, and their Services (CONTRACT 5): one that has no other endpoint is opened before the grant, seen open, and
//! closed when the operation has ended. All of it follows from what stands in Services, grants and ledgers; a leader that comes
//! later goes on where this one stopped.

use std::collections::{BTreeMap, BTreeSet};

use crate::mode::{Presence, ServiceView, Traffic};
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, Reservation};
use jiff::{SignedDuration, Timestamp};

use super::completion::{self, Ended};
use super::draft::Draft;
use super::intents::Wishes;
use super::write::{EndedHold, ServiceWrite, Step, Write};
use crate::snapshot::{Evidence, Snapshot};

/// A pod has been Ready for so long before its Service is closed: those who make its endpoints may see the pod later than we do.
const READY_FOR: SignedDuration = SignedDuration::from_secs(1);
/// A pod that does not become Ready after its operation keeps its Service open for so long.
const NOT_READY_FOR: SignedDuration = SignedDuration::from_secs(10);

pub(super) struct Holds<'a> {
    snapshot: &'a Snapshot,
    pub(super) traffic: Traffic<'a>,
    registered: Registered<'a>,
}

/// Who holds, and what that needs.
#[derive(Clone, Default)]
pub(super) struct Registered<'a> {
    /// Operations that hold their pod, or are about to.
    live: BTreeSet<String>,
    /// Services that must be open, with the operation that needs it.
    needed: BTreeMap<(&'a str, &'a str), (&'a ServiceView, String)>,
}

impl<'a> Holds<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let traffic = Traffic::new(&snapshot.services, &snapshot.pods);
        Self { snapshot, traffic, registered: Registered::default() }
    }

    /// What has been registered until now.
    pub(super) fn registered(&self) -> Registered<'a> {
        self.registered.clone()
    }

    /// Forgets what was registered since then.
    pub(super) fn restore(&mut self, registered: Registered<'a>) {
        self.registered = registered;
    }

    /// The operation holds its pod, or is about to, and needs these Services open.
    pub(super) fn hold(&mut self, id: &str, services: &[&'a ServiceView]) {
        self.registered.live.insert(id.to_owned());
        for service in services.iter().copied() {
            let at = (service.namespace.as_str(), service.name.as_str());
            self.registered.needed.entry(at).or_insert_with(|| (service, id.to_owned()));
        }
    }

    /// Operations that are under way: their Services stay open, and are opened again if somebody has replaced them meanwhile.
    pub(super) fn keep(&mut self, wishes: &Wishes<'a>, ended: &Ended<'a>) {
        let presence = |pod: &PodView| Presence::of(pod, ended.is_taken(&pod.id.uid));
        for grant in self.snapshot.node_transitions.values().flat_map(|node| node.unfinished()) {
            if grant.mode != GrantMode::Hold {
                continue;
            }
            let Some(pod) = wishes.pods.get(grant.pod.uid.as_str()).copied() else {
                // Not seen is not gone: somebody who has begun a moment ago knows the grant before the pod.
                if self.snapshot.evidence.get(&completion::key(grant)) != Some(&Evidence::Gone) {
                    self.registered.live.insert(grant.id.clone());
                }
                continue;
            };
            if pod.terminating {
                continue;
            }
            let mut services = Vec::new();
            for service in self.traffic.selecting(pod) {
                // Somebody has closed it on purpose, and kept our mark: he would do it again.
                let is_wanted = service.open || service.mark() != Some(grant.id.as_str());
                if is_wanted && self.traffic.must_be_open(service, pod, &presence) {
                    services.push(service);
                }
            }
            self.hold(&grant.id, &services);
        }
    }

    /// The writes, after `earlier` ones, and when to look again.
    pub(super) fn steps(
        &self,
        wishes: &Wishes<'_>,
        earlier: &[Step],
        now: Timestamp,
    ) -> (Vec<Step>, Option<Timestamp>) {
        let (mut steps, mut wake_at) = (Vec::new(), None);
        let is_theirs = |(service, id): &&(&ServiceView, String)| service.open && service.mark() == Some(id.as_str());
        for (service, id) in self.registered.needed.values().filter(|needed| !is_theirs(needed)) {
            let is_ledger =
                |step: &Step| matches!(&step.write, Write::Ledger(write) if write.namespace == service.namespace);
            let needs = earlier.iter().position(is_ledger).into_iter().collect();
            steps.push(Step { write: Write::Service(ServiceWrite::open(service, id)), needs, done: None });
        }
        for service in self.snapshot.services.iter().map(|service| &**service) {
            let Some(id) = service.mark() else { continue };
            if self.registered.live.contains(id)
                || self.registered.needed.contains_key(&(service.namespace.as_str(), service.name.as_str()))
                || self.may_be_live(service, id, wishes)
            {
                continue;
            }
            let due = self.closes_at(id, wishes, now);
            if due > now {
                wake_at = [wake_at, Some(due)].into_iter().flatten().min();
            } else {
                let place = self.place(service, id).map(|place| place.since.0);
                let ended = EndedHold { id: id.to_owned(), place };
                steps.push(Step::alone(Write::Service(ServiceWrite::close(service).after(ended))));
            }
        }
        (steps, wake_at)
    }

    /// The operation has its place, and nobody has said how it ended: it may have a grant that is not seen yet.
    fn may_be_live(&self, service: &ServiceView, id: &str, wishes: &Wishes<'_>) -> bool {
        let Some(uid) = Grant::pod_uid_of(id) else { return false };
        // One that is gone gives its place back.
        if wishes.pods.get(uid).is_some_and(|pod| pod.terminating) {
            return false;
        }
        let Some(place) = self.place(service, id) else { return false };
        let mut reports =
            self.snapshot.node_transitions.get(&place.node).into_iter().flat_map(|node| &node.transitions);
        !reports.any(|report| report.id == id && report.granted == place.since && report.result.is_some())
    }

    /// The place of the operation that the Service was opened for.
    fn place(&self, service: &ServiceView, id: &str) -> Option<&'a Reservation> {
        let ledger = self.snapshot.ledgers.get(&service.namespace)?;
        ledger.spec.reservations.get(Grant::pod_uid_of(id)?).filter(|place| place.id == id)
    }

    /// When the Service is closed that was opened for this operation, which has ended.
    fn closes_at(&self, id: &str, wishes: &Wishes<'_>, now: Timestamp) -> Timestamp {
        let uid = Grant::pod_uid_of(id).unwrap_or(id);
        // What comes in its place must not get connections before it is Ready.
        let Some(pod) = wishes.pods.get(uid).filter(|pod| !pod.terminating) else { return now };
        let (since, pause) = if pod.ready() {
            (pod.conditions.get("Ready").and_then(|ready| ready.since), READY_FOR)
        } else {
            let mut reports = self.snapshot.node_transitions.values().flat_map(|node| &node.transitions);
            (reports.find(|report| report.id == id).map(|report| report.since.0), NOT_READY_FOR)
        };
        since.and_then(|since| since.saturating_add(pause).ok()).unwrap_or(now)
    }
}

/// How the pod is now: it may have been granted in this very round.
pub(super) fn presence(pod: &PodView, draft: &Draft<'_>, ended: &Ended<'_>) -> Presence {
    let taken = draft.reservation(&pod.id.namespace, &pod.id.uid).is_some() || ended.is_taken(&pod.id.uid);
    Presence::of(pod, taken)
}
