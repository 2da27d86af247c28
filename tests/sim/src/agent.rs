//! An agent process: the real turn on watched caches, with the shell's order of writes and reports.

mod clients;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hitless_agent::decide::{Action, Decision, Watch};
use hitless_agent::memory::Memory;
use hitless_agent::patch::{self, Direction};
use hitless_agent::report::{self, Pace};
use hitless_agent::turn::turn;
use hitless_agent::view::{Missing, NodeIdentity, NodePod, Observation, View};
use hitless_api::node_transition::AgentInfo;
use hitless_api::{Grant, NodeTransition, NodeTransitionStatus, Outcome, Phase, PodRef, Transition};
use jiff::Timestamp;
use kube::api::Patch;

use crate::checks::Operation;
use crate::clock::{MS, Micros, NEVER, SECOND, when};
use crate::faults::Fault;
use crate::ground::{Ground, ReplyTo, text};
use crate::server::{Answer, Object, PodObject, Refusal, Request, Server, TransitionObject};
use crate::trace::Who;
use crate::watch::{Feed, Key};
use clients::Watched;

const CONFLICT_PAUSE: Micros = 10 * MS;
const DENIED_PAUSE: Micros = 100 * MS;
const TRANSIENT_PAUSE: Micros = 200 * MS;
const LONGEST_PAUSE: Micros = 5 * SECOND;
const RETRY: Micros = SECOND;
/// The loop turns at least this often. Here only where nothing else wakes it: after a read that was not answered.
const LONGEST_SLEEP: Micros = 10 * SECOND;

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
    pauses: BTreeMap<String, (Micros, Micros)>,
    pace: Pace,
    report_after: Micros,
    doing: Option<Doing>,
    next: Micros,
    /// Not running until then.
    pub(crate) down_until: Option<Micros>,
    /// It is of a version that knows no operation.
    pub(crate) refuses: bool,
}

