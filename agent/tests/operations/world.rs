//! A node in miniature: one pod, a kubelet, an API server that keeps every object, and an agent that may lose its memory at
//! any write. No time passes but what the test lets pass.

mod api_server;
pub(crate) mod app;
pub(crate) mod disturbances;
pub(crate) mod holder;
pub(crate) mod kubelet;
pub(crate) mod pod;
pub(crate) mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_agent::decision::{Action, Direction, Hold, Watch};
use hitless_agent::memory::Memory;
use hitless_agent::report::{self, Pace};
use hitless_agent::round::{NodeView, round};
use hitless_agent::view::{Count, Losses, NodeIdentity, NodePod, Observation};
use hitless_api::{Cancel, Grant, MicroTime, NodeTransition, NodeTransitionSpec, names};
use jiff::{SignedDuration, Timestamp};

use app::App;
use holder::Holder;
use kubelet::{Image, Kubelet};
use pod::{CONTAINER, FROM, TO};
use rules::Rules;

/// What goes wrong at one write of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Killed before the write.
    KilledBefore,
    /// Killed after the write, before the answer.
    KilledAfter,
    /// The write is lost and the agent told so, or not told whether.
    Lost,
    /// The write is done, but the agent is not told.
    Unanswered,
    /// The object has changed meanwhile.
    Conflict,
    /// The API server answers nothing for so many milliseconds. Then it carries this write out.
    Silence(i64),
}

/// How the pod's connections behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// They leave this many milliseconds after the pod has left and the kubelet has followed.
    Leave(i64),
    Stay,
    /// They can't be counted.
    Uncountable,
}

/// One image patch, and what the pod was like then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patched {
    pub(crate) direction: Direction,
    pub(crate) at: Timestamp,
    /// When the pod left, exactly.
    pub(crate) lowered_at: Option<Timestamp>,
    pub(crate) ready: bool,
    pub(crate) cancelled_before: bool,
    /// New connections were held and what was in flight had had its time, or there were none: the container did not run.
    pub(crate) held: bool,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) node: NodeIdentity,
    pub(crate) pod: NodePod,
    pub(crate) transition: NodeTransition,
    pub(crate) kubelet: Kubelet,
    pub(crate) holder: Holder,
    pub(crate) app: App,
    pub(crate) clients: Clients,
    /// What became of connections when the pod became not Ready.
    pub(crate) losses: Option<Losses>,
    /// How long the API server takes to answer a question, in milliseconds.
    pub(crate) answers_after: u32,
    pub(crate) rules: Rules,
    /// When the test wants to meddle.
    pub(crate) alarms: Vec<Timestamp>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) patches: Vec<Patched>,
    pub(crate) writes: Vec<&'static str>,
    pub(crate) denied: bool,
    /// Until when the API server is silent, and what it does then.
    silence: Option<(Timestamp, Action)>,
    memories: BTreeMap<String, Memory>,
    pace: Pace,
    lowered_at: Option<Timestamp>,
    /// The agent has seen a cancel.
    cancel_seen: bool,
    version: u64,
}

impl World {
    pub(crate) fn new(grant: Grant, new_image: Image) -> Self {
        let now = grant.granted.0;
        let spec = NodeTransitionSpec { node_uid: "node-uid".into(), epoch: 1, grants: vec![grant], propagation: None };
        let mut transition = NodeTransition::new("n1", spec);
        transition.metadata.resource_version = Some("1".into());
        Self {
            now,
            node: NodeIdentity { name: "n1".into(), uid: "node-uid".into() },
            pod: pod::running(now),
            transition,
            kubelet: Kubelet::new(new_image),
            holder: Holder::new(),
            app: App::default(),
            answers_after: 8,
            clients: Clients::Leave(0),
            losses: None,
            rules: Rules::NeverPass,
            alarms: Vec::new(),
            faults: Vec::new(),
            patches: Vec::new(),
            writes: Vec::new(),
            denied: false,
            silence: None,
            memories: BTreeMap::new(),
            pace: Pace::default(),
            lowered_at: None,
            cancel_seen: false,
            version: 10,
        }
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.transition.spec.grants[0]
    }

    pub(crate) fn result(&self) -> Option<(hitless_api::Outcome, String)> {
        let result = self.transition.transition(self.grant())?.result.clone()?;
        Some((result.outcome, result.reason))
    }

