//! The one fold of a round: what the changes lead to, and the writes that bring it about, with their preconditions and what they
//! need.

mod steps;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::{CLUSTER, LedgerLeader};
use hitless_api::{
    Grant, NodeTransitionSpec, PodRef, PostCheck, Propagation, Reservation, TransitionLedgerSpec, WaitState,
};
use hitless_gate::LedgerError;
use hitless_workloads::Write;
use jiff::Timestamp;

use crate::mode::ServiceView;
use crate::round::change::Change;
use crate::round::write::{Step, service};
use crate::snapshot::{NodeTransitionView, OperationKey, Snapshot};

/// The next content of what a round writes. Phases read it; only changes alter it.
#[derive(Clone)]
pub(crate) struct WritePlan<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) now: Timestamp,
    ledgers: BTreeMap<&'a str, TransitionLedgerSpec>,
    /// Namespaces with a new reservation that needs one in the cluster's ledger too.
    in_cluster: BTreeSet<&'a str>,
    nodes: BTreeMap<&'a str, NodeWrites>,
    /// Operations that hold their pod, or are about to.
    holding: BTreeSet<String>,
    /// Services that must be open, with the operation that needs it.
    open: BTreeMap<(&'a str, &'a str), (&'a ServiceView, String)>,
    /// Writes that nothing in the round rests on.
    others: Vec<Write>,
}

#[derive(Clone, Default)]
struct NodeWrites {
    grants: Vec<Grant>,
    propagation: Option<Propagation>,
    fence: Option<String>,
    /// Namespaces with a grant that was added here: agents must be allowed to operate there.
    added: BTreeSet<String>,
    /// Namespaces with a grant that was added or removed here: their ledgers are written first.
    touched: BTreeSet<String>,
}

