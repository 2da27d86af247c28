//! What one process remembers between rounds. None of it is needed to be safe: a new process starts with nothing.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ObjectRef;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::reload::{Finds, NamespaceConfig, Uses};
use hitless_rollout::snapshot::{AgentState, Evidence, OperationKey, OwnWrites, Snapshot};
use hitless_workloads::Write;
use jiff::Timestamp;

/// What is remembered.
#[derive(Default)]
pub struct Memory {
    agents: BTreeMap<String, AgentState>,
    evidence: BTreeMap<OperationKey, Evidence>,
    /// Operations whose agents had reported their end when the round began.
    ended: BTreeSet<OperationKey>,
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

    /// Takes note of which nodes have an agent and which operations have ended, and drops evidence of those that are gone.
    pub fn observe(&mut self, snapshot: &Snapshot, now: Timestamp) {
        self.agents = snapshot.agent_states(&self.agents, now);
        let nodes = snapshot.node_transitions.values();
        let ended = nodes.flat_map(|node| node.spec.grants.iter().filter(|grant| node.has_ended(grant)));
        self.ended = ended.map(OperationKey::granted).collect();
        if self.evidence.is_empty() {
            return;
        }
        let granted = snapshot.node_transitions.values().flat_map(|node| &node.spec.grants);
        let mut live: BTreeSet<OperationKey> = granted.map(OperationKey::granted).collect();
        let reserved = snapshot.ledgers.values().flat_map(|ledger| ledger.spec.reservations.values());
        live.extend(reserved.map(OperationKey::reserved));
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
        self.ended.clear();
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

    /// A pod was read afresh in this round. How a pod is in the middle of its operation says nothing of the operation's end; that the pod is
    /// gone does.
    pub fn prove(&mut self, operation: OperationKey, evidence: Evidence) {
        if evidence == Evidence::Gone || self.ended.contains(&operation) {
            self.evidence.insert(operation, evidence);
        }
    }

    /// A write was not answered.
    pub fn uncertain(&mut self, write: &Write) {
        self.own_writes.unanswered(write);
    }

    /// The API server does not want a write, in these words.
    pub fn refused(&mut self, write: &Write, words: &str, now: Timestamp) {
        self.own_writes.refuse(write, words, now);
    }

    /// A write has succeeded.
    pub fn certain(&mut self, write: &Write) {
        self.own_writes.succeeded(write);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hitless_api::{Grant, NodeTransitionSpec};
    use hitless_rollout::snapshot::{NodeTransitionView, Version};
    use serde_json::{Value, json};

    use super::*;

    /// A pod is drained. `result`: what its agent reports.
    fn draining(result: &Value) -> (Snapshot, OperationKey) {
        let grant = json!({"id": "uid-web.drain", "epoch": 1, "pod": {"namespace": "shop", "name": "web", "uid": "uid-web"},
            "op": "Drain", "mode": "Leave", "containers": {}, "before": {}, "drain": {}, "verify": {},
            "granted": "2026-01-02T00:00:00.000000Z", "ttlSeconds": 60});
        let report = json!([{"id": "uid-web.drain", "granted": "2026-01-02T00:00:00.000000Z", "phase": "Draining",
            "since": "2026-01-02T00:00:00.000000Z", "result": result}]);
        let grant: Grant = serde_json::from_value(grant).unwrap();
        let operation = OperationKey::granted(&grant);
        let view = NodeTransitionView {
            node: "n1".to_owned(),
            version: Version { uid: "t".to_owned(), resource_version: "1".to_owned() },
            fence: None,
            spec: NodeTransitionSpec {
                node_uid: "uid-n1".to_owned(),
                epoch: 1,
                grants: vec![grant],
                propagation: None,
            },
            agent: None,
            transitions: serde_json::from_value(report).unwrap(),
        };
        let node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(view))]);
        (Snapshot { node_transitions, ..Snapshot::default() }, operation)
    }

    #[test]
    fn what_was_read_in_the_middle_of_an_operation_proves_nothing_of_its_end() {
        let read = |result: Value, evidence: Evidence| {
            let (snapshot, operation) = draining(&result);
            let mut memory = Memory::default();
            memory.observe(&snapshot, Timestamp::UNIX_EPOCH);
            memory.prove(operation.clone(), evidence);
            // Its end is reported before the next round.
            let (mut ended, _) = draining(&json!({"outcome": "Done", "reason": "Done"}));
            memory.observe(&ended, Timestamp::UNIX_EPOCH);
            memory.fill(&mut ended);
            ended.evidence.get(&operation).copied()
        };
        let done = json!({"outcome": "Done", "reason": "Done"});
        assert_eq!(read(Value::Null, Evidence::Ready), None);
        assert_eq!(read(Value::Null, Evidence::Gone), Some(Evidence::Gone));
        assert_eq!(read(done, Evidence::Ready), Some(Evidence::Ready));
    }
}
