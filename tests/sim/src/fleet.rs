//! A fleet: 150,000 pods on 5,000 nodes, all of them to get another image.
//!
//! The controller's rounds are the real ones. The agents are stand-ins that follow the protocol and take a fixed time for each
//! operation, nothing fails, and news arrive at once: what is measured is how the protocol scales, not what it survives.

mod colla_set;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use hitless_api::names::IN_SERVICE;
use hitless_api::pod::{ConditionView, ContainerState};
use hitless_api::pod_transition_rule::{AvailableRule, TransitionRule};
use hitless_api::{
    Grant, GrantOp, MicroTime, NodeTransitionStatus, Outcome, Phase, PodTransitionRuleSpec, Transition,
    TransitionResult,
};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::prefetch::{NamePool, NodeImages};
use hitless_rollout::round::{Round, Step};
use hitless_rollout::snapshot::{AgentState, Evidence, NodeView, RuleView, Snapshot, Version};
use hitless_workloads::kind;
use hitless_world::kubelet::set_condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::clock::{Micros, NEVER, SECOND, stamp, when};
use crate::decide;
use crate::kubernetes::pod_of_set;
use crate::server::{Answer, Object, Request, Server, WorkloadObject};
use crate::watch::Key;
use crate::workload::{Named, all_leave};

pub use colla_set::Phases;

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

/// How it went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Pods that were operated.
    pub pods: u64,
    /// Simulated time until the last Deployment was finished.
    pub seconds: i64,
    /// No plan could be quicker than this.
    pub floor_seconds: i64,
    /// Decisions.
    pub rounds: u64,
    /// Real time that they took, together and the longest one, in milliseconds.
    pub decided_milliseconds: (u128, u128),
    /// Most pods that were operated at the same time.
    pub most: usize,
    /// Our writes by kind.
    pub writes: BTreeMap<&'static str, u64>,
    /// Most writes in one second.
    pub peak: u64,
    /// It did not come to an end.
    pub stuck: bool,
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
    fn new(fleet: Fleet) -> Self {
        let mut server = Server::default();
        let mut checks = Checks::off();
        let mut names = NamePool::default();
        for node in 0..fleet.nodes {
            let name = format!("n{node}");
            let uid = format!("uid-{name}");
            let next = (0..fleet.deployments).map(|index| format!("web{index}:v2"));
            let next: Vec<String> = next.collect();
            let images = NodeImages::of(next.iter().map(|name| [name.as_str()]), &mut names);
            server.put_node(NodeView { name, uid, images, ..NodeView::default() });
        }
        let mut count = 0;
        for namespace in (0..fleet.namespaces).map(|index| format!("ns{index:02}")) {
            server.put_rule(rule(&namespace, fleet.percent));
            for index in 0..fleet.deployments {
                let (deployment, set) = workload(&namespace, &format!("web{index}"), fleet.replicas);
                server.put_object(deployment);
                let set = server.put_object(set).view;
                for number in 0..u64::try_from(fleet.replicas).unwrap_or_default() {
                    let mut pod = pod_of_set(&set, number, stamp(0));
                    let node = usize::try_from(count).unwrap_or_default() % fleet.nodes;
                    run(&mut pod, node);
                    server.put_pod(&mut checks, pod);
                    count += 1;
                }
            }
        }
        let agents = server.nodes.keys().map(|node| (node.to_string(), AgentState::Ready)).collect();
        let nodes = server.nodes.values().map(|node| (node.name.clone(), node.clone())).collect();
        let (holder, drain_policies) = ("fleet".to_owned(), vec![all_leave()]);
        let snapshot = Snapshot { epoch: 1, holder, agents, nodes, drain_policies, ..Snapshot::default() };
        let report = Report { pods: count, ..Report::default() };
        Self { fleet, server, checks, snapshot, running: BTreeMap::new(), begun: BTreeSet::new(), again: 0, report }
    }

    /// `kubectl set image` on all Deployments, and the guard's hold.
    fn set_images(&mut self) {
        let all: Vec<WorkloadObject> = self.server.objects_of("Deployment").cloned().collect();
        for known in all {
            let mut next = Value::clone(&known.json);
            next["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("{}:v2", known.view.id.name));
            if let Some(kind) = kind::of_workload(&known.view.id.group_kind) {
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
            let request = Request::Lead { write: Box::new(step.write), seen: None };
            done.push(ready && matches!(self.server.serve(request, &mut self.checks), Answer::Stored(_)));
        }
    }

    /// Agents take note of grants and take the pods out of service.
    fn begin(&mut self) {
        let end = self.server.now + self.fleet.operation_seconds * SECOND;
        let mut begun = Vec::new();
        for change in &self.server.outbox {
            let crate::server::Told::Is(Object::NodeTransition(each)) = &change.what else { continue };
            for grant in &each.view.spec.grants {
                if each.view.transition(grant).is_none() && self.begun.insert((grant.id.clone(), grant.granted.clone()))
                {
                    begun.push((change.key.clone(), grant.clone()));
                }
            }
        }
        for (_, grant) in &begun {
            let wall = self.server.stamp();
            self.server.change_pod(&mut self.checks, &grant.pod.uid, |pod| {
                let since = Some(wall);
                let (reason, message) = ("Leaving".to_owned(), grant.id.clone());
                let condition = ConditionView { is_true: false, reason, message, since };
                pod.view.conditions.insert(IN_SERVICE.to_owned(), condition);
                set_condition(&mut pod.view, "Ready", false, wall);
            });
            *self.server.written.entry("pods/status").or_default() += 1;
        }
        if !begun.is_empty() {
            self.running.entry(end).or_default().extend(begun);
        }
        self.report.most = self.report.most.max(self.running.values().map(Vec::len).sum());
    }

    /// Agents whose operations have ended: images, InService, one report for each node.
    fn agents(&mut self) {
        let mut results: BTreeMap<Key, Vec<Transition>> = BTreeMap::new();
        while let Some(entry) = self.running.first_entry().filter(|entry| *entry.key() <= self.server.now) {
            for (node, grant) in entry.remove() {
                let wall = self.server.stamp();
                if grant.op == GrantOp::Drain {
                    // It stays out of service, and its workload's controller deletes it.
                    results.entry(node).or_default().push(done(&grant, wall));
                    continue;
                }
                self.server.change_pod(&mut self.checks, &grant.pod.uid, |pod| {
                    for container in &mut pod.view.containers {
                        if let Some(change) = grant.containers.get(&container.name) {
                            container.image.clone_from(&change.to);
                        }
                    }
                    let set =
                        grant.annotations.iter().filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)));
                    pod.view.annotations.extend(set);
                    let set = grant.labels.iter().filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)));
                    pod.view.labels.extend(set);
                    set_condition(&mut pod.view, IN_SERVICE, true, wall);
                    set_condition(&mut pod.view, "Ready", true, wall);
                });
                *self.server.written.entry("pods").or_default() += 1;
                *self.server.written.entry("pods/status").or_default() += 1;
                results.entry(node).or_default().push(done(&grant, wall));
            }
        }
        for (node, mut transitions) in results {
            let Some(known) = self.server.transitions.get(&node) else { continue };
            let live = |old: &Transition| known.view.spec.grants.iter().any(|grant| old.is_of(grant));
            transitions.extend(known.view.transitions.iter().filter(|old| live(old)).cloned());
            let version = known.view.version.clone();
            let status = Box::new(NodeTransitionStatus { agent: None, transitions });
            self.server.serve(Request::Report { node, version, status }, &mut self.checks);
        }
    }
}

