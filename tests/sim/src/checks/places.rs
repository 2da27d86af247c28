//! Checks places in ledgers, and the grants that rest on them.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;
use hitless_api::{Grant, Reservation, TransitionLedgerSpec};

use super::{Checks, Seen, budget, native};
use crate::server::Server;

impl Checks {
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
        if let Some(what) = self.too_many_anew(server, after, seen) {
            self.fail(server.now, what);
        }
        for place in added.iter().filter_map(|uid| after.reservations.get(*uid)) {
            self.services.placed.insert((place.id.clone(), place.since.0), server.now);
        }
        let Some(seen) = seen else {
            return self
                .fail(server.now, format!("places in the ledger of {namespace} that no decision stands behind"));
        };
        let (mut spending, mut unavailable): (BTreeSet<&str>, Vec<&str>) = (BTreeSet::new(), Vec::new());
        for uid in added {
            if let Some((place, revision)) = after.reservations.get(uid).zip(native::update_revision(seen, uid)) {
                self.decided_at.insert((place.id.clone(), place.since.0), revision);
            }
            if let Some(place) = after.reservations.get(uid).filter(|_| seen.is_controlled(uid)) {
                self.services.controlled.insert((place.id.clone(), place.since.0));
            }
            let believed = seen.pods.iter().find(|pod| pod.id.uid == *uid).is_some_and(|pod| pod.available());
            if !believed {
                unavailable.push(uid);
            }
            let truth = self.truth(uid);
            (truth.free, truth.had_room) = (!believed, believed);
            truth.bound = budget::bound(seen, namespace, uid);
            // Between two versions it spends nothing: its place was never free.
            truth.between = before.reservations.contains_key(uid) && truth.out.is_some();
            if believed && server.pods.get(uid.as_str()).is_some_and(|pod| pod.view.available()) {
                spending.insert(uid);
            }
        }
        if spending.is_empty() && unavailable.is_empty() {
            return;
        }
        let taken = self.taken(server, after);
        // A pod for which there was room, had it been available, keeps its place when it is.
        unavailable.retain(|uid| budget::check(seen, namespace, &taken, &[*uid].into()).is_ok());
        let checked = budget::check(seen, namespace, &taken, &spending);
        for uid in unavailable {
            self.truth(uid).had_room = true;
        }
        if let Err(what) = checked {
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

    /// The place of a pod that is taken now rests on its being unavailable.
    pub(super) fn free_place(&mut self, server: &Server, pod: &PodView) {
        if !pod.available() {
            return;
        }
        let (uid, namespace) = (pod.id.uid.as_str(), pod.id.namespace.as_str());
        let seen = Seen {
            pods: server.pods.values().map(|pod| pod.view.clone()).collect(),
            rules: server.rules.values().cloned().collect(),
            objects: server.objects.values().map(|each| each.view.clone()).collect(),
            services: server.services.values().map(|each| each.view.clone()).collect(),
            lost: Seen::lost(
                server.pods.values().map(|pod| &pod.view),
                server.nodes.values().map(|node| &**node),
                server.stamp(),
            ),
        };
        let empty = TransitionLedgerSpec::default();
        let places = server.ledgers.get(namespace);
        let taken = self.taken(server, places.map_or(&empty, |ledger| &ledger.spec));
        if let Err(what) = budget::check(&seen, namespace, &taken, &[uid].into()) {
            let name = &pod.id.name;
            self.fail(server.now, format!("the place of pod {name} rests on its being unavailable, but it is: {what}"));
        }
    }
}
