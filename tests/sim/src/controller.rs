//! A controller process: the real round on watched caches, in the shell's order of reads and writes.

mod caches;

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use hitless_api::GrantMode;
use hitless_api::names::SYSTEM_NAMESPACE;
use hitless_controller::controller::memory::Memory;
use hitless_controller::controller::retries::Retries;
use hitless_rollout::round::{Read, Round, Step, Write, under_way};
use hitless_rollout::snapshot::{Evidence, Snapshot};
use hitless_workloads::{Component, Installed};

use crate::balancer::Driver;
use crate::checks::Seen;
use crate::clock::{MS, Micros, NEVER, SECOND, micros, passed, when};
use crate::decide;
use crate::faults::Fault;
use crate::ground::{Ground, ReplyTo, text};
use crate::server::{self, Answer, Object, Refusal, Request};
use crate::trace::Who;

pub(crate) use caches::{Caches, KINDS};

/// Changes that come together are decided together.
const DEBOUNCE: Micros = 20 * MS;
/// The loop does a round at least this often. Here only where nothing else wakes it: after a read that was not answered.
const ROUND_AT_LEAST_EVERY: Micros = 10 * SECOND;

/// One process.
pub(crate) struct Controller {
    pub(crate) index: usize,
    /// Counts its starts.
    life: u32,
    pub(crate) skew: Micros,
    pub(crate) caches: Caches,
    snapshot: Snapshot,
    memory: Memory,
    retries: Retries<Duration>,
    /// Epoch, and until when it believes to lead.
    pub(crate) term: Option<(i64, Micros)>,
    doing: Doing,
    /// The next round.
    next: Micros,
    /// What it does to the load balancer outside of the cluster.
    driver: Driver,
    /// Decisions so far.
    pub(crate) rounds: u64,
    /// Whether the last decision was made in this term.
    has_decided: bool,
    /// The last decision, for people.
    pub(crate) last: Round,
    /// Not running until then.
    pub(crate) down_until: Option<Micros>,
}

enum Doing {
    Nothing,
    Reading {
        round: Box<Round>,
        left: usize,
        proven: bool,
    },
    Writing {
        steps: Vec<Step>,
        outcomes: Vec<Option<bool>>,
        keys: Vec<String>,
        flying: BTreeSet<usize>,
        seen: Option<Arc<Seen>>,
    },
}