    pub(crate) fn cancel(&mut self) {
        self.transition.spec.grants[0].cancel =
            Some(Cancel { reason: "ChangedBack".into(), since: MicroTime(self.now) });
    }

    /// The container that runs now is not ready for so long, unless it is replaced.
    pub(crate) fn unready_for(&mut self, milliseconds: i64) {
        self.kubelet.unready_for(&mut self.pod, milliseconds, self.now);
    }

    pub(crate) fn kill(&mut self) {
        self.memories.clear();
        self.pace = Pace::default();
        self.app.kill();
        self.holder.kill(self.grant().drain.hold_cap_milliseconds.into());
    }

    /// Turns until the grant has ended and nothing is left to do, or until `limit`. `each` may meddle before every turn.
    pub(crate) fn run(&mut self, limit: SignedDuration, mut each: impl FnMut(&mut Self)) {
        let end = self.now.checked_add(limit).unwrap();
        while self.now < end && !(self.result().is_some() && self.in_service()) {
            each(self);
            let wake = self.run_round();
            let step = self.now.checked_add(SignedDuration::from_millis(5)).unwrap();
            let alarm = self.alarms.iter().copied().filter(|at| *at > self.now).min();
            let silence = self.silence.as_ref().map(|(until, _)| *until);
            let events = [self.kubelet.next(), self.holder.next(), self.app.next(), silence];
            let next = [wake, self.next_count(), self.next_pass(), alarm].into_iter().chain(events).flatten().min();
            self.now = next.unwrap_or(end).max(step).min(end);
            self.break_silence();
            self.kubelet.step(&mut self.pod, self.now);
            let cap = i64::from(self.grant().drain.hold_cap_milliseconds);
            self.holder.step(cap, &self.kubelet, &self.pod, self.now);
            self.pass();
        }
    }

    pub(crate) fn in_service(&self) -> bool {
        self.pod.view.in_service().is_some_and(|condition| condition.is_true)
    }

    /// The kubelet says that the container runs.
    pub(crate) fn runs(&self) -> bool {
        self.pod.view.containers[0].status.as_ref().is_some_and(|status| status.running_since.is_some())
    }

    pub(crate) fn image(&self) -> &str {
        &self.pod.view.containers[0].image
    }

    fn lowered_since(&self) -> Option<Timestamp> {
        let condition = self.pod.view.in_service()?;
        (!condition.is_true && condition.message == self.grant().id).then(|| condition.since.unwrap())
    }

    fn next_count(&self) -> Option<Timestamp> {
        let lowered = self.lowered_since()?;
        let Clients::Leave(milliseconds) = self.clients else { return None };
        let unready = self.pod.view.conditions.get("Ready").filter(|ready| !ready.is_true)?.since;
        let gone = lowered
            .max(unready.unwrap_or(lowered))
            .checked_add(SignedDuration::from_millis(milliseconds + 1000))
            .ok()?;
        (gone > self.now).then_some(gone)
    }

    fn observation(&self, watch: Watch) -> Observation {
        match (watch, self.clients) {
            (Watch::No | Watch::Replacing, _) => Observation::None,
            (_, Clients::Uncountable) => Observation::Failed("no such process".into()),
            (Watch::Leaving, _) | (Watch::Draining, Clients::Stay) => {
                Observation::Counted(Count { inbound: 3, busy: 1, idle: 2, ..Count::default() })
            }
            (Watch::Destroying, Clients::Stay) => {
                Observation::Counted(Count { most: 3, destroyed: 3, ..Count::default() })
            }
            (Watch::Draining | Watch::Destroying, Clients::Leave(_)) => {
                let gone = self.next_count().is_none();
                let inbound = if gone { 0 } else { 3 };
                Observation::Counted(Count { inbound, quiet: gone, losses: self.losses, ..Count::default() })
            }
        }
    }