impl<'a> WritePlan<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        Self {
            snapshot,
            now,
            ledgers: BTreeMap::new(),
            in_cluster: BTreeSet::new(),
            nodes: BTreeMap::new(),
            holding: BTreeSet::new(),
            open: BTreeMap::new(),
            others: Vec::new(),
        }
    }

    /// As it is after these changes. Those of namespaces that are left out are none: what stands there stays, and counts.
    pub(crate) fn with(mut self, changes: impl IntoIterator<Item = Change<'a>>) -> Self {
        changes.into_iter().for_each(|change| self.apply(change));
        self
    }

    fn apply(&mut self, change: Change<'a>) {
        if change.namespace().is_some_and(|namespace| self.snapshot.leaves_out(namespace)) {
            return;
        }
        match change {
            Change::TakeOver(write) | Change::Write(write) => self.others.push(write),
            Change::Release { namespace, pod_uid, operation } => {
                self.release_in(CLUSTER, pod_uid, &operation);
                self.release_in(namespace, pod_uid, &operation);
            }
            Change::Reserve { pod, reservation, in_cluster } => self.add_reservation(pod, reservation, in_cluster),
            Change::FenceLedger { namespace, fence } => {
                let known = self.ledger(namespace).cloned().unwrap_or_default();
                let spec = TransitionLedgerSpec { leader: self.leader(), fence: Some(fence), ..known };
                self.ledgers.insert(namespace, spec);
            }
            Change::Grant { node, grant } => {
                let writes = self.node(node);
                writes.added.insert(grant.pod.namespace.clone());
                writes.touched.insert(grant.pod.namespace.clone());
                writes.grants.push(*grant);
            }
            Change::RemoveGrant { node, grant } => self.remove_grant(node, grant),
            Change::Cancel { node, grant, cancel } => {
                self.same_grants(node, grant).for_each(|known| known.cancel = Some(cancel.clone()));
            }
            Change::Clock { node, grant, stands, verify } => {
                self.same_grants(node, grant).for_each(|known| (known.stands, known.verify) = (stands.clone(), verify));
            }
            Change::PassPostCheck { node, grant } => {
                self.same_grants(node, grant).for_each(|known| known.post_check = Some(PostCheck::Passed));
            }
            Change::Wait { node, grant, name, before, message } => {
                let waits = self.same_grants(node, grant).flat_map(|known| &mut known.waits);
                for wait in waits.filter(|wait| wait.name == name && wait.before == before) {
                    if let Some(words) = &message {
                        wait.message.clone_from(words);
                    } else {
                        (wait.state, wait.message) = (WaitState::Passed, String::new());
                    }
                }
            }
            Change::FenceNode { node, fence } => self.node(node).fence = Some(fence),
            Change::Hold { operation, services } => {
                for service in services {
                    let at = (service.namespace.as_str(), service.name.as_str());
                    self.open.entry(at).or_insert_with(|| (service, operation.clone()));
                }
                self.holding.insert(operation);
            }
        }
    }

    fn leader(&self) -> LedgerLeader {
        LedgerLeader { epoch: self.snapshot.epoch, holder: self.snapshot.holder.clone() }
    }

    /// The ledger as it will be.
    pub(crate) fn ledger(&self, namespace: &str) -> Option<&TransitionLedgerSpec> {
        self.ledgers.get(namespace).or_else(|| self.snapshot.ledgers.get(namespace).map(|ledger| &ledger.spec))
    }

    pub(crate) fn reservation(&self, namespace: &str, pod_uid: &str) -> Option<&Reservation> {
        self.ledger(namespace)?.reservations.get(pod_uid)
    }

    /// Whether the cluster's ledger has the pod's reservation too, for the same operation.
    pub(crate) fn is_in_both(&self, namespace: &str, pod_uid: &str) -> bool {
        let both = (self.reservation(namespace, pod_uid), self.reservation(CLUSTER, pod_uid));
        matches!(both, (Some(own), Some(wide)) if OperationKey::reserved(own) == OperationKey::reserved(wide))
    }

    fn release_in(&mut self, namespace: &'a str, pod_uid: &str, operation: &OperationKey) {
        let reserved = self.reservation(namespace, pod_uid).map(OperationKey::reserved);
        if reserved.as_ref() == Some(operation) {
            let leader = self.leader();
            let spec = self.ledger_mut(namespace);
            hitless_gate::release(spec, [pod_uid]);
            spec.leader = leader;
        }
    }

    /// The change that reserves the pod, after these ones.
    ///
    /// # Errors
    /// As [`hitless_gate::reserve`].
    pub(crate) fn reserve(
        &self,
        pod: &'a PodRef,
        reservation: Reservation,
        in_cluster: bool,
        after: &[Change<'a>],
    ) -> Result<Change<'a>, LedgerError> {
        let ends = |reserved: &Reservation| {
            let reserved = OperationKey::reserved(reserved);
            after.iter().any(|change| {
                matches!(change, Change::Release { pod_uid, operation, .. } if *pod_uid == pod.uid && *operation == reserved)
            })
        };
        for namespace in [Some(pod.namespace.as_str()), in_cluster.then_some(CLUSTER)].into_iter().flatten() {
            let Some(ledger) = self.ledger(namespace) else { continue };
            match ledger.reservations.get(&pod.uid) {
                Some(known) if ends(known) => hitless_gate::refuse_if_deposed(ledger, self.snapshot.epoch)?,
                _ => hitless_gate::refuse_to_reserve(ledger, &pod.uid, &reservation.id, self.snapshot.epoch)?,
            }
        }
        Ok(Change::Reserve { pod, reservation, in_cluster })
    }

    fn add_reservation(&mut self, pod: &'a PodRef, reservation: Reservation, in_cluster: bool) {
        let namespace = pod.namespace.as_str();
        let name = format!("{namespace}/{}", pod.name);
        let wide = in_cluster.then(|| (CLUSTER, Reservation { pod: name, ..reservation.clone() }));
        let leader = self.leader();
        for (ledger, reservation) in wide.into_iter().chain([(namespace, reservation)]) {
            let reserved =
                hitless_gate::reserve(self.ledger_mut(ledger), vec![(pod.uid.clone(), reservation)], &leader);
            debug_assert!(reserved.is_ok(), "WritePlan::reserve has said that there is room: {reserved:?}");
        }
        if in_cluster {
            self.in_cluster.insert(namespace);
        }
    }

    fn ledger_mut(&mut self, namespace: &'a str) -> &mut TransitionLedgerSpec {
        let known = self.snapshot.ledgers.get(namespace);
        self.ledgers.entry(namespace).or_insert_with(|| known.map(|known| known.spec.clone()).unwrap_or_default())
    }

    /// The grants of a node as they will be.
    pub(crate) fn grants(&self, node: &str) -> &[Grant] {
        self.nodes.get(node).map_or_else(
            || self.snapshot.node_transitions.get(node).map_or(&[] as &[Grant], |known| &known.spec.grants),
            |writes| &writes.grants,
        )
    }

    /// The grants of all nodes as they will be.
    pub(crate) fn every_grant(&self) -> impl Iterator<Item = &Grant> {
        let known = self.snapshot.node_transitions.iter();
        let kept = known.filter(|(node, _)| !self.nodes.contains_key(node.as_str()));
        let drafts = self.nodes.values().flat_map(|writes| &writes.grants);
        kept.flat_map(|(_, known)| &known.spec.grants).chain(drafts)
    }

    pub(crate) fn is_full(&self, node: &str) -> bool {
        self.grants(node).len() >= NodeTransitionSpec::MAX_GRANTS
    }

    /// Whether the node's grants have changed in this round.
    pub(crate) fn is_touched(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|writes| !writes.touched.is_empty())
    }

    /// Whether the Service stays open, or is opened, for an operation that is known to hold its pod.
    pub(crate) fn is_needed(&self, service: &ServiceView, operation: &str) -> bool {
        self.holding.contains(operation) || self.open.contains_key(&(service.namespace.as_str(), service.name.as_str()))
    }

    fn node(&mut self, node: &'a str) -> &mut NodeWrites {
        let known = self.snapshot.node_transitions.get(node);
        self.nodes.entry(node).or_insert_with(|| NodeWrites {
            grants: known.map(|known| known.spec.grants.clone()).unwrap_or_default(),
            propagation: known.and_then(|known| known.spec.propagation.clone()),
            ..NodeWrites::default()
        })
    }

    fn same_grants<'s>(&'s mut self, node: &'a str, grant: &'s Grant) -> impl Iterator<Item = &'s mut Grant> {
        self.node(node).grants.iter_mut().filter(move |known| is_same(known, grant))
    }

    fn remove_grant(&mut self, node: &'a str, grant: &Grant) {
        let learned = self.snapshot.node_transitions.get(node).and_then(|known| propagation(known, grant));
        let writes = self.node(node);
        let before = writes.grants.len();
        writes.grants.retain(|known| !is_same(known, grant));
        if writes.grants.len() == before {
            return;
        }
        writes.touched.insert(grant.pod.namespace.clone());
        if let Some(milliseconds) = learned {
            writes.propagation.get_or_insert_default().add(milliseconds);
        }
    }

    /// The writes: all ledgers first, that of the cluster before those that rely on it; then the RoleBindings that new
    /// grants need; then the NodeTransitions, each only if the ledgers and RoleBindings behind its changes were written; then the Services that are opened, each only if the ledger of its namespace was;
    /// then those on which nothing rests, in the order of their changes.
    pub(crate) fn into_steps(self) -> Vec<Step> {
        let mut writes = Vec::new();
        let ledgers = steps::ledgers(&mut writes, self.snapshot, self.ledgers, &self.in_cluster);
        let bindings = steps::bindings(&mut writes, self.snapshot, &self.nodes, &ledgers);
        steps::nodes(&mut writes, self.snapshot, self.nodes, &ledgers, &bindings);
        let is_theirs = |(service, id): &&(&ServiceView, String)| service.open && service.mark() == Some(id.as_str());
        let opened = self.open.values().filter(|needed| !is_theirs(needed));
        let with_ledger = |(service, id): &(&ServiceView, String)| {
            service::open(service, id).needing(ledgers.get(service.namespace.as_str()).cloned())
        };
        writes.extend(opened.map(with_ledger));
        writes.extend(self.others);
        steps::in_places(writes)
    }
}

