//! The loop: something changed → take a snapshot → decide → write → again.

mod approval_calls;
pub mod epoch_repair;
mod event_debounce;
pub mod memory;
mod reading;
pub mod retries;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use hitless_api::digest::Key;
use hitless_runtime::events::Events;
use hitless_runtime::lease::Leadership;
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::write::{WriteError, Writes};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::approval::client::{Approvers, Reach};
use crate::configs::Configs;
use crate::metrics::Metrics;
use crate::traffic::Traffic;
use crate::watches::Caches;
use crate::writer::{Outcome, Writer};
use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::guard::Guards;
use hitless_rollout::prefetch;
use hitless_rollout::reload::Uses;
use hitless_rollout::round::{Read, Round, Step, round};
use hitless_rollout::snapshot::{Evidence, Namespaces};

use approval_calls::ApprovalCalls;
use epoch_repair::LeaseEpoch;
use event_debounce::EventDebounce;
use memory::Memory;
use reading::{Look, Missing, Reading, ask};
use retries::Retries;

/// Changes that come together are decided together.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The loop does a round at least this often; it must be well within [`Heartbeat::LIMIT`].
const ROUND_AT_LEAST_EVERY: Duration = Duration::from_secs(10);

/// The controller of one process.
pub struct Controller {
    /// For fresh reads.
    pub client: Client,
    /// What is watched.
    pub caches: Caches,
    /// What is watched for workloads that reload.
    pub configs: Configs,
    /// Of what is recorded of that on workloads.
    pub config_key: Option<Key>,
    /// Who writes.
    pub writer: Writer,
    /// For people.
    pub events: Events,
    /// Whether this process leads.
    pub leadership: Receiver<Leadership>,
    /// The Lease.
    pub lease_epoch: LeaseEpoch,
    /// Our name in the Lease.
    pub holder: String,
    /// Notified by the caches.
    pub wake: Arc<Notify>,
    /// For /metrics.
    pub metrics: Metrics,
    /// What holds for all rules.
    pub gate: hitless_gate::Settings,
    /// Where approvers are looked for.
    pub reach: Reach,
    /// What pods that fetch images have besides.
    pub prefetch: Arc<prefetch::Settings>,
    /// What was last seen of the guard; absent where that is not known.
    pub guards: Receiver<Option<Guards>>,
}

/// What the loop keeps between its turns.
struct State {
    memory: Memory,
    reading: Reading,
    retries: Retries<Instant>,
    approval_calls: ApprovalCalls,
    traffic: Traffic,
    event_debounce: EventDebounce<Instant>,
    /// Since when writes of a later epoch have been seen.
    later_epoch_since: Option<Instant>,
    /// The managers that were there last, for the log.
    managers: PresentManagers,
    heartbeat: Heartbeat,
}

impl Controller {
    /// Runs until `token` is cancelled, then cancels `last_write`: the Lease may be given back.
    pub async fn run(
        mut self,
        heartbeat: Heartbeat,
        token: CancellationToken,
        last_write: CancellationToken,
    ) -> Result<(), Infallible> {
        let approvers = Approvers::new(self.client.clone(), self.reach.clone());
        let mut state = State {
            memory: Memory::new(GateCache::new(self.gate.clone())),
            reading: Reading::default(),
            retries: Retries::default(),
            approval_calls: ApprovalCalls::new(approvers, Arc::clone(&self.wake)),
            traffic: Traffic::new(self.client.clone(), self.leadership.clone(), Arc::clone(&self.wake)),
            event_debounce: EventDebounce::default(),
            later_epoch_since: None,
            managers: PresentManagers::default(),
            heartbeat,
        };
        let mut next = Instant::now();
        loop {
            let wake = self.wake.clone();
            tokio::select! {
                () = token.cancelled() => break,
                () = wake.notified() => sleep(DEBOUNCE).await,
                _ = self.leadership.changed() => {}
                () = sleep_until(next) => {}
            }
            state.heartbeat.beat(Instant::now());
            next = self.run_round(&mut state).await;
        }
        last_write.cancel();
        Ok(())
    }

