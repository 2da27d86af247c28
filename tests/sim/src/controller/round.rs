//! Does a round: decides, reads pods again, writes, and takes the answers.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;

use hitless_api::GrantMode;
use hitless_api::names::DEFAULT_SYSTEM_NAMESPACE;
use hitless_controller::controller::answers::answered;
use hitless_rollout::round::write::{ledger_of, service};
use hitless_rollout::round::{Read, Step, under_way};
use hitless_rollout::snapshot::{Evidence, LedgerView, LeftOut, Namespaces, NodeTransitionView, Unread, is_ours};
use hitless_workloads::{COMPONENTS, Installed, Write};
use jiff::Timestamp;

use super::{Controller, DEBOUNCE, Doing};
use crate::checks::Seen;
use crate::clock::{MS, Micros, NEVER, SECOND, micros, passed, stamp, when};
use crate::decide;
use crate::faults::Fault;
use crate::ground::{Ground, ReplyTo, text};
use crate::server::{self, Answer, Object, Refusal, Request};
use crate::trace::Who;

/// The loop does a round at least this often. Here only where nothing else wakes it: after a read that was not answered.
const ROUND_AT_LEAST_EVERY: Micros = 10 * SECOND;

impl Controller {
    pub(super) fn run_round(&mut self, ground: &mut Ground) {
        self.next = NEVER;
        let Some((epoch, _)) = self.term else { return };
        let wall = ground.wall(self.skew);
        self.snapshot.epoch = epoch;
        self.caches.fill(&mut self.snapshot);
        let named = Namespaces::named(&self.snapshot);
        let workloads = self.memory.to_read(epoch, &named, || under_way(&self.snapshot));
        if !workloads.is_empty() {
            if ground.server.is_away() {
                self.next = ground.now + SECOND;
                return;
            }
            self.caches.read_workloads(&workloads, &ground.server);
            self.caches.fill(&mut self.snapshot);
            for workload in &workloads {
                self.memory.was_read(workload);
            }
        }
        if ground.has_operators || ground.has_jobs || ground.has_clone_sets {
            self.snapshot.installed = Arc::new(Installed::with(&COMPONENTS));
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
        self.decided = wall;
        self.leave_out(&named, ground);
        let round = decide::round(&self.snapshot, &mut self.memory.gate_cache, wall);
        if let Some(later) = round.deposed {
            ground.say(self.who(), || format!("is of epoch {epoch}, and found {later}"));
            self.next = ground.now + SECOND;
            return;
        }
        self.driver.follow(round.pools.clone(), ground.now);
        self.next = round.wake_at.map_or(NEVER, |at| when(at) - self.skew);
        self.next = self.unread.as_ref().map_or(self.next, |(_, _, until)| self.next.min(*until));
        let left = round.reads.len();
        for (token, read) in round.reads.iter().enumerate() {
            ground.say(Who::Controller(self.index), || format!("reads pod {}", read.pod.name));
            let to = ReplyTo { who: Who::Controller(self.index), life: self.life, token };
            ground.send(Request::Read(read.pod.clone()), to);
        }
        self.doing = Doing::Reading { round: Box::new(round), left, proven: false };
        self.go_on(ground);
    }

    /// The pods of one of these namespaces can't be read for a while, but for those that carry something of ours: the watch tells of them.
    fn leave_out(&mut self, named: &BTreeSet<String>, ground: &mut Ground) {
        if self.unread.as_ref().is_some_and(|(_, _, until)| *until <= ground.now) {
            self.unread = None;
            self.caches.fill_pods(&mut self.snapshot);
        }
        if self.unread.is_none() && ground.chance.happens(ground.weather.unread) {
            let others: Vec<&String> = named.iter().filter(|name| *name != DEFAULT_SYSTEM_NAMESPACE).collect();
            if !others.is_empty() {
                let name = ground.chance.pick(&others).clone();
                let until = ground.now + ground.chance.delay(SECOND, 60 * SECOND);
                ground.fault(Fault::NamespaceUnread);
                ground.say(self.who(), || format!("can't read the pods of namespace {name}"));
                self.unread = Some((name, ground.now, until));
            }
        }
        let since = |since: Micros| LeftOut { unread: Unread::Pods, since: stamp(since) };
        let left_out = self.unread.iter().map(|(name, begun, _)| (name.clone(), since(*begun)));
        self.snapshot.left_out = left_out.collect();
        self.snapshot.uncounted = self.unread.is_some();
        if let Some((name, _, _)) = &self.unread {
            self.snapshot.pods.retain(|pod| pod.id.namespace != *name || is_ours(pod));
        }
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
            let seen = self.seen(&steps, ground.wall(self.skew));
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
            let is_grant = steps[index].write.verb == "node-transition";
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
            ground.send(Request::Lead { write, seen: seen.clone(), decided: self.decided }, to);
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
    fn seen(&self, steps: &[Step], now: Timestamp) -> Option<Arc<Seen>> {
        steps.iter().any(|step| ledger_of(&step.write).is_some()).then(|| {
            Arc::new(Seen {
                pods: self.snapshot.pods.clone(),
                rules: self.snapshot.rules.clone(),
                objects: self.snapshot.objects.clone(),
                services: self.snapshot.services.clone(),
                lost: Seen::lost(&self.snapshot.pods, self.snapshot.nodes.values().map(|node| &**node), now),
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
                let error = match &answer {
                    Answer::Stored(_) => None,
                    Answer::Absent => Some(Refusal::Gone.error()),
                    Answer::Refused(why) => Some(why.error()),
                };
                let times = (ground.wall(self.skew), passed(ground.now));
                let result = error.as_ref().map_or(Ok(()), Err);
                answered(write, result, &mut self.memory, &mut self.retries, times);
                match answer {
                    Answer::Stored(object) => {
                        if write.is_dry_run() {
                            self.next = self.next.min(ground.now);
                        }
                        if let Some(object) = object {
                            self.caches.put(object);
                        }
                    }
                    Answer::Absent => {}
                    Answer::Refused(why) => {
                        let at = server::key(&write.on.namespace, &write.on.name);
                        if why == Refusal::Conflict
                            && write.on.group_kind.is("", "Service")
                            && let Some(current) = ground.server.services.get(&at)
                        {
                            self.caches.put(Object::Service(current.view.clone()));
                        }
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
    let key = write.key();
    if let Some(ledger) = LedgerView::after(write, None) {
        let places: Vec<_> = ledger.spec.reservations.values().map(|place| place.pod.as_str()).collect();
        format!("{key} epoch {}: [{}]", ledger.spec.leader.epoch, places.join(" "))
    } else if let Some(node) = NodeTransitionView::after(write, None) {
        let grants = node.spec.grants.iter().map(|grant| {
            let mode = if grant.mode == GrantMode::Hold { "(hold)" } else { "" };
            format!("{}{mode}{}", grant.pod.name, if grant.cancel.is_some() { "(cancel)" } else { "" })
        });
        let fence = if node.fence.is_some() { ", fence" } else { "" };
        format!("grants of {}: [{}]{fence}", node.node, grants.collect::<Vec<_>>().join(" "))
    } else if let Some((open, mark)) = service::content(write) {
        let words = if open { "open" } else { "closed" };
        format!("{key}: {words}, mark {}", mark.as_deref().unwrap_or("none"))
    } else {
        key
    }
}