/// The rest of a turn.
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
    Look(usize),
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
            pauses: BTreeMap::new(),
            pace: Pace::default(),
            report_after: 0,
            doing: None,
            next: NEVER,
            down_until: None,
            refuses: false,
        }
    }

    fn who(&self) -> Who {
        Who::Agent(self.index)
    }

    /// Killed; started again at `back`.
    pub(crate) fn kill(&mut self, ground: &mut Ground, back: Micros) {
        ground.say(self.who(), || "killed".to_owned());
        let (index, life, skew, refuses) = (self.index, self.life + 1, self.skew, self.refuses);
        *self = Self { life, skew, refuses, down_until: Some(back), ..Self::new(index, self.node.clone()) };
    }

    pub(crate) fn wake(&self) -> Micros {
        if let Some(back) = self.down_until {
            return back;
        }
        let news = self.pods.next().min(self.transitions.next());
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
        if self.doing.is_none() && (self.next <= ground.now || self.pods.is_changed() || self.transitions.is_changed())
        {
            self.turn(ground);
        }
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

    /// Decides once, and begins to act.
    fn turn(&mut self, ground: &mut Ground) {
        let now = ground.wall(self.skew);
        if self.pods.take_changed() {
            self.by_uid = self.pods.values().map(|pod| (pod.view.id.uid.clone(), pod.node_pod.clone())).collect();
        }
        self.transitions.take_changed();
        let transition = self.transitions.get(&self.node.name).map(|each| each.object.clone());
        self.remember_grants(transition.as_deref(), ground, now);
        self.observe(ground.now);
        let view = View {
            node: &self.node,
            pods: &self.by_uid,
            transition: transition.as_deref(),
            synced: true,
            memories: &self.memories,
            observations: &self.observations,
        };
        let decided = turn(&view, now);
        let mut steps: Vec<Decision> = decided.steps.into_iter().map(|(_, decision)| decision).collect();
        let raises = decided.raises;
        if self.refuses {
            steps.iter_mut().for_each(refuse);
        }
        let grants = transition.as_deref().map(|each| each.spec.grants.as_slice()).unwrap_or_default();
        let mut wake = steps.iter().filter_map(|step| step.wake_at).min().map_or(NEVER, |at| when(at) - self.skew);
        let entries = self.entries(grants, &steps, transition.as_deref(), ground, now);
        self.orders(grants, &steps, ground);
        wake = wake.min(self.watched.values().map(|each| each.next(ground.now)).min().unwrap_or(NEVER));
        let actions = steps.into_iter().enumerate();
        let mut tasks: VecDeque<Task> =
            actions.filter_map(|(index, step)| Some(Task::Act(index, step.action?))).collect();
        tasks.extend(raises.into_iter().map(|(pod, reason)| Task::Raise(pod, reason)));
        self.doing = Some(Doing { tasks, sent: None, now, transition, entries, wake, has_reported: false });
        self.go_on(ground);
    }

    fn remember_grants(&mut self, transition: Option<&NodeTransition>, ground: &mut Ground, now: Timestamp) {
        let grants = transition.map(|each| each.spec.grants.as_slice()).unwrap_or_default();
        self.memories.retain(|id, _| grants.iter().any(|grant| grant.id == *id));
        for grant in grants {
            if !self.memories.contains_key(&grant.id) {
                self.memories.insert(grant.id.clone(), Memory::default());
            }
            if let Some(memory) = self.memories.get_mut(&grant.id) {
                memory.see(grant, now);
            }
            if grant.cancel.is_some() {
                ground.checks.cancel_seen(grant);
            }
        }
    }

    fn entries(
        &mut self,
        grants: &[Grant],
        steps: &[Decision],
        transition: Option<&NodeTransition>,
        ground: &mut Ground,
        now: Timestamp,
    ) -> Vec<Transition> {
        let mut entries = Vec::with_capacity(steps.len());
        for (grant, step) in grants.iter().zip(steps) {
            let reported = transition.and_then(|each| each.transition(grant));
            let Some(memory) = self.memories.get_mut(&grant.id) else { continue };
            if memory.enter(step.phase, reported, now) && reported.is_none_or(|each| each.result.is_none()) {
                ground.trace.say(ground.now, Who::Agent(self.index), || {
                    let waits: Vec<_> = step.waiting_for.iter().map(ToString::to_string).collect();
                    format!("{}: {:?} {} {}", grant.pod.name, step.phase, step.message, waits.join(", "))
                });
            }
            let observation = self.observations.get(&grant.pod.uid).unwrap_or(&Observation::None);
            if let Observation::Counted(count) = observation {
                memory.count(step.phase, *count);
            }
            entries.push(report::entry(grant, step, memory, observation, reported, now));
        }
        entries
    }

    /// Which pods are looked at from now on.
    fn orders(&mut self, grants: &[Grant], steps: &[Decision], ground: &mut Ground) {
        let mut wanted: BTreeMap<&str, bool> = BTreeMap::new();
        for (grant, step) in grants.iter().zip(steps) {
            match step.watch {
                Watch::No | Watch::Replacing => {}
                Watch::Leaving => _ = wanted.insert(&grant.pod.uid, false),
                Watch::Draining | Watch::Destroying => _ = wanted.insert(&grant.pod.uid, true),
            }
        }
        self.watched.retain(|uid, _| wanted.contains_key(uid.as_str()));
        for (uid, draining) in wanted {
            if !self.watched.contains_key(uid) {
                let watched = Watched::new(ground);
                self.watched.insert(uid.to_owned(), watched);
            }
            if let Some(watched) = self.watched.get_mut(uid) {
                watched.follow(draining, ground.now);
            }
        }
    }

    fn observe(&mut self, now: Micros) {
        let known: BTreeSet<&String> = self.watched.keys().collect();
        self.observations.retain(|uid, _| known.contains(uid));
        for (uid, watched) in &self.watched {
            self.observations.insert(uid.clone(), watched.look(now));
        }
    }

    fn reply(&self) -> ReplyTo {
        ReplyTo { who: Who::Agent(self.index), life: self.life, token: 0 }
    }

    /// Sends the next write of the turn; ends the turn when nothing is left.
    fn go_on(&mut self, ground: &mut Ground) {
        loop {
            let Some(doing) = &mut self.doing else { return };
            let Some(task) = doing.tasks.pop_front() else { break };
            let transition = doing.transition.clone();
            let grant = |index: usize| transition.as_deref().and_then(|each| each.spec.grants.get(index));
            match task {
                Task::Act(index, action) => {
                    if let Some(grant) = grant(index)
                        && self.act(index, grant, action, ground)
                    {
                        return;
                    }
                }
                Task::Raise(pod, reason) => {
                    if self.raise(pod, reason, ground) {
                        return;
                    }
                }
            }
        }
        self.report(ground);
    }

    fn is_paused(&self, uid: &str, now: Micros) -> bool {
        self.pauses.get(uid).is_some_and(|(until, _)| *until > now)
    }

    fn pause(&mut self, uid: &str, first: Micros, now: Micros) {
        self.pauses.retain(|_, (until, _)| *until + LONGEST_PAUSE > now);
        let length = self.pauses.get(uid).map_or(first, |(_, length)| first.max(length * 2)).min(LONGEST_PAUSE);
        self.pauses.insert(uid.to_owned(), (now + length, length));
    }

    /// Begins one action; false if there is nothing to send.
    fn act(&mut self, index: usize, grant: &Grant, action: Action, ground: &mut Ground) -> bool {
        let uid = grant.pod.uid.as_str();
        if self.is_paused(uid, ground.now) {
            return false;
        }
        if action == Action::Look {
            ground.send(Request::Read(grant.pod.clone()), self.reply());
            return self.sending(Sent::Look(index));
        }
        // The pod that this was decided on.
        let Some(pod) = self.by_uid.get(uid).cloned() else { return false };
        let now = ground.wall(self.skew);
        if let Some(memory) = self.memories.get_mut(&grant.id) {
            memory.sending(&action, grant, &pod.view, now);
        }
        let mut operation = Operation { id: grant.id.clone(), granted: grant.granted.0, forward: true };
        ground.say(self.who(), || format!("{}: {action:?}", grant.pod.name));
        let condition =
            |is_true, reason: &str, message: &str| patch::in_service(&pod.view, is_true, reason, message, now);
        let request = match &action {
            Action::Look => return false,
            Action::Lower => {
                let patch = condition(false, "Leaving", &grant.id);
                Request::InService { pod: grant.pod.clone(), patch, operation: Some(operation) }
            }
            Action::Raise { reason, message } => {
                let patch = condition(true, reason, message);
                Request::InService { pod: grant.pod.clone(), patch, operation: Some(operation) }
            }
            Action::Operate | Action::Undo => {
                let forward = action == Action::Operate;
                operation.forward = forward;
                ground.checks.operating(ground.now, &operation);
                let direction = if forward { Direction::Forward } else { Direction::Back };
                let Patch::Json(patch) = patch::images(&pod, grant, direction).build() else { return false };
                Request::Images { pod: grant.pod.clone(), patch, operation }
            }
        };
        self.transmit(request, Sent::Act(index, action), ground)
    }

    /// Sends a write, unless the process is killed at that moment.
    fn transmit(&mut self, request: Request, sent: Sent, ground: &mut Ground) -> bool {
        if ground.chance.happens(ground.weather.agent_killed) {
            let back = ground.now + ground.chance.delay(100 * MS, 10 * SECOND);
            if ground.chance.happens(5_000) {
                ground.fault(Fault::AgentKilledBeforeWrite);
                self.kill(ground, back);
                return true;
            }
            ground.fault(Fault::AgentKilledAfterWrite);
            ground.send(request, self.reply());
            self.kill(ground, back);
            return true;
        }
        ground.send(request, self.reply());
        self.sending(sent)
    }

    fn sending(&mut self, sent: Sent) -> bool {
        if let Some(doing) = &mut self.doing {
            doing.sent = Some(sent);
        }
        true
    }

    fn raise(&mut self, pod: PodRef, reason: &'static str, ground: &mut Ground) -> bool {
        if self.is_paused(&pod.uid, ground.now) {
            return false;
        }
        let Some(known) = self.by_uid.get(&pod.uid).cloned() else { return false };
        ground.say(self.who(), || format!("{}: raise ({reason})", pod.name));
        let patch = patch::in_service(&known.view, true, reason, "", ground.wall(self.skew));
        let request = Request::InService { pod: pod.clone(), patch, operation: None };
        self.transmit(request, Sent::Raise(pod), ground)
    }

    fn report(&mut self, ground: &mut Ground) {
        let Some(doing) = &mut self.doing else { return };
        if let Some(transition) = doing.transition.clone().filter(|_| !doing.has_reported) {
            doing.has_reported = true;
            let no_status = NodeTransitionStatus::default();
            let stored = transition.status.as_ref().unwrap_or(&no_status);
            let report = self.pace.report(stored, &doing.entries, &AgentInfo::default(), doing.now);
            let may = self.report_after <= ground.now;
            if may && let Some(status) = report.write {
                ground.say(self.who(), || {
                    let all: Vec<_> = status.transitions.iter().map(shown).collect();
                    format!("reports [{}]", all.join(", "))
                });
                let version = hitless_controller::snapshot::Version {
                    uid: transition.metadata.uid.clone().unwrap_or_default(),
                    resource_version: transition.metadata.resource_version.clone().unwrap_or_default(),
                };
                let node: Key = self.node.name.as_str().into();
                let request = Request::Report { node, version, status: Box::new(status.clone()) };
                self.transmit(request, Sent::Report(Box::new(status)), ground);
                return;
            }
            if may && let Some(at) = report.wake_at {
                doing.wake = doing.wake.min(when(at) - self.skew);
            }
        }
        self.end_turn(ground.now);
    }

    fn end_turn(&mut self, now: Micros) {
        let Some(doing) = self.doing.take() else { return };
        let retry = self.pauses.values().map(|(until, _)| *until).filter(|until| *until > now).min().unwrap_or(NEVER);
        let report = if self.report_after > now { self.report_after } else { NEVER };
        self.next = doing.wake.max(now).min(retry).min(report);
        if self.pods.is_changed() || self.transitions.is_changed() {
            self.next = now;
        }
    }

    /// The API server's answer.
    pub(crate) fn answer(&mut self, ground: &mut Ground, to: ReplyTo, answer: Answer) {
        if to.life != self.life || self.down_until.is_some() {
            return;
        }
        let Some(doing) = &mut self.doing else { return };
        let Some(sent) = doing.sent.take() else { return };
        let transition = doing.transition.clone();
        if let Answer::Refused(why) = &answer {
            let why = *why;
            ground.say(Who::Agent(self.index), || format!("  {why:?}"));
        }
        match sent {
            Sent::Act(index, action) => {
                let grant = transition.as_deref().and_then(|each| each.spec.grants.get(index));
                if let Some(grant) = grant {
                    self.acted(grant, &action, &answer, ground);
                    if self.learn(&grant.pod, answer, ground) {
                        return;
                    }
                }
            }
            Sent::Raise(pod) => {
                if self.learn(&pod, answer, ground) {
                    return;
                }
            }
            Sent::Refresh => {
                if matches!(answer, Answer::Refused(_)) {
                    doing.wake = doing.wake.min(ground.now + LONGEST_SLEEP);
                }
                self.put(answer);
            }
            Sent::Look(index) => {
                let grant = transition.as_deref().and_then(|each| each.spec.grants.get(index));
                if let Some(grant) = grant {
                    self.looked(grant, answer, ground);
                }
            }
            Sent::Report(status) => return self.reported(&status, answer, ground),
            Sent::ReadTransition => {
                let pause = if matches!(answer, Answer::Stored(_)) { 20 * MS } else { RETRY };
                self.put(answer);
                self.report_after = ground.now + pause;
                return self.end_turn(ground.now);
            }
        }
        self.go_on(ground);
    }

    fn acted(&mut self, grant: &Grant, action: &Action, answer: &Answer, ground: &Ground) {
        let now = ground.wall(self.skew);
        let Some(memory) = self.memories.get_mut(&grant.id) else { return };
        match answer {
            Answer::Stored(_) => memory.done(action, now),
            Answer::Refused(Refusal::Denied(words)) => {
                memory.not_done(action);
                memory.refused(action, "AdmissionDenied", words, now);
            }
            Answer::Absent | Answer::Refused(Refusal::Conflict | Refusal::Gone) => {
                memory.not_done(action);
                if matches!(action, Action::Operate | Action::Undo) {
                    memory.refused(action, "PatchConflict", "changed", now);
                }
            }
            Answer::Refused(Refusal::Transient) => {}
        }
    }

    /// What an answer to a write of a pod means for the next one; true if the pod is read again first.
    fn learn(&mut self, pod: &PodRef, answer: Answer, ground: &mut Ground) -> bool {
        match answer {
            Answer::Stored(_) => {
                self.pauses.remove(&pod.uid);
                self.put(answer);
            }
            Answer::Absent | Answer::Refused(Refusal::Conflict | Refusal::Gone) => {
                self.pause(&pod.uid, CONFLICT_PAUSE, ground.now);
                ground.send(Request::Read(pod.clone()), self.reply());
                return self.sending(Sent::Refresh);
            }
            Answer::Refused(Refusal::Denied(_)) => self.pause(&pod.uid, DENIED_PAUSE, ground.now),
            Answer::Refused(Refusal::Transient) => self.pause(&pod.uid, TRANSIENT_PAUSE, ground.now),
        }
        false
    }

    fn looked(&mut self, grant: &Grant, answer: Answer, ground: &mut Ground) {
        let uid = grant.pod.uid.as_str();
        let missing = match &answer {
            Answer::Absent => Missing::Gone,
            Answer::Stored(Some(Object::Pod(pod))) if pod.view.node.as_deref() != Some(self.node.name.as_str()) => {
                Missing::OtherNode
            }
            Answer::Stored(_) => {
                self.put(answer);
                return self.pause(uid, CONFLICT_PAUSE, ground.now);
            }
            Answer::Refused(_) => return self.pause(uid, TRANSIENT_PAUSE, ground.now),
        };
        self.pauses.remove(uid);
        if let Some(memory) = self.memories.get_mut(&grant.id) {
            memory.missing = Some(missing);
        }
        if let Some(doing) = &mut self.doing {
            doing.wake = ground.now;
        }
    }

    fn reported(&mut self, status: &NodeTransitionStatus, answer: Answer, ground: &mut Ground) {
        match &answer {
            Answer::Stored(_) => {
                let now = self.doing.as_ref().map_or_else(|| ground.wall(self.skew), |doing| doing.now);
                self.pace.wrote(now);
                self.report_after = 0;
                for entry in &status.transitions {
                    if let Some(memory) = self.memories.get_mut(&entry.id) {
                        memory.reported(entry);
                    }
                }
                self.put(answer);
                // The report may have been waited for.
                if let Some(doing) = &mut self.doing {
                    doing.wake = doing.wake.min(ground.now);
                }
            }
            Answer::Absent | Answer::Refused(Refusal::Conflict | Refusal::Gone) => {
                ground.send(Request::ReadTransition(self.node.name.as_str().into()), self.reply());
                self.sending(Sent::ReadTransition);
                return;
            }
            Answer::Refused(_) => self.report_after = ground.now + RETRY,
        }
        ground.say(self.who(), || format!("  report: {}", text(&Answer::Stored(None))));
        self.end_turn(ground.now);
    }

    fn put(&mut self, answer: Answer) {
        let number = |version: &str| version.parse().unwrap_or_default();
        match answer {
            Answer::Stored(Some(Object::Pod(pod))) => {
                let key: Key = pod.view.id.uid.as_str().into();
                self.pods.put(&key, number(&pod.view.resource_version), pod);
            }
            Answer::Stored(Some(Object::NodeTransition(each))) => {
                let key: Key = each.view.node.as_str().into();
                self.transitions.put(&key, number(&each.view.version.resource_version), each);
            }
            _ => {}
        }
    }
}

/// As an agent of a version that knows no operation.
fn refuse(step: &mut Decision) {
    if step.phase == Phase::Granted && step.result.is_none() {
        step.action = None;
        step.watch = Watch::No;
        step.result = Some((Outcome::Refused, "UnsupportedOp".to_owned()));
    }
}

fn shown(entry: &Transition) -> String {
    let result = entry.result.as_ref().map(|result| format!(" {:?}/{}", result.outcome, result.reason));
    format!("{:?}{}", entry.phase, result.unwrap_or_default())
}
