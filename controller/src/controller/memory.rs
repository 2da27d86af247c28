//! What one process remembers between rounds. None of it is needed to be safe: a new process starts with nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tokio::time::Instant;

use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::Write;
use hitless_rollout::snapshot::{AgentState, Evidence, OperationKey, OwnWrites, Snapshot};

#[derive(Default)]
pub(super) struct Memory {
    agents: BTreeMap<String, AgentState>,
    evidence: BTreeMap<OperationKey, Evidence>,
    own_writes: OwnWrites,
    /// Saves the rounds time.
    pub(super) gate_cache: GateCache,
    /// Since when writes of a later epoch have been seen.
    pub(super) outranked_since: Option<Instant>,
}

impl Memory {
    /// Takes note of which nodes have an agent, and drops evidence of operations that are over.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Timestamp) {
        self.agents = snapshot.agent_states(&self.agents, now);
        let granted = snapshot
            .node_transitions
            .values()
            .flat_map(|node| &node.spec.grants)
            .map(|grant| OperationKey { id: grant.id.clone(), since: grant.granted.0 });
        let reserved = snapshot
            .ledgers
            .values()
            .flat_map(|ledger| ledger.spec.reservations.values())
            .map(|place| OperationKey { id: place.id.clone(), since: place.since.0 });
        let live: BTreeSet<OperationKey> = granted.chain(reserved).collect();
        self.evidence.retain(|operation, _| live.contains(operation));
    }

    pub(super) fn fill(&self, snapshot: &mut Snapshot) {
        snapshot.agents.clone_from(&self.agents);
        snapshot.evidence.clone_from(&self.evidence);
        snapshot.own_writes.clone_from(&self.own_writes);
    }

    /// What was true in one term need not be so in the next.
    pub(super) fn end_of_term(&mut self) {
        self.outranked_since = None;
        self.evidence.clear();
        self.own_writes = OwnWrites::default();
    }

    pub(super) fn prove(&mut self, operation: OperationKey, evidence: Evidence) {
        self.evidence.insert(operation, evidence);
    }

    /// A write was not answered.
    pub(super) fn uncertain(&mut self, write: &Write) {
        write.unanswered(&mut self.own_writes);
    }

    /// A write has succeeded.
    pub(super) fn certain(&mut self, write: &Write) {
        write.succeeded(&mut self.own_writes);
    }
}
