//! One run: actors on common ground, each taking its turn in virtual time.

mod clone_sets;
mod colla_sets;
mod dependencies;
mod exits;
mod foreground;
mod helpers;
mod incidents;
mod jobs;
mod nodes;
mod operators;
mod pauses;
mod rest;
mod services;
mod setup;

use std::collections::BTreeMap;

use hitless_api::Grant;

use crate::agent::Agent;
use crate::clock::{MS, Micros, NEVER, SECOND, shown};
use crate::controller::Controller;
use crate::counts::HoldCounts;
use crate::faults::{Counts, Fault, Weather};
use crate::ground::Ground;
use crate::kubelet::Kubelet;
use crate::kubernetes::Kubernetes;
use crate::server::{Change, Object, Told};
use crate::trace::Who;
use crate::user::User;

pub(crate) use operators::Foreign;

/// A Lease that is not renewed is taken after so long.
const LEASE: Micros = 15 * SECOND;
/// More steps than any run needs.
const STEPS: u64 = 400_000;
/// So long, in virtual time, nothing may take once faults have ended.
const PATIENCE: Micros = 3_600 * SECOND;

/// If nothing but prefetch pods has changed for so long, nothing else will.
const QUIET: Micros = 900 * SECOND;

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The invariant that was broken, with its time.
    pub broken: Option<String>,
    /// Rollouts that were begun.
    pub rollouts: u64,
    /// Rollouts that did not reach their target, by the obstacle that was named.
    pub obstacles: BTreeMap<String, u64>,
    /// Faults that were injected.
    pub faults: Counts,
    /// What happened around Holds.
    pub holds: HoldCounts,
    /// Our writes by kind.
    pub writes: BTreeMap<&'static str, u64>,
    /// Decisions of controllers.
    pub rounds: u64,
    /// What happened, if it was asked for.
    pub trace: Vec<String>,
}

/// A node: its kubelet and its agent.
pub(crate) struct Node {
    pub(crate) kubelet: Kubelet,
    pub(crate) agent: Agent,
    /// Whether the API server was told that the agent is there.
    agent_up: bool,
    /// How often the Node was made anew.
    generation: u32,
    /// It never gets an agent.
    has_no_agent: bool,
    /// It does not answer any more, and nobody gives it up.
    is_lost: bool,
}

pub(crate) struct World {
    pub(crate) ground: Ground,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) kubernetes: Kubernetes,
    pub(crate) user: User,
    epoch: i64,
    /// Somebody is to take the Lease then.
    election: Micros,
    weather: Weather,
    obstacles: BTreeMap<String, u64>,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, traced: bool) -> Outcome {
    let mut world = World::new(seed, traced);
    world.live();
    let World { mut ground, user, obstacles, controllers, .. } = world;
    let broken = ground.checks.broken.take().map(|(at, what)| format!("{}: {what}", shown(at).trim_start()));
    if let Some(what) = &broken {
        ground.say(Who::Server, || format!("BROKEN {what}"));
    }
    Outcome {
        seed,
        broken,
        rollouts: user.rollouts,
        obstacles,
        faults: ground.faults,
        holds: ground.checks.counted,
        writes: ground.server.written,
        rounds: controllers.iter().map(|each| each.rounds).sum(),
        trace: ground.trace.into_lines(),
    }
}

impl World {
    /// All rounds of changes, each with faults and then without.
    fn live(&mut self) {
        for round in 0..self.user.rounds {
            self.ground.weather = self.weather.clone();
            let end = self.plan(round);
            self.run_until(end);
            self.calm();
            if !self.settle() || !self.rest(false) {
                return;
            }
        }
        self.cure();
        if self.settle() && self.rest(true) && self.ground.nodes.is_some() {
            self.take_exits();
            _ = self.settle() && self.rest(true);
        }
    }

    /// Lets time pass up to `end`.
    fn run_until(&mut self, end: Micros) {
        let mut steps = 0;
        while self.ground.checks.goes_on() && self.next() <= end && steps < STEPS {
            self.step();
            steps += 1;
        }
        if self.ground.checks.goes_on() {
            self.ground.pass_to(end);
        }
    }