/// The same operation has the same id whenever it is granted.
fn is_same(one: &Grant, other: &Grant) -> bool {
    one.id == other.id && one.granted == other.granted
}

/// How long after the pod had left its last new connection came, in milliseconds, if the operation was one that can tell.
fn propagation(node: &NodeTransitionView, grant: &Grant) -> Option<u32> {
    let report = &node.transition(grant)?.result.as_ref()?.report;
    u32::try_from(*report.get(Propagation::REPORTED)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::write::ledger_content;
    use crate::snapshot::{LedgerView, Version};
    use hitless_api::MicroTime;
    use serde_json::json;
    use std::sync::Arc;

    fn reservation(id: &str) -> Reservation {
        let since = MicroTime(Timestamp::UNIX_EPOCH);
        serde_json::from_value(json!({"id": id, "pod": "web", "node": "n1", "since": since, "images": {}})).unwrap()
    }

    fn ledger(
        namespace: &str,
        reservations: impl IntoIterator<Item = (String, Reservation)>,
    ) -> (String, Arc<LedgerView>) {
        let spec = TransitionLedgerSpec {
            reservations: reservations.into_iter().collect(),
            ..TransitionLedgerSpec::default()
        };
        let version = Version { uid: "u".to_owned(), resource_version: "1".to_owned() };
        (namespace.to_owned(), Arc::new(LedgerView { namespace: namespace.to_owned(), version, spec }))
    }

    #[test]
    fn a_reservation_is_transferred_in_one_write_or_not_at_all() {
        let pod = PodRef { namespace: "shop".to_owned(), name: "web".to_owned(), uid: "uid-1".to_owned() };
        let old = reservation("uid-1.old");
        let others = |count: usize| (0..count).map(|number| (format!("other-{number:04}"), reservation("other")));
        let own = ledger("shop", [(pod.uid.clone(), old.clone())]);
        let operation = OperationKey::reserved(&old);
        let release = || vec![Change::Release { namespace: "shop", pod_uid: "uid-1", operation: operation.clone() }];

        let room = Snapshot { ledgers: [own.clone(), ledger(CLUSTER, others(3))].into(), ..Snapshot::default() };
        let writes = WritePlan::new(&room, Timestamp::UNIX_EPOCH);
        let new = || reservation("uid-1.new");
        assert!(matches!(writes.reserve(&pod, new(), true, &[]), Err(LedgerError::Taken { .. })), "it has its old one");
        let reserve = writes.reserve(&pod, new(), true, &release()).unwrap();
        let steps = writes.with(release()).with([reserve]).into_steps();
        let keys: Vec<String> = steps.iter().map(|step| step.write.key()).collect();
        assert_eq!(keys, ["ledger/", "ledger/shop"]);
        let spec = ledger_content(&steps[1].write).unwrap();
        assert_eq!((spec.reservations["uid-1"].id.as_str(), &steps[1].needs), ("uid-1.new", &vec![0]));

        let full = others(TransitionLedgerSpec::MAX_RESERVATIONS);
        let full = Snapshot { ledgers: [own, ledger(CLUSTER, full)].into(), ..Snapshot::default() };
        let writes = WritePlan::new(&full, Timestamp::UNIX_EPOCH);
        let refused = writes.reserve(&pod, new(), true, &release());
        assert!(matches!(refused, Err(LedgerError::LedgerFull { .. })), "nothing is released then");
    }
}
