//! The loop: one round after another, and the only writer of this process.

mod carry_out;
mod info;
mod kernel_targets;
mod orphaned_holds;
mod pods;
mod reporter;
#[cfg(test)]
mod tests;
mod this_node;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};

use hitless_api::node_transition::AgentInfo;
use hitless_api::{Grant, NodeTransition, Phase, PodRef, Transition};
use hitless_kernel::exec;
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::readiness::Guard;
use jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use carry_out::carry_out;
use orphaned_holds::OrphanedHolds;
use pods::Pods;
use reporter::Reporter;
use this_node::ThisNode;

use crate::caches::Caches;
use crate::decision::{Action, Decision};
use crate::drain::Threads;
use crate::hooks::runner::{self, Runner};
use crate::hooks::task::Tasks;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::published::{Published, Step};
use crate::readiness::{self, Asking};
use crate::report;
use crate::retire::Retiring;
use crate::round::{NodeView, Round, round};
use crate::view::{NodePod, Observation};
use crate::waiters::Waiters;

/// The loop does a round at least this often, so that its heartbeat shows.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);
/// After an answer of the API server that is of no use.
const RETRY: Duration = Duration::from_secs(1);

/// The node agent.
pub struct Agent {
    node: ThisNode,
    info: AgentInfo,
    reporter: Reporter,
    pods: Pods,
    caches: Caches,
    threads: Arc<Threads>,
    hooks: Runner,
    asking: Asking,
    tasks: Tasks,
    wake: Arc<Notify>,
    metrics: Metrics,
    memories: BTreeMap<String, Memory>,
    orphaned_holds: OrphanedHolds,
    /// What a killed agent has left behind is looked for once.
    has_decided: bool,
    /// What is cached of the pods with grants is no older than this process.
    is_confirmed: bool,
    published: Published,
    retiring: Retiring,
    waiters: Waiters,
}

impl Agent {
    /// An agent of the node with this name. `files` is where the node's own files are.
    #[must_use]
    pub fn new(
        client: Client,
        node: String,
        files: exec::Node,
        caches: Caches,
        threads: Arc<Threads>,
        wake: Arc<Notify>,
        metrics: Metrics,
    ) -> Self {
        Self {
            node: ThisNode::new(client.clone(), node),
            info: info::of_this_agent(&files),
            reporter: Reporter::new(Api::all(client.clone()), caches.transitions.clone(), metrics.clone()),
            pods: Pods::new(client, caches.clone(), metrics.writes.clone(), wake.clone(), files.proc_root.clone()),
            caches,
            hooks: Runner::new(wake.clone(), files),
            asking: Asking::default(),
            threads,
            waiters: Waiters::new(wake.clone()),
            tasks: Tasks::new(wake.clone()),
            wake,
            metrics,
            memories: BTreeMap::new(),
            orphaned_holds: OrphanedHolds::default(),
            has_decided: false,
            is_confirmed: false,
            published: Published::default(),
            retiring: Retiring::default(),
        }
    }

    /// What the endpoint shows.
    #[must_use]
    pub fn published(&self) -> Published {
        self.published.clone()
    }

    /// Who waits for pods at the endpoint.
    #[must_use]
    pub fn waiters(&self) -> Waiters {
        self.waiters.clone()
    }

    /// Whether it is to be replaced.
    #[must_use]
    pub fn retiring(&self) -> Retiring {
        self.retiring.clone()
    }

    /// What this agent is and can do.
    #[must_use]
    pub const fn info(&self) -> &AgentInfo {
        &self.info
    }