impl Controller {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            life: 0,
            skew: 0,
            caches: Caches::default(),
            snapshot: Snapshot { holder: format!("controller-{index}"), ..Snapshot::default() },
            memory: Memory::default(),
            retries: Retries::default(),
            term: None,
            doing: Doing::Nothing,
            next: NEVER,
            driver: Driver::default(),
            rounds: 0,
            has_decided: false,
            last: Round::default(),
            down_until: None,
        }
    }

    fn who(&self) -> Who {
        Who::Controller(self.index)
    }

    pub(crate) fn leads(&self, now: Micros) -> bool {
        self.down_until.is_none() && self.term.is_some_and(|(_, until)| now < until)
    }

    /// It leads, has decided since it does, and all writes of that decision are answered.
    pub(crate) fn is_done_for_now(&self, now: Micros) -> bool {
        self.leads(now) && self.has_decided && matches!(self.doing, Doing::Nothing)
    }

    /// Begins a term, or ends the one that is.
    pub(crate) fn lead(&mut self, epoch: Option<i64>, now: Micros) {
        self.term = epoch.map(|epoch| (epoch, NEVER));
        self.has_decided = false;
        self.memory.end_of_term();
        self.driver = Driver::default();
        self.next = now;
    }

    /// When it looks at the load balancer next. Only the holder of the Lease does: a process asks before each command whether it is.
    pub(crate) fn drives_at(&self, epoch: i64, ground: &Ground) -> Micros {
        let balancer = ground.server.balancer.as_ref();
        let is_holder = self.leads(ground.now) && self.term.is_some_and(|(own, _)| own == epoch);
        balancer.filter(|_| is_holder).map_or(NEVER, |balancer| self.driver.wake(balancer, ground.now))
    }

    /// Brings about what it wants of the load balancer.
    pub(crate) fn drive(&mut self, ground: &mut Ground) {
        let now = ground.now;
        let Some(balancer) = &mut ground.server.balancer else { return };
        if self.driver.drive(balancer, now) {
            ground.say(Who::Controller(self.index), || "sees the load balancer change".to_owned());
            self.notify(now);
        }
    }

    /// From now on nobody believes to lead who does not.
    pub(crate) fn end_of_delusion(&mut self, now: Micros) {
        if self.term.is_some_and(|(_, until)| until != NEVER && until > now) {
            self.term = self.term.map(|(epoch, _)| (epoch, now));
        }
    }

    /// Killed; started again at `back`, with nothing but what it lists then.
    pub(crate) fn kill(&mut self, ground: &mut Ground, back: Micros) {
        ground.say(self.who(), || "killed".to_owned());
        let life = self.life + 1;
        *self = Self {
            life,
            rounds: self.rounds,
            skew: self.skew,
            down_until: Some(back),
            next: back,
            ..Self::new(self.index)
        };
    }

    /// When it does something next.
    pub(crate) fn wake(&self, now: Micros) -> Micros {
        if let Some(back) = self.down_until {
            return back;
        }
        if !self.leads(now) {
            return NEVER;
        }
        let news = self.caches.next();
        match self.doing {
            Doing::Nothing => self.next.min(news),
            Doing::Reading { .. } | Doing::Writing { .. } => news,
        }
    }

    /// There is something new to decide on.
    pub(crate) fn notify(&mut self, now: Micros) {
        self.next = self.next.min(now + DEBOUNCE);
    }

    /// Its time has come.
    pub(crate) fn step(&mut self, ground: &mut Ground) {
        let now = ground.now;
        if self.down_until.is_some() {
            self.down_until = None;
            self.caches.list(&ground.server);
            self.next = NEVER;
            return ground.say(Who::Controller(self.index), || "started".to_owned());
        }
        self.caches.deliver(now, &ground.server);
        if self.caches.is_changed() {
            self.next = self.next.min(now + DEBOUNCE);
        }
        if self.next <= now && matches!(self.doing, Doing::Nothing) {
            self.run_round(ground);
        }
    }

    fn run_round(&mut self, ground: &mut Ground) {
        self.next = NEVER;
        let Some((epoch, _)) = self.term else { return };
        let wall = ground.wall(self.skew);
        self.snapshot.epoch = epoch;
        self.caches.fill(&mut self.snapshot);
        if self.memory.has_to_read_workloads(epoch) {
            if ground.server.is_away() {
                self.next = ground.now + SECOND;
                return;
            }
            let workloads = under_way(&self.snapshot);
            self.caches.read_workloads(&workloads, &ground.server);
            self.caches.fill(&mut self.snapshot);
            self.memory.workloads_read(epoch);
        }
        if ground.has_operators || ground.has_jobs {
            self.snapshot.installed = Arc::new(Installed::with(&[Component::KusionStack]));
        }
        self.snapshot.drain_policies.clone_from(&ground.server.drain_policies);
        self.snapshot.bindings.clone_from(&ground.server.bindings);
        if let Some(balancer) = &ground.server.balancer {
            self.snapshot.providers.clone_from(&balancer.providers);
            self.snapshot.pools.clone_from(&self.driver.seen);
        }
        self.memory.observe(&self.snapshot, wall);
        self.memory.fill(&mut self.snapshot);
        if self.caches.are_old(&ground.server) {
            ground.fault(Fault::OldCache);
        }
        self.rounds += 1;
        let round = decide::round(&self.snapshot, &mut self.memory.gate_cache, wall);
        if let Some(later) = round.deposed {
            ground.say(self.who(), || format!("is of epoch {epoch}, and found {later}"));
            self.next = ground.now + SECOND;
            return;
        }
        self.driver.follow(round.pools.clone(), ground.now);
        self.next = round.wake_at.map_or(NEVER, |at| when(at) - self.skew);
        let left = round.reads.len();
        for (token, read) in round.reads.iter().enumerate() {
            ground.say(Who::Controller(self.index), || format!("reads pod {}", read.pod.name));
            let to = ReplyTo { who: Who::Controller(self.index), life: self.life, token };
            ground.send(Request::Read(read.pod.clone()), to);
        }
        self.doing = Doing::Reading { round: Box::new(round), left, proven: false };
        self.go_on(ground);
    }

    /// Sends what can be sent now; ends the round when nothing is left.
    fn go_on(&mut self, ground: &mut Ground) {
        if let Doing::Reading { round, left: 0, proven } = &mut self.doing {
            if *proven {
                self.next = ground.now;
            }
            let mut round = take(&mut **round);
            let steps = self.retries.due(take(&mut round.steps), passed(ground.now));
            ground.checks.decided(ground.now, &self.snapshot, &steps);
            let seen = self.seen(&steps);
            self.last = round;
            self.has_decided = true;
            let keys = steps.iter().map(|step| step.write.key()).collect();
            let outcomes = vec![None; steps.len()];
            self.doing = Doing::Writing { steps, outcomes, keys, flying: BTreeSet::new(), seen };
        }
        let Doing::Writing { steps, outcomes, keys, flying, seen } = &mut self.doing else { return };
        loop {
            let open = (0..steps.len()).find(|index| {
                outcomes[*index].is_none() && !flying.contains(index) && {
                    let needs = &steps[*index].needs;
                    needs.iter().all(|needed| outcomes.get(*needed).copied().flatten().is_some())
                }
            });
            let Some(index) = open else { break };
            if !steps[index].needs.iter().all(|needed| outcomes[*needed] == Some(true)) {
                outcomes[index] = Some(false);
                continue;
            }
            let is_grant = matches!(steps[index].write, Write::NodeTransition(_));
            if ground.chance.happens(ground.weather.controller_killed) {
                ground.fault(if is_grant { Fault::KilledBeforeGrant } else { Fault::ControllerKilled });
                let back = ground.now + ground.chance.delay(50 * MS, 20 * SECOND);
                return self.kill(ground, back);
            }
            // A process that does not lead any more sends nothing.
            if self.term.is_none_or(|(_, until)| ground.now >= until) {
                outcomes[index] = Some(false);
                continue;
            }
            let write = Box::new(steps[index].write.clone());
            ground.say(Who::Controller(self.index), || format!("writes {}", describe(&write)));
            let to = ReplyTo { who: Who::Controller(self.index), life: self.life, token: index };
            flying.insert(index);
            ground.send(Request::Lead { write, seen: seen.clone() }, to);
        }
        if flying.is_empty() {
            let _ = keys;
            self.doing = Doing::Nothing;
            self.next = self.next.min(self.retries.next(passed(ground.now)).map_or(NEVER, micros));
            if self.caches.is_changed() {
                self.next = self.next.min(ground.now + DEBOUNCE);
            }
        }
    }

    /// What the reservations among these steps were decided on.
    fn seen(&self, steps: &[Step]) -> Option<Arc<Seen>> {
        steps.iter().any(|step| matches!(step.write, Write::Ledger(_))).then(|| {
            Arc::new(Seen {
                pods: self.snapshot.pods.clone(),
                rules: self.snapshot.rules.clone(),
                objects: self.snapshot.objects.clone(),
                services: self.snapshot.services.clone(),
            })
        })
    }

    /// The API server's answer to one of its requests.
    pub(crate) fn answer(&mut self, ground: &mut Ground, to: ReplyTo, answer: Answer) {
        if to.life != self.life || self.down_until.is_some() {
            return;
        }
        match &mut self.doing {
            Doing::Nothing => return,
            Doing::Reading { round, left, proven } => {
                let read = &round.reads[to.token];
                *left -= 1;
                if matches!(answer, Answer::Refused(_)) {
                    self.next = self.next.min(ground.now + ROUND_AT_LEAST_EVERY);
                }
                if let Some(evidence) = evidence(read, &answer) {
                    *proven = true;
                    self.memory.prove(read.operation.clone(), evidence);
                    if let Answer::Stored(Some(object)) = answer {
                        self.caches.put(object);
                    }
                }
            }
            Doing::Writing { steps, outcomes, keys, flying, .. } => {
                flying.remove(&to.token);
                let (write, key) = (&steps[to.token].write, &keys[to.token]);
                let done = matches!(answer, Answer::Stored(_));
                outcomes[to.token] = Some(done);
                if !done {
                    ground.say(Who::Controller(self.index), || format!("  {key}: {}", text(&answer)));
                }
                match answer {
                    Answer::Stored(object) => {
                        self.retries.succeeded(key);
                        self.memory.certain(write);
                        if let Some(object) = object {
                            self.caches.put(object);
                        }
                    }
                    Answer::Absent => self.retries.failed(key, &Refusal::Gone.error(), passed(ground.now)),
                    Answer::Refused(why) => {
                        if why == Refusal::Transient {
                            self.memory.uncertain(write);
                        }
                        if let (Refusal::Conflict, Write::Service(write)) = (why, write)
                            && let Some(current) =
                                ground.server.services.get(&server::key(&write.namespace, &write.name))
                        {
                            self.caches.put(Object::Service(current.view.clone()));
                        }
                        self.retries.failed(key, &why.error(), passed(ground.now));
                    }
                }
            }
        }
        self.go_on(ground);
    }
}

