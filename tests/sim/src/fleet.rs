//! A fleet: 150,000 pods on 5,000 nodes, all of them to get another image.
//!
//! The controller's rounds are the real ones. The agents are stand-ins that follow the protocol and take a fixed time for each
//! operation, nothing fails, and news arrive at once: what is measured is how the protocol scales, not what it survives.

mod agents;
mod pod_set;
mod report;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use hitless_api::{Grant, MicroTime};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{Round, Step};
use hitless_rollout::snapshot::{Evidence, Snapshot};
use hitless_workloads::registry;
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::clock::{Micros, NEVER, SECOND, when};
use crate::decide;
use crate::server::{Answer, Request, Server, WorkloadObject};
use crate::watch::Key;

pub use pod_set::{Phases, PodSet};
pub use report::Report;
use setup::run;

/// How large the fleet is, and how quick.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Nodes.
    pub nodes: usize,
    /// Namespaces, each with one rule that lets a share of its pods be unavailable.
    pub namespaces: usize,
    /// Deployments in each namespace.
    pub deployments: usize,
    /// Pods of each Deployment.
    pub replicas: i32,
    /// That share, in percent.
    pub percent: u32,
    /// Seconds that an agent takes for one operation.
    pub operation_seconds: i64,
    /// Seconds from one decision of the controller to the next.
    pub decision_seconds: i64,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            nodes: 5_000,
            namespaces: 50,
            deployments: 10,
            replicas: 300,
            percent: 10,
            operation_seconds: 20,
            decision_seconds: 1,
        }
    }
}

struct World {
    fleet: Fleet,
    server: Server,
    checks: Checks,
    snapshot: Snapshot,
    /// Operations under way, by when they end.
    running: BTreeMap<Micros, Vec<(Key, Grant)>>,
    begun: BTreeSet<(String, MicroTime)>,
    /// When to decide again even without news.
    again: Micros,
    report: Report,
}

impl Fleet {
    /// Gives every pod another image.
    #[must_use]
    pub fn roll(self) -> Report {
        let mut world = World::new(self);
        world.set_images();
        let mut mirror = GateCache::default();
        let (step, limit) = (self.decision_seconds * SECOND, 3_600 * SECOND);
        while world.server.now < limit && !world.is_finished() {
            let before: u64 = world.server.written.values().sum();
            world.agents();
            // Without news a controller does not decide.
            if !world.server.outbox.is_empty() || world.again <= world.server.now {
                world.controller(&mut mirror);
                world.begin();
            }
            world.server.outbox.clear();
            let after: u64 = world.server.written.values().sum();
            world.report.peak =
                world.report.peak.max((after - before) / u64::try_from(self.decision_seconds).unwrap_or(1));
            world.server.now += step;
        }
        world.report.stuck = !world.is_finished();
        world.report.seconds = world.server.now / SECOND;
        world.report.writes = std::mem::take(&mut world.server.written);
        world.report.floor_seconds = i64::from(100_u32.div_ceil(self.percent.max(1))) * self.operation_seconds;
        world.report
    }
}

impl World {
    /// `kubectl set image` on all Deployments, and the guard's hold.
    fn set_images(&mut self) {
        let all: Vec<WorkloadObject> = self.server.objects_of("Deployment").cloned().collect();
        for known in all {
            let mut next = Value::clone(&known.json);
            next["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("{}:v2", known.view.id.name));
            if let Some(kind) = registry::of_workload(&known.view.id.group_kind) {
                self.server.change_object(&known.key(), |object| *object = kind.held(next));
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.running.is_empty() && self.server.objects_of("Deployment").all(|each| !each.view.held_by_guard())
    }

    /// One decision, and its writes.
    fn controller(&mut self, mirror: &mut GateCache) {
        let server = &self.server;
        self.snapshot.objects = server.objects.values().map(|each| each.view.clone()).collect();
        self.snapshot.pods = server.pods.values().map(|pod| pod.view.clone()).collect();
        let transitions = server.transitions.iter().map(|(node, each)| (node.to_string(), each.view.clone()));
        self.snapshot.node_transitions = transitions.collect();
        self.snapshot.ledgers = server.ledgers.iter().map(|(name, each)| (name.to_string(), each.clone())).collect();
        self.snapshot.bindings.clone_from(&server.bindings);
        self.snapshot.rules = server.rules.values().cloned().collect();
        let begin = Instant::now();
        let round: Round = decide::round(&self.snapshot, mirror, server.stamp());
        let took = begin.elapsed().as_millis();
        self.report.rounds += 1;
        let (all, longest) = self.report.decided_milliseconds;
        self.report.decided_milliseconds = (all + took, longest.max(took));
        for read in &round.reads {
            let found = self.server.pods.get(read.pod.uid.as_str());
            let evidence =
                found.map_or(Evidence::Gone, |pod| if pod.view.ready() { Evidence::Ready } else { Evidence::NotReady });
            self.snapshot.evidence.insert(read.operation.clone(), evidence);
        }
        let is_busy = !round.steps.is_empty() || !round.reads.is_empty();
        self.again = if is_busy { self.server.now } else { round.wake_at.map_or(NEVER, when) };
        self.write(round.steps);
        // As their controller does at once when it has nothing to scale.
        let behind = |each: &&WorkloadObject| {
            each.view.replica_set().is_some_and(|set| set.body.observed_generation < set.generation)
        };
        let behind: Vec<Key> = self.server.objects_of("ReplicaSet").filter(behind).map(WorkloadObject::key).collect();
        for set in behind {
            self.server.change_object(&set, |set| {
                set["status"]["observedGeneration"] = set["metadata"]["generation"].clone();
            });
        }
    }

    fn write(&mut self, steps: Vec<Step>) {
        let mut done = Vec::with_capacity(steps.len());
        for step in steps {
            let ready = step.needs.iter().all(|needed| done.get(*needed) == Some(&true));
            let request = Request::Lead { write: Box::new(step.write), seen: None, decided: self.server.stamp() };
            done.push(ready && matches!(self.server.serve(request, &mut self.checks), Answer::Stored(_)));
        }
    }
}