    /// One round of the agent, as its loop does it. Says when it wants to be woken.
    pub(crate) fn run_round(&mut self) -> Option<Timestamp> {
        let now = self.now;
        let (transition, node) = (self.transition.clone(), self.node.clone());
        for grant in &transition.spec.grants {
            let memory = self.memories.entry(grant.id.clone()).or_default();
            memory.see(grant, now);
            memory.saying = self.app.saying.clone().filter(|saying| now < saying.until);
        }
        if let (Some((ask, answer)), Some(memory)) = (self.app.reply(now), self.memories.values_mut().next()) {
            memory.hook_answered(&ask.name, ask.attempt, answer, now);
        }
        let uid = self.pod.view.id.uid.clone();
        let pods = BTreeMap::from([(uid.clone(), Arc::new(self.pod.clone()))]);
        let memories = self.memories.clone();
        let decide = |observations: &BTreeMap<String, Observation>| {
            let transition = Some(&transition);
            let view =
                NodeView { node: &node, pods: &pods, transition, synced: true, memories: &memories, observations };
            let round = round(&view, now);
            let steps: Vec<_> = round.steps.iter().map(|(grant, step)| ((*grant).clone(), step.clone())).collect();
            (steps, round.raises)
        };
        // The watcher answers at once here: what is to be watched, then what is seen.
        let held = self.holder.observation();
        let before = held.clone().into_iter().map(|held| (uid.clone(), held)).collect();
        let watch = decide(&before).0.first().map_or(Watch::No, |(_, step)| step.watch);
        let observations = BTreeMap::from([(uid, held.unwrap_or_else(|| self.observation(watch)))]);
        let (steps, raises) = decide(&observations);
        self.cancel_seen |= self.grants_cancelled();
        let mut wake = steps.iter().filter_map(|(_, step)| step.wake_at).min();

        let mut entries = Vec::new();
        for (grant, step) in &steps {
            let reported = transition.transition(grant);
            let observation = &observations[&grant.pod.uid];
            let memory = self.memories.get_mut(&grant.id).unwrap();
            memory.enter(step, reported, now);
            memory.observe(step.phase, observation, now);
            memory.ask(step, now);
            entries.push(report::entry(grant, step, memory, observation, reported, now));
        }
        let ask = steps.first().and_then(|(_, step)| step.hook.as_ref());
        let in_service = self.in_service();
        self.app.order(ask, (in_service, &self.pod.view.containers[0].image), now);
        let told = steps.first().map_or(Hold::No, |(_, step)| step.hold);
        if let Some(grant) = transition.spec.grants.first() {
            self.holder.set_target(told, grant, !self.patches.is_empty(), now);
        }
        for (grant, step) in &steps {
            if let Some(action) = &step.action {
                if !self.act(grant, action) {
                    return Some(now);
                }
                wake = Some(now);
            }
        }
        for (_, reason) in raises {
            self.write("pods/status");
            pod::set_in_service(&mut self.pod, true, reason, "", now);
            self.kubelet.notice(&self.pod, now);
            wake = Some(now);
        }
        let stored = self.transition.status.clone().unwrap_or_default();
        let report = self.pace.report(&stored, &entries, &hitless_api::node_transition::AgentInfo::default(), now);
        if let Some(status) = report.write {
            wake = Some(now);
            if !self.store(&status) {
                return wake;
            }
        }
        wake.into_iter().chain(report.wake_at).min()
    }

    fn grants_cancelled(&self) -> bool {
        self.transition.spec.grants.iter().any(|grant| grant.cancel.is_some())
    }
}

/// The usual grant.
pub(crate) fn grant(now: Timestamp) -> Grant {
    let containers =
        BTreeMap::from([(CONTAINER.to_owned(), hitless_api::grant::ImageChange { from: FROM.into(), to: TO.into() })]);
    Grant {
        id: format!("{}.1234", pod::UID),
        epoch: 1,
        pod: pod::id(),
        owner: None,
        op: hitless_api::GrantOp::Update,
        mode: hitless_api::GrantMode::Leave,
        mode_reason: String::new(),
        unless_serving: false,
        unless_in_flight: false,
        unfetched: false,
        containers,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        before: BTreeMap::from([(CONTAINER.to_owned(), "containerd://0".to_owned())]),
        drain: hitless_api::DrainSpec::default(),
        verify: hitless_api::VerifySpec::default(),
        hooks: vec![],
        rules: vec![],
        granted: MicroTime(now),
        ttl_seconds: 60,
        while_unavailable: false,
        post_check: None,
        waits: Vec::new(),
        config: None,
        stands: None,
        cancel: None,
    }
}

/// When every test begins.
pub(crate) fn start() -> Timestamp {
    // In the middle of a second, because conditions keep whole ones.
    "2026-01-01T00:00:00.7Z".parse().unwrap()
}

/// Name of the condition.
pub(crate) const IN_SERVICE: &str = names::IN_SERVICE;
