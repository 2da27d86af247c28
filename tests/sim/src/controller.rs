//! A controller process: the real round on watched caches, in the shell's order of reads and writes.

mod caches;
mod round;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hitless_api::names::DEFAULT_SYSTEM_NAMESPACE;
use hitless_controller::controller::memory::Memory;
use hitless_controller::controller::retries::Retries;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{Explanation, Round, Step, explain};
use hitless_rollout::snapshot::Snapshot;
use jiff::Timestamp;

use crate::balancer::Driver;
use crate::checks::Seen;
use crate::clock::{MS, Micros, NEVER};
use crate::ground::Ground;
use crate::trace::Who;

pub(crate) use caches::Caches;

/// Changes that come together are decided together.
const DEBOUNCE: Micros = 20 * MS;

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
    /// The namespace whose pods it can't read, since when and until when.
    unread: Option<(String, Micros, Micros)>,
    /// Decisions so far.
    pub(crate) rounds: u64,
    /// When the last one was made, by its own clock.
    decided: Timestamp,
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
            unread: None,
            rounds: 0,
            decided: Timestamp::UNIX_EPOCH,
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

    /// Its last decision once more, with its reasons.
    pub(crate) fn explain(&self, ground: &Ground) -> Explanation {
        explain(&self.snapshot, &mut GateCache::default(), ground.wall(self.skew), |_| false)
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
}

/// Namespace of the agents' own pods.
pub(crate) const AGENTS: &str = DEFAULT_SYSTEM_NAMESPACE;