fn done(grant: &Grant, wall: jiff::Timestamp) -> Transition {
    Transition {
        id: grant.id.clone(),
        granted: grant.granted.clone(),
        phase: Phase::Returning,
        since: MicroTime(wall),
        deadline: None,
        connections: None,
        gap_milliseconds: None,
        hooks_done: Vec::new(),
        hooks: Vec::new(),
        rollback: None,
        message: String::new(),
        result: Some(TransitionResult { outcome: Outcome::Done, reason: "Done".to_owned(), report: BTreeMap::new() }),
    }
}

fn rule(namespace: &str, percent: u32) -> RuleView {
    let limit = Some(IntOrString::String(format!("{percent}%")));
    let available = AvailableRule { max_unavailable_value: limit, ..AvailableRule::default() };
    let all = Some([("fleet".to_owned(), "yes".to_owned())].into());
    RuleView {
        namespace: namespace.to_owned(),
        name: "budget".to_owned(),
        version: Version { uid: format!("uid-rule-{namespace}"), resource_version: String::new() },
        generation: 1,
        spec: PodTransitionRuleSpec {
            selector: Some(LabelSelector { match_labels: all, ..LabelSelector::default() }),
            rules: vec![TransitionRule {
                name: "share".to_owned(),
                available_policy: Some(available),
                ..TransitionRule::default()
            }],
        },
        unreadable: None,
        status: None,
    }
}

fn workload(namespace: &str, name: &str, replicas: i32) -> (Value, Value) {
    let template = json!({
        "metadata": {"labels": {"app": name, "fleet": "yes"}},
        "spec": {"containers": [{"name": "web", "image": format!("{name}:v1")}]}
    });
    Named { namespace, name, uid: format!("uid-{namespace}-{name}"), replicas }.at_rest(template, stamp(0))
}

/// Bound to a node, and in service.
fn run(pod: &mut hitless_agent::view::NodePod, node: usize) {
    let wall = stamp(0);
    pod.view.node = Some(format!("n{node}"));
    for name in [IN_SERVICE, "Ready"] {
        set_condition(&mut pod.view, name, true, wall);
    }
    for container in &mut pod.view.containers {
        container.status = Some(ContainerState {
            container_id: "containerd://1".to_owned(),
            image: container.image.clone(),
            image_id: String::new(),
            ready: true,
            running_since: Some(wall),
            waiting: None,
            trouble: None,
            restarts: 0,
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = |seconds: i64| format!("{}.{}", seconds / 60, seconds % 60 * 10 / 60);
        if self.stuck {
            writeln!(f, "It did not come to an end.")?;
        }
        writeln!(f, "simulated minutes: {} ({} s)", minutes(self.seconds), self.seconds)?;
        writeln!(
            f,
            "floor: {} minutes: with a tenth at a time nobody can do with less than ten operations one after the other",
            minutes(self.floor_seconds)
        )?;
        writeln!(f, "pods operated: {}; at the same time at most {}", self.pods, self.most)?;
        let (all, longest) = self.decided_milliseconds;
        let each = all / u128::from(self.rounds.max(1));
        writeln!(f, "decisions: {}, {each} ms of real time each, the longest {longest} ms (not charged)", self.rounds)?;
        let total: u64 = self.writes.values().sum();
        let seconds = u64::try_from(self.seconds.max(1)).unwrap_or(1);
        writeln!(
            f,
            "API writes: {total} in all, {} a second on average, {} in the busiest second",
            total / seconds,
            self.peak
        )?;
        for (kind, count) in &self.writes {
            let hundredths = count * 100 / self.pods.max(1);
            writeln!(f, "  {kind:<26} {count:>8}   {}.{:02} a pod", hundredths / 100, hundredths % 100)?;
        }
        let hundredths = total * 100 / self.pods.max(1);
        writeln!(f, "  {:<26} {total:>8}   {}.{:02} a pod", "all", hundredths / 100, hundredths % 100)
    }
}