    /// One round; says when the next one is due even if nothing changes.
    async fn run_round(&mut self, state: &mut State) -> Instant {
        let State { memory, reading, retries, approval_calls, traffic, heartbeat, .. } = state;
        let State { event_debounce, later_epoch_since, managers, .. } = state;
        let latest = Instant::now() + ROUND_AT_LEAST_EVERY;
        if !self.caches.synced() {
            return latest;
        }
        let now = Timestamp::now();
        // Who waits for the Lease does this, too, to know all pods when it leads.
        let mut look = self.look(now);
        memory.observe(&look.snapshot, now);
        let leadership = *self.leadership.borrow();
        self.metrics.leads(leadership.leads(Instant::now()));
        if !leadership.leads(Instant::now()) {
            memory.end_of_term();
            self.configs.watch(&BTreeMap::new());
            *later_epoch_since = None;
            approval_calls.end_of_term();
            traffic.end_of_term();
            return latest;
        }
        if look.snapshot.managers != *managers {
            for there in look.snapshot.managers.iter() {
                tracing::warn!("{there}; its kinds are left to it");
            }
            for gone in managers.names().filter(|name| !look.snapshot.managers.names().any(|there| there == *name)) {
                tracing::info!("{gone} is gone; its kinds that are on are looked after here");
            }
            managers.clone_from(&look.snapshot.managers);
        }
        let mut missing = Missing::of(&look, memory, leadership.epoch);
        if self.read_missing(&missing, memory, reading, heartbeat).await {
            look = self.look(now);
            missing = Missing::of(&look, memory, leadership.epoch);
        }
        let read_at = reading.next(&missing, Instant::now());
        let Look { mut snapshot, .. } = look;
        reading.leave_out(&missing, &mut snapshot, now);
        self.metrics.left_out(snapshot.left_out.len());
        snapshot.epoch = leadership.epoch;
        snapshot.holder.clone_from(&self.holder);
        snapshot.guards.clone_from(&self.guards.borrow());
        snapshot.prefetch_settings.clone_from(&self.prefetch);
        let uses = Uses::of(&snapshot.objects).keyed(self.config_key.as_ref());
        let wanted = uses.by_namespace();
        self.configs.watch(&wanted);
        memory.find_reloads(&uses, &self.configs.content(&wanted), now);
        memory.fill(&mut snapshot);
        approval_calls.fill(&mut snapshot, now);
        traffic.fill(&mut snapshot);

        let start = Instant::now();
        let round = round(&snapshot, &mut memory.gate_cache, now);
        self.metrics.decided(&snapshot, &round, start.elapsed(), now);
        if let Some(later) = round.deposed {
            return self.lease_epoch.later_epoch_found(later_epoch_since, leadership, later).await;
        }
        *later_epoch_since = None;
        let approval_at = approval_calls.follow(&round, &snapshot, now);
        traffic.follow(&round.pools, &snapshot.providers);
        let read_again = self.read(&round.reads, memory, heartbeat).await;
        let retry_at = self.write(&round, memory, retries, heartbeat).await;
        let (events, event_at) = event_debounce.due(&round.events, Instant::now());
        for note in events {
            self.events.say(note.clone());
        }
        let wake_at = [round.wake_at, approval_at].into_iter().flatten().min().map(|at| {
            let wait = Timestamp::now().duration_until(at);
            Instant::now() + Duration::try_from(wait).unwrap_or_default()
        });
        let at_once = read_again.then(Instant::now);
        [Some(latest), retry_at, read_at, event_at, wake_at, at_once].into_iter().flatten().min().unwrap_or(latest)
    }

    /// What is in the caches. Pods that matter and are not known are being read from now on.
    fn look(&self, now: Timestamp) -> Look {
        let snapshot = self.caches.snapshot(now);
        let named = Namespaces::named(&snapshot);
        let wanted = Namespaces::wanted(&snapshot, &named);
        let pods = self.caches.unread_pods(&self.client, &wanted, &named, &self.wake);
        Look { snapshot: wanted.narrow(snapshot), named, pods, full: self.caches.full() }
    }

