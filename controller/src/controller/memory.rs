//! What one process remembers between rounds. None of it is needed to be safe: a new process starts with nothing.

use std::collections::{BTreeMap, BTreeSet};

use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::reload::{Finds, NamespaceConfig, Uses};
use hitless_rollout::round::Write;
use hitless_rollout::snapshot::{AgentState, Evidence, OperationKey, OwnWrites, Snapshot};
use jiff::Timestamp;

/// What is remembered.
#[derive(Default)]
pub struct Memory {
    agents: BTreeMap<String, AgentState>,
    evidence: BTreeMap<OperationKey, Evidence>,
    own_writes: OwnWrites,
    reloads: Finds,
    /// Epoch of the term in which workloads that are under way were read anew.
    workloads_read: Option<i64>,
    /// Saves the rounds time.
    pub gate_cache: GateCache,
}

impl Memory {
    /// Nothing is remembered yet.
    #[must_use]
    pub fn new(gate_cache: GateCache) -> Self {
        Self { gate_cache, ..Self::default() }
    }

    /// Takes note of which nodes have an agent, and drops evidence of operations that are over.
    pub fn observe(&mut self, snapshot: &Snapshot, now: Timestamp) {
        self.agents = snapshot.agent_states(&self.agents, now);
        if self.evidence.is_empty() {
            return;
        }
        let granted = snapshot.node_transitions.values().flat_map(|node| &node.spec.grants);
        let mut live: BTreeSet<OperationKey> =
            granted.map(|grant| OperationKey { id: grant.id.clone(), since: grant.granted.0 }).collect();
        let reserved = snapshot.ledgers.values().flat_map(|ledger| ledger.spec.reservations.values());
        live.extend(reserved.map(|place| OperationKey { id: place.id.clone(), since: place.since.0 }));
        self.evidence.retain(|operation, _| live.contains(operation));
    }

    /// Adds what is remembered to what is watched.
    pub fn fill(&self, snapshot: &mut Snapshot) {
        snapshot.agents.clone_from(&self.agents);
        snapshot.evidence.clone_from(&self.evidence);
        snapshot.own_writes.clone_from(&self.own_writes);
        snapshot.reloads.clone_from(&self.reloads);
    }

    /// Takes note of what workloads that reload find in these namespaces.
    pub fn find_reloads(&mut self, uses: &Uses<'_>, namespaces: &BTreeMap<String, NamespaceConfig>, now: Timestamp) {
        self.reloads = uses.find(namespaces, &self.reloads, now);
    }

    /// What was true in one term need not be so in the next.
    pub fn end_of_term(&mut self) {
        self.evidence.clear();
        self.own_writes = OwnWrites::default();
        self.reloads.clear();
        self.workloads_read = None;
    }

    /// Whether workloads have still to be read in this term ([`hitless_rollout::round::under_way`]).
    #[must_use]
    pub fn has_to_read_workloads(&self, epoch: i64) -> bool {
        self.workloads_read != Some(epoch)
    }

    /// They were.
    pub fn workloads_read(&mut self, epoch: i64) {
        self.workloads_read = Some(epoch);
    }

    /// A pod was read afresh.
    pub fn prove(&mut self, operation: OperationKey, evidence: Evidence) {
        self.evidence.insert(operation, evidence);
    }

    /// A write was not answered.
    pub fn uncertain(&mut self, write: &Write) {
        write.unanswered(&mut self.own_writes);
    }

    /// The API server does not want a write, in these words.
    pub fn refused(&mut self, write: &Write, words: &str) {
        write.refused(words, &mut self.own_writes);
    }

    /// A write has succeeded.
    pub fn certain(&mut self, write: &Write) {
        write.succeeded(&mut self.own_writes);
    }
}