    /// Lets everything come to an end; false if it does not, or if something is broken.
    fn settle(&mut self) -> bool {
        // Where starts may take ten minutes, so do rollouts for each of their pods.
        let patience = if self.ground.servers.is_some() { 24 * PATIENCE } else { PATIENCE };
        let (end, mut steps) = (self.ground.now + patience, 0);
        while self.ground.checks.goes_on() {
            let next = self.next();
            // Only images that can't be pulled are tried again and again. What a new leader makes of all this is not known before
            // it has decided.
            let is_quiet = next.saturating_sub(self.ground.server.changed_at) > QUIET
                && !self.user.has_operators()
                && self.controllers.iter().any(|each| each.is_done_for_now(self.ground.now));
            if next == NEVER || is_quiet {
                return true;
            }
            if next > end || steps > STEPS {
                let what = self.unrest();
                self.ground.checks.fail(self.ground.now, format!("it never comes to rest: {what}"));
            }
            self.step();
            steps += 1;
        }
        false
    }

    /// When something happens next.
    fn next(&self) -> Micros {
        let now = self.ground.now;
        let controllers = self.controllers.iter().map(|each| each.wake(now)).min().unwrap_or(NEVER);
        let drives = self.controllers.iter().map(|each| each.drives_at(self.epoch, &self.ground)).min();
        let controllers = controllers.min(drives.unwrap_or(NEVER));
        let nodes = self.nodes.iter().map(|node| node.kubelet.wake().min(node.agent.wake())).min().unwrap_or(NEVER);
        [self.ground.next_flight(), controllers, nodes, self.kubernetes.wake(), self.user.wake(), self.election]
            .into_iter()
            .min()
            .unwrap_or(NEVER)
    }

    /// Lets the next thing happen.
    fn step(&mut self) {
        let now = self.next().max(self.ground.now);
        self.ground.pass_to(now);
        self.elect();
        while let Some(deed) = self.user.take_due(now) {
            self.incident(deed);
            self.flush();
        }
        while self.ground.next_flight() <= now {
            if let Some((answer, to)) = self.ground.land() {
                match to.who {
                    Who::Controller(index) => self.controllers[index].answer(&mut self.ground, to, answer),
                    Who::Agent(index) => self.nodes[index].agent.answer(&mut self.ground, to, answer),
                    Who::Kubelet(_) | Who::Kubernetes | Who::User | Who::Server => {}
                }
            }
            self.flush();
        }
        for index in 0..self.nodes.len() {
            if self.nodes[index].kubelet.wake() <= now {
                self.nodes[index].kubelet.step(&mut self.ground);
                self.flush();
            }
        }
        if self.kubernetes.wake() <= now {
            self.kubernetes.step(&mut self.ground);
            self.flush();
        }
        for index in 0..self.nodes.len() {
            if self.nodes[index].agent.wake() <= now {
                self.nodes[index].agent.step(&mut self.ground);
                self.flush();
            }
        }
        for controller in &mut self.controllers {
            if controller.drives_at(self.epoch, &self.ground) <= now {
                controller.drive(&mut self.ground);
            }
            if controller.wake(now) <= now {
                controller.step(&mut self.ground);
            }
        }
        self.agents_up();
        self.trouble();
    }

