//! What one process remembers between rounds. None of it is needed to be safe: a new process starts with nothing.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ObjectRef;
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
    term: Term,
    /// Saves the rounds time.
    pub gate_cache: GateCache,
}

/// What was read at the begin of a term: a watch may not have told yet what the leader before has written.
#[derive(Default)]
struct Term {
    epoch: i64,
    /// Workloads that are under way, by uid.
    read: BTreeSet<String>,
    /// Namespaces of which all of these were.
    settled: BTreeSet<String>,
}

impl Memory {
    /// Nothing is remembered yet.
    #[must_use]
    pub fn new(gate_cache: GateCache) -> Self {
        Self { gate_cache, own_writes: OwnWrites::of_new_term(), ..Self::default() }
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
        self.own_writes = OwnWrites::of_new_term();
        self.reloads.clear();
        self.term = Term::default();
    }

    /// Workloads of these namespaces that have still to be read in this term; nothing is decided about their namespaces before.
    /// `under_way` is [`hitless_rollout::round::under_way`], which takes time.
    pub fn to_read<'n>(
        &mut self,
        epoch: i64,
        namespaces: impl IntoIterator<Item = &'n String>,
        under_way: impl FnOnce() -> Vec<ObjectRef>,
    ) -> Vec<ObjectRef> {
        if self.term.epoch != epoch {
            self.term = Term { epoch, ..Term::default() };
        }
        let settled = &mut self.term.settled;
        let new: BTreeSet<String> = namespaces.into_iter().filter(|name| !settled.contains(*name)).cloned().collect();
        if new.is_empty() {
            return Vec::new();
        }
        let mut unread = under_way();
        unread.retain(|workload| new.contains(&workload.namespace) && !self.term.read.contains(&workload.uid));
        let waiting: BTreeSet<&String> = unread.iter().map(|workload| &workload.namespace).collect();
        settled.extend(new.iter().filter(|name| !waiting.contains(name)).cloned());
        unread
    }

    /// It was read in this term, with its namespace's ledger.
    pub fn was_read(&mut self, workload: &ObjectRef) {
        self.term.read.insert(workload.uid.clone());
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
    pub fn refused(&mut self, write: &Write, words: &str, now: Timestamp) {
        write.refused(words, &mut self.own_writes, now);
    }

    /// A write has succeeded.
    pub fn certain(&mut self, write: &Write) {
        write.succeeded(&mut self.own_writes);
    }
}
