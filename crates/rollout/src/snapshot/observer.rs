//! A snapshot of somebody who does not lead.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::Grant;
use jiff::Timestamp;

use super::{Evidence, OperationKey, Snapshot};

impl Snapshot {
    /// The same snapshot for somebody who only looks at `now`: with the epoch and the holder that the ledgers and NodeTransitions name,
    /// with the answers of approvers as the controller has reported them in the status of the rules, and with the state of pools as it
    /// stands in the status of their TrafficProviders.
    ///
    /// A round of it is neither deposed nor takes ledgers over: it decides what the present leader decides. It differs where
    /// the leader knows more: what it has read itself as evidence ([`Self::evidence`]), and which of its writes were not
    /// answered ([`Self::own_writes`]).
    #[must_use]
    pub fn as_observer(mut self, now: Timestamp) -> Self {
        let leaders =
            self.ledgers.values().map(|ledger| (ledger.spec.leader.epoch, ledger.spec.leader.holder.as_str()));
        let nodes = self.node_transitions.values().map(|node| (node.spec.epoch, ""));
        // Of two names of the same epoch, the one that is not empty.
        let (epoch, holder) = leaders.chain(nodes).max().unwrap_or_default();
        (self.epoch, self.holder) = (epoch, holder.to_owned());
        // A leader that has just begun takes ledgers over before it decides anything. This is how they look then.
        for ledger in self.ledgers.values_mut() {
            if let Some(spec) = hitless_gate::take_over(&ledger.spec, epoch, &self.holder) {
                Arc::make_mut(ledger).spec = spec;
            }
        }
        self.evidence = freed(&self);
        self.pools = super::reported::pools(&self);
        self.approvals = super::reported::approvals(&self, now);
        self
    }
}

/// What the leader has read of pods whose operations have ended and have no reservation any more: it frees none before it knows.
fn freed(snapshot: &Snapshot) -> BTreeMap<OperationKey, Evidence> {
    let pods: BTreeMap<&str, bool> = snapshot.pods.iter().map(|pod| (pod.id.uid.as_str(), pod.ready())).collect();
    let ended = snapshot.node_transitions.values().flat_map(|node| {
        node.spec.grants.iter().filter(|grant| node.has_ended(grant) && !snapshot.has_reservation(grant))
    });
    let read = |grant: &Grant| match pods.get(grant.pod.uid.as_str()) {
        Some(true) => Evidence::Ready,
        Some(false) => Evidence::NotReady,
        None => Evidence::Gone,
    };
    ended.map(|grant| (OperationKey::granted(grant), read(grant))).collect()
}
