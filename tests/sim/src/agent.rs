//! An agent process: the real round on watched caches, with the shell's order of writes and reports.

mod answers;
mod clients;
mod holder;
mod round;
mod writes;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hitless_agent::decision::Action;
use hitless_agent::memory::Memory;
use hitless_agent::pauses::PodPauses;
use hitless_agent::report::Pace;
use hitless_agent::view::{NodeIdentity, NodePod, Observation};
use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::PodView;
use hitless_api::{NodeTransition, NodeTransitionStatus, PodRef, Transition};
use jiff::Timestamp;

use crate::clock::{Micros, NEVER, SECOND};
use crate::faults::Fault;
use crate::ground::{Ground, ReplyTo};
use crate::server::{PodObject, Server, TransitionObject};
use crate::trace::Who;
use crate::watch::Feed;
use clients::Watched;
use holder::Holder;

const RETRY: Micros = SECOND;
/// The loop does a round at least this often. Here only where nothing else may wake it: in a Hold, and after a read that was not answered.
const LONGEST_SLEEP: Micros = 10 * SECOND;
/// Grants last for 90 s.
const LONG_AWAY: Micros = 85 * SECOND;
pub(crate) const LONGEST_AWAY: Micros = 140 * SECOND;

/// One process.
pub(crate) struct Agent {
    pub(crate) index: usize,
    life: u32,
    pub(crate) node: NodeIdentity,
    pub(crate) skew: Micros,
    pub(crate) pods: Feed<PodObject>,
    pub(crate) transitions: Feed<TransitionObject>,
    by_uid: BTreeMap<String, Arc<NodePod>>,
    memories: BTreeMap<String, Memory>,
    observations: BTreeMap<String, Observation>,
    watched: BTreeMap<String, Watched>,
    holder: Holder,
    /// It has decided since it was started.
    has_decided: bool,
    pauses: PodPauses<Duration>,
    pace: Pace,
    report_after: Micros,
    doing: Option<Doing>,
    next: Micros,
    /// Not running until then.
    pub(crate) down_until: Option<Micros>,
    /// It is of a version that knows no operation.
    pub(crate) refuses: bool,
    /// What it is and can do.
    pub(crate) info: AgentInfo,
}

/// The rest of a round.
struct Doing {
    /// What is still to be done, in this order.
    tasks: VecDeque<Task>,
    /// What was sent and not answered.
    sent: Option<Sent>,
    /// The turn's time.
    now: Timestamp,
    transition: Option<Arc<NodeTransition>>,
    entries: Vec<Transition>,
    wake: Micros,
    has_reported: bool,
}

enum Task {
    /// The grant with this number.
    Act(usize, Action),
    Raise(PodRef, &'static str),
}

enum Sent {
    Act(usize, Action),
    Raise(PodRef),
    /// A pod is read again after a conflict.
    Refresh,
    /// The grant with this number, and since when.
    Look(usize, Micros),
    Report(Box<NodeTransitionStatus>),
    ReadTransition,
}

impl Agent {
    pub(crate) fn new(index: usize, node: NodeIdentity) -> Self {
        Self {
            index,
            life: 0,
            node,
            skew: 0,
            pods: Feed::default(),
            transitions: Feed::default(),
            by_uid: BTreeMap::new(),
            memories: BTreeMap::new(),
            observations: BTreeMap::new(),
            watched: BTreeMap::new(),
            holder: Holder::default(),
            has_decided: false,
            pauses: PodPauses::default(),
            pace: Pace::default(),
            report_after: 0,
            doing: None,
            next: NEVER,
            down_until: None,
            refuses: false,
            info: AgentInfo::default(),
        }
    }

    fn who(&self) -> Who {
        Who::Agent(self.index)
    }

    /// Killed; started again at `back`.
    pub(crate) fn kill(&mut self, ground: &mut Ground, back: Micros) {
        ground.say(self.who(), || "killed".to_owned());
        if self.holder.holds() {
            ground.fault(Fault::AgentKilledInHold);
        }
        let (index, life, skew, refuses) = (self.index, self.life + 1, self.skew, self.refuses);
        let (node, info) = (self.node.clone(), self.info.clone());
        *self = Self { life, skew, refuses, info, down_until: Some(back), ..Self::new(index, node) };
    }

    pub(crate) fn wake(&self) -> Micros {
        if let Some(back) = self.down_until {
            return back;
        }
        let news = self.pods.next().min(self.transitions.next()).min(self.holder.next());
        if self.doing.is_some() { news } else { news.min(self.next) }
    }

    pub(crate) fn step(&mut self, ground: &mut Ground) {
        if let Some(back) = self.down_until {
            if ground.server.is_away() {
                self.down_until = Some(back.max(ground.now) + RETRY);
                return;
            }
            self.down_until = None;
            self.list(&ground.server);
            ground.say(self.who(), || "started".to_owned());
            self.next = ground.now;
        }
        self.deliver(&ground.server, ground.now);
        self.holder.step(self.who(), self.skew, ground);
        if self.doing.is_none() && (self.next <= ground.now || self.has_news()) {
            self.run_round(ground);
        }
    }

    /// What the next round has not been told yet.
    fn has_news(&self) -> bool {
        self.pods.is_changed() || self.transitions.is_changed() || self.holder.has_news()
    }

    /// The kubelet has done something to a pod of the node: the kernel shows it, whatever the watch does.
    pub(crate) fn kernel(&mut self, pod: &PodView, ground: &mut Ground) {
        self.holder.notice(pod, ground);
    }

    /// Whether it holds clients, or is about to.
    pub(crate) fn is_holding(&self) -> bool {
        self.holder.is_busy()
    }

    fn list(&mut self, server: &Server) {
        self.pods.break_until(0);
        self.transitions.break_until(0);
        self.deliver(server, server.now);
    }

    fn deliver(&mut self, server: &Server, now: Micros) {
        let name = self.node.name.as_str();
        let number = |version: &str| version.parse().unwrap_or_default();
        match self.pods.wants_list(now) {
            true if server.is_away() => self.pods.break_until(now + RETRY),
            true => {
                let own = server.pods.iter().filter(|(_, pod)| pod.view.node.as_deref() == Some(name));
                self.pods.list(own.map(|(key, pod)| (key.clone(), number(&pod.view.resource_version), pod.clone())));
            }
            false => self.pods.deliver(now),
        }
        match self.transitions.wants_list(now) {
            true if server.is_away() => self.transitions.break_until(now + RETRY),
            true => {
                let own = server.transitions.iter().filter(|(key, _)| &***key == name);
                self.transitions.list(
                    own.map(|(key, each)| (key.clone(), number(&each.view.version.resource_version), each.clone())),
                );
            }
            false => self.transitions.deliver(now),
        }
    }

    fn reply(&self) -> ReplyTo {
        ReplyTo { who: Who::Agent(self.index), life: self.life, token: 0 }
    }
}
