//! A controller in miniature: the real round, on caches that may be old.

use hitless_controller::controller::memory::Memory;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::round;
use hitless_rollout::round::write::ledger_of;
use hitless_rollout::snapshot::{Evidence, Snapshot};
use hitless_workloads::Write;

use crate::cluster::{Cluster, view};

/// Kinds whose watch events arrive in [`TestController::refresh`].
pub(crate) const PODS: u8 = 1;
pub(crate) const TRANSITIONS: u8 = 2;
pub(crate) const LEDGERS: u8 = 4;
const OTHERS: u8 = 8;
pub(crate) const ALL: u8 = 15;

/// A controller that believes to lead.
pub(crate) struct TestController {
    epoch: i64,
    cache: Snapshot,
    memory: Memory,
    /// Writes that were sent and not answered.
    pub(crate) in_flight: Vec<Write>,
}

/// What happens to the writes of a turn. RoleBindings are not counted: they belong to what comes after them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writing {
    All,
    /// Killed after so many.
    Killed(usize),
    /// The one with this number is not answered; it may arrive later.
    Unanswered(usize),
}

impl TestController {
    pub(crate) fn new(epoch: i64, cluster: &Cluster) -> Self {
        Self { epoch, cache: cluster.snapshot(), memory: Memory::default(), in_flight: Vec::new() }
    }

    /// Watch events of some kinds arrive; the others stay old.
    pub(crate) fn refresh(&mut self, cluster: &Cluster, kinds: u8) {
        let now = cluster.snapshot();
        if kinds & PODS != 0 {
            (self.cache.pods, self.cache.companions) = (now.pods, now.companions);
        }
        if kinds & TRANSITIONS != 0 {
            self.cache.node_transitions = now.node_transitions;
        }
        if kinds & LEDGERS != 0 {
            self.cache.ledgers = now.ledgers;
        }
        if kinds & OTHERS != 0 {
            self.cache.objects = now.objects;
            (self.cache.rules, self.cache.agents, self.cache.nodes) = (now.rules, now.agents, now.nodes);
            (self.cache.budgets, self.cache.services) = (now.budgets, now.services);
            (self.cache.prefetches, self.cache.bindings) = (now.prefetches, now.bindings);
        }
    }

    /// What a decision on what is in the caches says of each pod, by the reason's name; `granted` for those that go.
    pub(crate) fn said(&mut self, now: jiff::Timestamp) -> Vec<(&'static str, String)> {
        let mut snapshot = Snapshot { epoch: self.epoch, ..self.cache.clone() };
        self.memory.fill(&mut snapshot);
        snapshot.agents.clone_from(&self.cache.agents);
        let verdicts = round(&snapshot, &mut GateCache::default(), now).verdicts;
        let said = verdicts.iter().map(|verdict| {
            (verdict.waiting.as_ref().map_or("granted", |waiting| waiting.reason()), verdict.text().unwrap_or_default())
        });
        said.collect()
    }

    /// The API server does not want what would be written next, in these words.
    pub(crate) fn refused(&mut self, cluster: &Cluster, words: &str) {
        let mut snapshot = Snapshot { epoch: self.epoch, ..self.cache.clone() };
        snapshot.agents.clone_from(&self.cache.agents);
        let steps = round(&snapshot, &mut GateCache::default(), cluster.now).steps;
        for step in &steps {
            self.memory.refused(&step.write, words, cluster.now);
        }
    }

    /// Turns so many milliseconds apart, on fresh caches; Kubernetes' own controllers act after each.
    pub(crate) fn turns(&mut self, cluster: &mut Cluster, count: usize, milliseconds: i64) {
        for _ in 0..count {
            cluster.pass(milliseconds);
            self.refresh(cluster, ALL);
            let _ = self.turn(cluster, Writing::All);
            cluster.controllers();
        }
    }

    /// One turn on what is in the caches; says whether anything was done.
    pub(crate) fn turn(&mut self, cluster: &mut Cluster, writing: Writing) -> bool {
        self.memory.observe(&self.cache, cluster.now);
        let mut snapshot =
            Snapshot { epoch: self.epoch, holder: format!("controller-{}", self.epoch), ..self.cache.clone() };
        self.memory.fill(&mut snapshot);
        // Stories say which nodes have an agent; there are no pods of agents.
        snapshot.agents.clone_from(&self.cache.agents);
        let anew = round(&snapshot, &mut GateCache::default(), cluster.now);
        let round = round(&snapshot, &mut self.memory.gate_cache, cluster.now);
        assert_eq!(
            (&round.steps, &round.verdicts),
            (&anew.steps, &anew.verdicts),
            "what a cache has seen changes nothing"
        );
        let mut acted = !round.reads.is_empty();
        for read in &round.reads {
            let evidence = match cluster.pods.get(&read.pod.uid).map(view) {
                None => Evidence::Gone,
                Some(pod) if pod.ready() => Evidence::Ready,
                Some(_) => Evidence::NotReady,
            };
            self.memory.prove(read.operation.clone(), evidence);
            // The answer of a read goes into the cache, as that of a write does.
            let fresh = cluster.pods.get(&read.pod.uid).map(|pod| std::sync::Arc::new(view(pod)));
            self.cache.pods.retain(|pod| pod.id.uid != read.pod.uid);
            self.cache.pods.extend(fresh);
        }
        let mut succeeded = Vec::new();
        let mut counted = 0;
        for step in &round.steps {
            let index = counted;
            if matches!(writing, Writing::Killed(after) if index >= after) {
                break;
            }
            let is_binding = step.write.verb == "role-binding";
            counted += usize::from(!is_binding);
            let ready = step.needs.iter().all(|needed| succeeded.get(*needed) == Some(&true));
            if ready && !is_binding && matches!(writing, Writing::Unanswered(which) if which == index) {
                self.memory.uncertain(&step.write);
                self.in_flight.push(step.write.clone());
                succeeded.push(false);
                continue;
            }
            let done = ready && cluster.write(&step.write);
            acted |= done;
            succeeded.push(done);
            if done {
                self.remember(cluster, &step.write);
            }
        }
        acted
    }

    /// An own write shows at once.
    fn remember(&mut self, cluster: &Cluster, write: &Write) {
        self.memory.certain(write);
        let now = cluster.snapshot();
        match &*write.on.group_kind.kind {
            "TransitionLedger" => {
                let ledger = ledger_of(write).and_then(|namespace| now.ledgers.get_key_value(namespace));
                self.cache.ledgers.extend(ledger.map(|(namespace, ledger)| (namespace.clone(), ledger.clone())));
            }
            "NodeTransition" => {
                let node = now.node_transitions[&write.on.name].clone();
                self.cache.node_transitions.insert(write.on.name.clone(), node);
            }
            "Pod" if write.verb == "prefetch" => self.cache.prefetches = now.prefetches,
            "Pod" if write.verb == "companion" => (self.cache.pods, self.cache.companions) = (now.pods, now.companions),
            "Pod" if write.verb != "in-service-fallback" => self.cache.pods = now.pods,
            "PodTransitionRule" => self.cache.rules = now.rules,
            "Service" => self.cache.services = now.services,
            "RoleBinding" => self.cache.bindings = now.bindings,
            "Pod" | "TrafficProvider" => {}
            _ => self.cache.objects = now.objects,
        }
    }

    /// A write that was sent earlier arrives now.
    pub(crate) fn arrive(&mut self, cluster: &mut Cluster) {
        if !self.in_flight.is_empty() {
            let write = self.in_flight.remove(0);
            let _ = cluster.write(&write);
        }
    }
}
