//! The next content of ledgers and NodeTransitions, while a round works on them.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::{CLUSTER, LedgerLeader};
use hitless_api::{Grant, NodeTransitionSpec, PodRef, Propagation, Reservation, TransitionLedgerSpec};
use hitless_gate::LedgerError;
use jiff::Timestamp;

use super::write::{LedgerWrite, NodeTransitionWrite, Step, Write};
use crate::snapshot::{NodeTransitionView, Snapshot};

#[derive(Clone)]
pub(super) struct Draft<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) now: Timestamp,
    ledgers: BTreeMap<&'a str, TransitionLedgerSpec>,
    /// Namespaces with a new place that needs one in the cluster's ledger too.
    wide: BTreeSet<&'a str>,
    nodes: BTreeMap<&'a str, NodeDraft>,
}

#[derive(Clone, Default)]
struct NodeDraft {
    grants: Vec<Grant>,
    propagation: Option<Propagation>,
    fence: Option<String>,
    /// Namespaces with a grant that was added here: agents must be allowed to operate there.
    added: BTreeSet<String>,
    /// Namespaces with a grant that was added or removed here: their ledgers are written first.
    touched: BTreeSet<String>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        Self { snapshot, now, ledgers: BTreeMap::new(), wide: BTreeSet::new(), nodes: BTreeMap::new() }
    }

    pub(super) fn leader(&self) -> LedgerLeader {
        LedgerLeader { epoch: self.snapshot.epoch, holder: self.snapshot.holder.clone() }
    }

    /// The ledger as it will be.
    pub(super) fn ledger(&self, namespace: &str) -> Option<&TransitionLedgerSpec> {
        self.ledgers.get(namespace).or_else(|| self.snapshot.ledgers.get(namespace).map(|ledger| &ledger.spec))
    }

    pub(super) fn reservation(&self, namespace: &str, pod_uid: &str) -> Option<&Reservation> {
        self.ledger(namespace)?.reservations.get(pod_uid)
    }

    /// Gives a pod's place back, in the cluster's ledger too. The caller has the evidence.
    pub(super) fn release(&mut self, namespace: &'a str, pod_uid: &str) {
        if self.is_in_both(namespace, pod_uid) {
            self.release_in(CLUSTER, pod_uid);
        }
        self.release_in(namespace, pod_uid);
    }

    /// Whether the cluster's ledger has the pod's place too, for the same operation.
    pub(super) fn is_in_both(&self, namespace: &str, pod_uid: &str) -> bool {
        let places = (self.reservation(namespace, pod_uid), self.reservation(CLUSTER, pod_uid));
        matches!(places, (Some(own), Some(wide)) if own.id == wide.id && own.since == wide.since)
    }

    pub(super) fn release_in(&mut self, namespace: &'a str, pod_uid: &str) {
        if self.ledger(namespace).is_some() {
            let leader = self.leader();
            let spec = self.ledger_mut(namespace);
            hitless_gate::release(spec, [pod_uid]);
            spec.leader = leader;
        }
    }

    /// Takes a pod's place in the ledger of its namespace and, where `wide`, in that of the whole cluster, which is written first.
    ///
    /// # Errors
    /// As [`hitless_gate::reserve`]; then no ledger is changed.
    pub(super) fn reserve(&mut self, pod: &'a PodRef, reservation: Reservation, wide: bool) -> Result<(), LedgerError> {
        let (leader, namespace) = (self.leader(), pod.namespace.as_str());
        let in_cluster = || Reservation { pod: format!("{namespace}/{}", pod.name), ..reservation.clone() };
        let in_cluster = wide.then(in_cluster);
        hitless_gate::reserve(self.ledger_mut(namespace), vec![(pod.uid.clone(), reservation)], &leader)?;
        if let Some(place) = in_cluster {
            let taken = hitless_gate::reserve(self.ledger_mut(CLUSTER), vec![(pod.uid.clone(), place)], &leader);
            if let Err(error) = taken {
                self.release_in(namespace, &pod.uid);
                return Err(error);
            }
            self.wide.insert(namespace);
        }
        Ok(())
    }

    fn ledger_mut(&mut self, namespace: &'a str) -> &mut TransitionLedgerSpec {
        let known = self.snapshot.ledgers.get(namespace);
        self.ledgers.entry(namespace).or_insert_with(|| known.map(|known| known.spec.clone()).unwrap_or_default())
    }

    /// Rewrites a namespace's ledger, so that nothing that was prepared on an older version of it arrives any more.
    pub(super) fn fence_ledger(&mut self, namespace: &'a str, fence: String) {
        let known = self.ledger(namespace).cloned().unwrap_or_default();
        let spec = TransitionLedgerSpec { leader: self.leader(), fence: Some(fence), ..known };
        self.ledgers.insert(namespace, spec);
    }

    /// The grants of a node as they will be.
    pub(super) fn grants(&self, node: &str) -> &[Grant] {
        self.nodes.get(node).map_or_else(
            || self.snapshot.node_transitions.get(node).map_or(&[] as &[Grant], |known| &known.spec.grants),
            |draft| &draft.grants,
        )
    }

    pub(super) fn is_full(&self, node: &str) -> bool {
        self.grants(node).len() >= NodeTransitionSpec::MAX_GRANTS
    }

    /// Whether the node's grants have changed in this round.
    pub(super) fn is_touched(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|draft| !draft.touched.is_empty())
    }

    fn node(&mut self, node: &'a str) -> &mut NodeDraft {
        let known = self.snapshot.node_transitions.get(node);
        self.nodes.entry(node).or_insert_with(|| NodeDraft {
            grants: known.map(|known| known.spec.grants.clone()).unwrap_or_default(),
            propagation: known.and_then(|known| known.spec.propagation.clone()),
            ..NodeDraft::default()
        })
    }

    /// What the operation has taught goes with its grant into the same write, so that it counts once.
    pub(super) fn remove_grant(&mut self, node: &'a str, grant: &Grant) {
        let learned = self.snapshot.node_transitions.get(node).and_then(|known| propagation(known, grant));
        let draft = self.node(node);
        let before = draft.grants.len();
        draft.grants.retain(|known| !is_same(known, grant));
        if draft.grants.len() == before {
            return;
        }
        draft.touched.insert(grant.pod.namespace.clone());
        if let Some(milliseconds) = learned {
            draft.propagation.get_or_insert_default().add(milliseconds);
        }
    }

    pub(super) fn add_grant(&mut self, node: &'a str, grant: Grant) {
        let draft = self.node(node);
        draft.added.insert(grant.pod.namespace.clone());
        draft.touched.insert(grant.pod.namespace.clone());
        draft.grants.push(grant);
    }

    pub(super) fn cancel_grant(&mut self, node: &'a str, grant: &Grant, cancel: &hitless_api::Cancel) {
        for known in self.node(node).grants.iter_mut().filter(|known| is_same(known, grant)) {
            known.cancel = Some(cancel.clone());
        }
    }

    pub(super) fn pass_post_check(&mut self, node: &'a str, grant: &Grant) {
        for known in self.node(node).grants.iter_mut().filter(|known| is_same(known, grant)) {
            known.post_check = Some(hitless_api::PostCheck::Passed);
        }
    }

    pub(super) fn fence(&mut self, node: &'a str, fence: String) {
        self.node(node).fence = Some(fence);
    }

    /// The writes: all ledgers first, that of the cluster before those that rely on it, then the NodeTransitions, each only if the
    /// ledgers behind its changes were written.
    pub(super) fn into_steps(self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut ledger_steps = BTreeMap::new();
        // The cluster's comes first: it has the empty name.
        for (namespace, spec) in self.ledgers {
            let known = self.snapshot.ledgers.get(namespace);
            let same = |known: &TransitionLedgerSpec| known.reservations == spec.reservations && spec.fence.is_none();
            if known.map_or(spec.reservations.is_empty() && spec.fence.is_none(), |known| same(&known.spec)) {
                continue;
            }
            let needs = self.wide.contains(namespace).then(|| ledger_steps.get(CLUSTER).copied()).flatten();
            ledger_steps.insert(namespace, steps.len());
            let version = known.map(|known| known.version.clone());
            let write = Write::Ledger(LedgerWrite { namespace: namespace.to_owned(), version, spec });
            steps.push(Step { write, needs: needs.into_iter().collect(), done: None });
        }
        for (node, draft) in self.nodes {
            let known = self.snapshot.node_transitions.get(node);
            if draft.fence.is_none() && known.is_some_and(|known| known.spec.grants == draft.grants) {
                continue;
            }
            // Without the Node nobody could act on it, and it would be collected at once.
            let own = || self.snapshot.nodes.get(node).map(|node| node.uid.clone());
            let unknown = || self.snapshot.unknown.nodes.then(String::new);
            let Some(node_uid) = known.map(|known| known.spec.node_uid.clone()).or_else(own).or_else(unknown) else {
                continue;
            };
            let needs =
                draft.touched.iter().filter_map(|namespace| ledger_steps.get(namespace.as_str()).copied()).collect();
            let write = Write::NodeTransition(NodeTransitionWrite {
                node: node.to_owned(),
                version: known.map(|known| known.version.clone()),
                spec: NodeTransitionSpec {
                    node_uid,
                    epoch: self.snapshot.epoch,
                    grants: draft.grants,
                    propagation: draft.propagation,
                },
                fence: draft.fence,
                namespaces: draft.added,
            });
            steps.push(Step { write, needs, done: None });
        }
        steps
    }
}

/// The same wish has the same id whenever it is granted.
fn is_same(one: &Grant, other: &Grant) -> bool {
    one.id == other.id && one.granted == other.granted
}

/// How long after the pod had left its last new connection came, in milliseconds, if the operation was one that can tell.
fn propagation(node: &NodeTransitionView, grant: &Grant) -> Option<u32> {
    let report = &node.transition(grant)?.result.as_ref()?.report;
    u32::try_from(*report.get(Propagation::REPORTED)?).ok()
}