fn evidence(read: &Read, answer: &Answer) -> Option<Evidence> {
    match answer {
        Answer::Stored(Some(Object::Pod(pod))) if pod.view.id.uid == read.pod.uid => {
            Some(if pod.view.ready() { Evidence::Ready } else { Evidence::NotReady })
        }
        Answer::Absent | Answer::Stored(_) => Some(Evidence::Gone),
        Answer::Refused(_) => None,
    }
}

fn describe(write: &Write) -> String {
    match write {
        Write::Ledger(write) => {
            let places: Vec<_> = write.spec.reservations.values().map(|place| place.pod.as_str()).collect();
            format!("ledger/{} epoch {}: [{}]", write.namespace, write.spec.leader.epoch, places.join(" "))
        }
        Write::NodeTransition(write) => {
            let grants: Vec<_> = write
                .spec
                .grants
                .iter()
                .map(|grant| {
                    let mode = if grant.mode == GrantMode::Hold { "(hold)" } else { "" };
                    format!("{}{mode}{}", grant.pod.name, if grant.cancel.is_some() { "(cancel)" } else { "" })
                })
                .collect();
            let fence = if write.fence.is_some() { ", fence" } else { "" };
            format!("grants of {}: [{}]{fence}", write.node, grants.join(" "))
        }
        Write::Service(service) => {
            let words = if service.open { "open" } else { "closed" };
            format!("{}: {words}, mark {}", write.key(), service.mark.as_deref().unwrap_or("none"))
        }
        other => other.key(),
    }
}

/// Namespace of the agents' own pods.
pub(crate) const AGENTS: &str = SYSTEM_NAMESPACE;