    /// The readiness of agents' pods follows them.
    fn agents_up(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let up = node.agent.down_until.is_none() && !node.kubelet.dead;
            if up != node.agent_up {
                node.agent_up = up;
                self.kubernetes.agent_is(index, up, &mut self.ground);
            }
        }
    }

    /// Tells watchers, kubelets and controllers of Kubernetes what has changed.
    fn flush(&mut self) {
        while !self.ground.server.outbox.is_empty() {
            for change in std::mem::take(&mut self.ground.server.outbox) {
                self.tell(&change);
            }
        }
    }

    fn tell(&mut self, change: &Change) {
        let ground = &mut self.ground;
        for controller in self.controllers.iter_mut().filter(|each| each.down_until.is_none()) {
            let due = due(ground);
            if ground.chance.happens(ground.weather.watch_broken) {
                ground.fault(Fault::WatchBroken);
                let until = ground.now + ground.chance.delay(100 * MS, 10 * SECOND);
                let kind = ground.chance.index(controller.caches.kinds());
                controller.caches.break_until(kind, until);
            }
            controller.caches.tell(due, change);
            if ground.chance.happens(ground.weather.repeated) {
                ground.fault(Fault::Repeated);
                controller.caches.tell(due, change);
            }
        }
        self.kubernetes.notice(&change.what, &change.key, ground);
        match &change.what {
            Told::Is(Object::Pod(_)) | Told::Deleted(crate::server::Kind::Pod) => {
                let Some(index) = change.node.as_deref().and_then(node_index) else { return };
                let Some(node) = self.nodes.get_mut(index) else { return };
                let object = match &change.what {
                    Told::Is(Object::Pod(pod)) => Some(pod.clone()),
                    _ => None,
                };
                let own = object.as_ref().filter(|pod| !pod.view.host_network && !node.kubelet.dead);
                if let Some(pod) = own {
                    node.kubelet.notice(&change.key, ground);
                    node.agent.kernel(&pod.view, ground);
                }
                if node.agent.down_until.is_none() {
                    let due = due(ground);
                    break_watch(ground, |until| node.agent.pods.break_until(until));
                    node.agent.pods.tell(due, change.version, change.key.clone(), object);
                }
            }
            Told::Is(Object::NodeTransition(each)) => {
                let node = node_index(&change.key).and_then(|index| self.nodes.get_mut(index));
                if let Some(node) = node.filter(|node| node.agent.down_until.is_none()) {
                    let due = due(ground);
                    break_watch(ground, |until| node.agent.transitions.break_until(until));
                    node.agent.transitions.tell(due, change.version, change.key.clone(), Some(each.clone()));
                }
            }
            Told::Deleted(crate::server::Kind::NodeTransition) => {
                let node = node_index(&change.key).and_then(|index| self.nodes.get_mut(index));
                if let Some(node) = node {
                    let due = due(ground);
                    node.agent.transitions.tell(due, change.version, change.key.clone(), None);
                }
            }
            Told::Is(Object::Service(service)) => {
                let held = service.mark().filter(|_| service.open).and_then(Grant::pod_uid_of);
                ground.troubles.extend(held.map(str::to_owned));
            }
            _ => {}
        }
    }

    /// Somebody must lead: when nobody does, another process takes the Lease after a while.
    fn elect(&mut self) {
        let now = self.ground.now;
        let led = self
            .controllers
            .iter()
            .any(|each| each.leads(now) && each.term.is_some_and(|(epoch, _)| epoch == self.epoch));
        if led {
            self.election = NEVER;
        } else if self.election == NEVER {
            self.election = now + self.ground.chance.delay(10 * MS, LEASE);
        } else if now >= self.election {
            let standing: Vec<usize> =
                self.controllers.iter().filter(|each| each.down_until.is_none()).map(|each| each.index).collect();
            if standing.is_empty() {
                self.election = now + SECOND;
                return;
            }
            let next = self.ground.chance.pick(&standing);
            self.elevate(next);
        }
    }

    /// The controller takes the Lease.
    fn elevate(&mut self, next: usize) {
        self.epoch += 1;
        self.election = NEVER;
        let (now, epoch) = (self.ground.now, self.epoch);
        self.ground.say(Who::Controller(next), || format!("leads, epoch {epoch}"));
        self.controllers[next].lead(Some(epoch), now);
    }
}

/// When a watcher is told of what happens now.
fn due(ground: &mut Ground) -> Micros {
    let usual = ground.now + ground.chance.delay(MS, 25 * MS);
    if ground.chance.happens(ground.weather.watch_delayed) {
        ground.fault(Fault::WatchDelayed);
        return usual + ground.chance.delay(200 * MS, 8 * SECOND);
    }
    usual.max(ground.server.away_until)
}

fn break_watch(ground: &mut Ground, broken: impl FnOnce(Micros)) {
    if ground.chance.happens(ground.weather.watch_broken) {
        ground.fault(Fault::WatchBroken);
        broken(ground.now + ground.chance.delay(100 * MS, 10 * SECOND));
    }
}

/// Number of the node with this name.
pub(crate) fn node_index(name: &str) -> Option<usize> {
    name.strip_prefix('n')?.parse().ok()
}