    /// Reads some of what is missing; says whether anything was read.
    async fn read_missing(
        &self,
        missing: &Missing,
        memory: &mut Memory,
        reading: &mut Reading,
        heartbeat: &Heartbeat,
    ) -> bool {
        let requests = reading.due(&missing.workloads, Instant::now()).into_iter().map(|workload| {
            let read = self.caches.read(&self.client, workload);
            async move { (workload, read.await.map(|()| true)) }.boxed()
        });
        let workloads = ask(requests.collect(), heartbeat).await;
        for (workload, _) in workloads.iter().filter(|(_, answer)| answer.is_ok()) {
            memory.was_read(workload);
        }
        let requests = reading.due(&missing.parts, Instant::now()).into_iter().map(|part| {
            let read = self.caches.read_parts(&self.client, std::slice::from_ref(part));
            async move { (part, read.await.map(|count| count > 0)) }.boxed()
        });
        let parts = ask(requests.collect(), heartbeat).await;
        let answers = workloads.into_iter().chain(parts);
        let mut any = false;
        for (object, answer) in answers {
            if let Err(error) = &answer {
                let (label, namespace) = (object.label(), &object.namespace);
                tracing::warn!(object = %label, %namespace, %error, "can't read it: its namespace is left out");
            }
            // What is gone is not read either: its watch tells soon.
            let is_read = answer.unwrap_or_default();
            any |= is_read;
            reading.answered(object, is_read, Instant::now());
        }
        any
    }

    /// Reads pods afresh; says whether there is new evidence.
    async fn read(&self, reads: &[Read], memory: &mut Memory, heartbeat: &Heartbeat) -> bool {
        let requests = reads.iter().map(|read| {
            let evidence = self.evidence(read);
            async move { (read, evidence.await) }.boxed()
        });
        let answers = ask(requests.collect(), heartbeat).await;
        let mut any = false;
        for (read, evidence) in answers {
            if let Some(evidence) = evidence {
                any = true;
                memory.prove(read.operation.clone(), evidence);
            }
        }
        any
    }

    async fn evidence(&self, read: &Read) -> Option<Evidence> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &read.pod.namespace);
        match timeout(Writes::TIMEOUT, api.get_opt(&read.pod.name)).await {
            Ok(Ok(pod)) => {
                let pod = pod.filter(|pod| pod.metadata.uid.as_ref() == Some(&read.pod.uid));
                let Some(pod) = pod else { return Some(Evidence::Gone) };
                let ready = hitless_api::pod::PodView::from(&pod).ready();
                self.caches.inputs.pods.put(pod);
                Some(if ready { Evidence::Ready } else { Evidence::NotReady })
            }
            Ok(Err(error)) => {
                tracing::warn!(pod = %read.pod.name, namespace = %read.pod.namespace, %error, "can't read the pod");
                None
            }
            Err(_) => None,
        }
    }

    /// Carries the round's steps out, without those that failed a moment ago; says when to try these again.
    async fn write(
        &mut self,
        round: &Round,
        memory: &mut Memory,
        retries: &mut Retries<Instant>,
        heartbeat: &Heartbeat,
    ) -> Option<Instant> {
        let steps = retries.due(round.steps.clone(), Instant::now());
        let outcomes = self.writer.apply(&steps, heartbeat).await;
        let mut at_once = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Left));
        for (step, outcome) in steps.iter().zip(outcomes) {
            let key = step.write.key();
            match outcome {
                Outcome::Done => {
                    tracing::info!(write = %key, "written");
                    retries.succeeded(&key);
                    memory.certain(&step.write);
                    at_once |= step.write.is_dry_run();
                    if let Some(note) = step.write.tells.clone() {
                        self.events.say(note);
                    }
                }
                Outcome::Dropped => tracing::debug!(write = %key, "dropped: what it needs was not written"),
                Outcome::Failed(error) => failed(step, &key, &error, memory, retries),
                Outcome::Left => tracing::debug!(write = %key, "left for the next round"),
            }
        }
        let now = Instant::now();
        if at_once { Some(now) } else { retries.next(now) }
    }
}

fn failed(step: &Step, key: &str, error: &WriteError, memory: &mut Memory, retries: &mut Retries<Instant>) {
    if error.is_stale() {
        tracing::debug!(write = %key, %error, "decided on an older version, deciding again");
    } else {
        tracing::warn!(write = %key, %error, "not written");
    }
    match error {
        WriteError::Transient { .. } => memory.uncertain(&step.write),
        WriteError::Denied { message } | WriteError::Invalid { message } => {
            memory.refused(&step.write, message, Timestamp::now());
        }
        WriteError::Conflict { .. } | WriteError::Gone { .. } => {}
    }
    retries.failed(key, error, Instant::now());
}