    /// Where applications say that they are not to be operated yet.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        self.tasks.clone()
    }

    /// Runs until `token` is cancelled.
    pub async fn run(mut self, heartbeat: Heartbeat, known: Guard, token: CancellationToken) -> Result<(), Infallible> {
        let mut known = Some(known);
        while !token.is_cancelled() {
            heartbeat.beat(Instant::now());
            if let Some(guard) = known.take() {
                if !self.node.learn().await {
                    known = Some(guard);
                    tokio::select! { () = sleep(RETRY) => {}, () = token.cancelled() => {} }
                    continue;
                }
                guard.done();
            }
            let next = self.run_round(&heartbeat).await;
            tokio::select! {
                () = token.cancelled() => {}
                () = self.wake.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        Ok(())
    }

    /// Decides and acts once; says when to do so again.
    async fn run_round(&mut self, heartbeat: &Heartbeat) -> Instant {
        if let Some(transition) = self.caches.transitions.get("", &self.node.identity.name) {
            self.node.check(&transition.spec.node_uid).await;
        }
        self.confirm().await;
        let (now, clock) = (now(), Instant::now());
        let pods: BTreeMap<String, Arc<NodePod>> =
            self.caches.pods.values().into_iter().map(|pod| (pod.view.id.uid.clone(), pod)).collect();
        let transition = self.caches.transitions.get("", &self.node.identity.name);
        let mut observations = self.threads.observations();
        self.remember_grants(transition.as_deref(), now);
        if self.orphaned_holds.update(&pods, &mut observations, now) {
            self.wake.notify_one();
        }
        self.hooks.tell(&mut self.memories, now);
        self.asking.tell(&mut self.memories);
        let (node, memories) = (self.node.identity.clone(), self.memories.clone());
        let view = NodeView {
            node: &node,
            pods: &pods,
            transition: transition.as_deref(),
            synced: self.is_confirmed,
            memories: &memories,
            observations: &observations,
        };
        let Round { steps, raises } = round(&view, now);
        let mut wake_at = steps.iter().filter_map(|(_, decision)| decision.wake_at).min();
        for (grant, decision) in &steps {
            self.remember(grant, decision, &observations, view.reported(grant), now);
        }
        let entries = self.entries(&steps, &observations, &view, now);
        self.publish(&steps, &entries);
        let mut observed = kernel_targets::observe(&steps, &view);
        let is_live = |uid: &str| steps.iter().any(|(grant, step)| grant.pod.uid == uid && step.result.is_none());
        observed.extend(self.waiters.targets(pods.values().map(Arc::as_ref), is_live, now));
        self.threads.observer.set_targets(observed);
        let held = kernel_targets::hold(&steps, &view, self.has_decided);
        self.threads.holds.set_targets(self.orphaned_holds.join(held));
        self.hooks.set_calls(runner::calls(&steps, &pods));
        self.asking.set(readiness::asked(&steps, &pods, &self.memories));
        self.has_decided |= view.synced;

        let is_all_begun = self.act(&steps, &raises, &pods, heartbeat).await;
        if let Some(transition) = transition.as_deref().filter(|_| view.synced) {
            self.info = info::with_refusals(&self.info, transition, &steps, &pods);
            let (name, report) = (&node.name, (entries.as_slice(), &self.info));
            let due = self.reporter.report(name, transition, report, &mut self.memories, now).await;
            wake_at = wake_at.into_iter().chain(due).min();
        }
        if is_all_begun { self.next_round(wake_at, now, clock) } else { Instant::now() }
    }

    /// Once for each process, as soon as both lists are there.
    async fn confirm(&mut self) {
        if self.is_confirmed || !self.caches.pods.synced() || !self.caches.transitions.synced() {
            return;
        }
        let transition = self.caches.transitions.get("", &self.node.identity.name);
        let grants = transition.as_deref().map(|transition| transition.spec.grants.as_slice()).unwrap_or_default();
        self.is_confirmed = self.pods.confirm(grants).await;
    }

    /// Several pods at a time: the clients of a pod that is held wait for its patch. Pods of which the last write failed come last,
    /// so that a request that hangs keeps no other pod waiting. Says whether all was begun.
    async fn act(
        &mut self,
        steps: &[(&Grant, Decision)],
        raises: &[(PodRef, &'static str)],
        pods: &BTreeMap<String, Arc<NodePod>>,
        heartbeat: &Heartbeat,
    ) -> bool {
        let mut memories: BTreeMap<&String, &mut Memory> = self.memories.iter_mut().collect();
        let (writer, node, begun) = (&self.pods, self.node.identity.name.as_str(), Instant::now());
        let mut acted_on = BTreeSet::new();
        let mut actions: Vec<(bool, BoxFuture<'_, ()>)> = Vec::new();
        for (grant, decision) in steps {
            let uid = &grant.pod.uid;
            // A way back that has begun is gone to its end.
            let begins = decision.action == Some(Action::LeaveService) && decision.phase == Phase::Leaving;
            let waits = writer.is_paused(uid) || begins && self.retiring.is_so();
            let Some(action) = decision.action.as_ref().filter(|_| !waits) else { continue };
            if let Some(memory) = memories.remove(&grant.id) {
                let pod = pods.get(uid).map(Arc::as_ref);
                actions.push((writer.has_failed(uid), writer.act(grant, action, pod, memory, node).boxed()));
                acted_on.insert(uid);
            }
        }
        for (id, reason) in raises {
            // One write to a pod at a time.
            let is_free = !acted_on.contains(&id.uid) && !writer.is_paused(&id.uid);
            if let Some(pod) = pods.get(&id.uid).filter(|_| is_free) {
                actions.push((writer.has_failed(&id.uid), writer.raise(pod, reason).boxed()));
            }
        }
        actions.sort_by_key(|(has_failed, _)| *has_failed);
        carry_out(actions.into_iter().map(|(_, action)| action).collect(), begun, heartbeat).await
    }

    fn next_round(&self, wake_at: Option<Timestamp>, now: Timestamp, clock: Instant) -> Instant {
        let wake = wake_at.map(|at| clock + Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let latest = clock + if self.is_confirmed { LONGEST_SLEEP } else { RETRY };
        [wake, self.pods.retry_at(), self.reporter.retry_at()].into_iter().flatten().fold(latest, Instant::min)
    }

    /// Forgets grants that are gone.
    fn remember_grants(&mut self, transition: Option<&NodeTransition>, now: Timestamp) {
        let grants = transition.map(|transition| transition.spec.grants.as_slice()).unwrap_or_default();
        self.orphaned_holds.forget(&mut self.memories, grants);
        for grant in grants {
            let memory = self.memories.entry(grant.id.clone()).or_default();
            memory.see(grant, now);
            memory.saying = self.tasks.of(&grant.pod.uid, now);
        }
    }

    fn remember(
        &mut self,
        grant: &Grant,
        decision: &Decision,
        observations: &BTreeMap<String, Observation>,
        reported: Option<&Transition>,
        now: Timestamp,
    ) {
        let Some(memory) = self.memories.get_mut(&grant.id) else { return };
        let is_live = reported.is_none_or(|reported| reported.result.is_none());
        if memory.enter(decision, reported, now) && is_live {
            let pod = format!("{}/{}", grant.pod.namespace, grant.pod.name);
            tracing::info!(pod, grant = grant.id, phase = ?decision.phase, message = decision.message, "phase");
        }
        memory.ask(decision, now);
        if let Some(observation) = observations.get(&grant.pod.uid) {
            memory.observe(decision.phase, observation, now);
        }
    }

    fn entries(
        &self,
        steps: &[(&Grant, Decision)],
        observations: &BTreeMap<String, Observation>,
        view: &NodeView<'_>,
        now: Timestamp,
    ) -> Vec<Transition> {
        let (no_memory, no_observation) = (Memory::default(), Observation::None);
        let entry = |(grant, decision): &(&Grant, Decision)| {
            let memory = self.memories.get(&grant.id).unwrap_or(&no_memory);
            let observation = observations.get(&grant.pod.uid).unwrap_or(&no_observation);
            report::entry(grant, decision, memory, observation, view.reported(grant), now)
        };
        steps.iter().map(entry).collect()
    }

    fn publish(&self, steps: &[(&Grant, Decision)], entries: &[Transition]) {
        // A write that was refused has not happened; one without an answer may have.
        let may_happen = |grant: &Grant| {
            self.memories.get(&grant.id).is_none_or(|memory| memory.denied.is_none() || memory.lowering.is_some())
        };
        let step = |((grant, decision), transition): (&(&Grant, Decision), &Transition)| Step {
            pod_uid: grant.pod.uid.clone(),
            transition: transition.clone(),
            waiting_for: decision.waiting_for.iter().map(ToString::to_string).collect(),
            leaves_service: decision.action == Some(Action::LeaveService) && may_happen(grant),
        };
        self.published.set(steps.iter().zip(entries).map(step).collect());
        let live = steps.iter().filter(|(_, decision)| decision.result.is_none()).count();
        self.metrics.live.set(i64::try_from(live).unwrap_or(i64::MAX));
    }
}

/// As precise as times on the wire are.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}
