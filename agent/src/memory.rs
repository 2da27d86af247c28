//! What this process remembers of a grant. All of it may be lost at any time: it only makes waits and reports more exact, and
//! bridges the moment in which a cache that is read anew is older than an own write.

use std::collections::BTreeMap;

use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{Grant, HookTime, Outcome, Phase, Transition};
use jiff::Timestamp;

use crate::decision::{Action, Decision, Direction, WaitingFor};
use crate::deed::Deed;
use crate::hooks::answer::Answer;
use crate::hooks::called::Called;
use crate::hooks::task::Saying;
use crate::instant::after_seconds;
use crate::view::{Count, Held, HoldNumbers, Listening, Missing, Observation, Stage};

/// Memory of one grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `granted` of the grant that is remembered.
    pub granted: Option<Timestamp>,
    /// When this process saw the grant first.
    pub seen: Option<Timestamp>,
    /// resourceVersion of the pod for which a request to lower InService was sent and not answered: as long as the pod is seen
    /// in that version, it may have been carried out, or may be yet.
    pub lowering: Option<String>,
    /// When InService was lowered, exactly.
    pub lowered: Option<Timestamp>,
    /// When the image patch was sent, and which containers ran then.
    pub operated: Option<Operated>,
    /// How often containers had been restarted then, by name.
    pub restarts: BTreeMap<String, u32>,
    /// When the images were patched back, and which containers ran then.
    pub undone: Option<Operated>,
    /// Everybody had gone from a pod that is to be deleted. It stays so, also where the report of it gets lost.
    pub left_for_good: bool,
    /// The phase, and since when.
    pub phase: Option<(Phase, Timestamp)>,
    /// When the pod was first seen with what the patch has written.
    pub patched: Option<Timestamp>,
    /// When all new containers had been started first.
    pub started: Option<Timestamp>,
    /// What asking for a pod that is not in the cache gave.
    pub missing: Option<Missing>,
    /// A write to the pod has been refused.
    pub denied: Option<Denied>,
    /// The reason for the way back, once the API server has it: a cache that is read anew may forget it for a moment.
    pub rollback: Option<String>,
    /// The last count before the containers were operated, for the report.
    pub drained: Option<Count>,
    /// The Hold under which the containers were operated, for the report.
    pub held: Option<HoldNumbers>,
    /// When a Hold had ended before the containers were operated.
    pub hold_failed: Option<Timestamp>,
    /// When the new processes listened.
    pub listening: Option<Listening>,
    /// When the new containers were first seen to be ready.
    pub ready: Option<Timestamp>,
    /// When they had answered as their readiness probes ask.
    pub answered: Option<Timestamp>,
    /// How quickly the API server answered last.
    pub round_trip: Option<RoundTrip>,
    /// The hooks that were called, by name.
    pub hooks: BTreeMap<String, Called>,
    /// What the application has said by itself.
    pub saying: Option<Saying>,
    /// Since when the operation waits because of that.
    pub task_since: Option<Timestamp>,
    /// How the pod's volumes were found.
    pub volumes: Option<Volumes>,
    /// When the kubelet was last asked to look at them.
    pub volumes_wanted: Option<Timestamp>,
}

/// How the pod's volumes were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// When.
    pub at: Timestamp,
    /// How.
    pub state: VolumesState,
}

/// Whether volumes have what a grant names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumesState {
    /// They have.
    AsExpected,
    /// They have something else.
    Other,
    /// It can't be told, for this reason.
    Failed(String),
}

/// A question to the API server, and how long its answer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the answer came.
    pub at: Timestamp,
    /// How long it took.
    pub milliseconds: u32,
}

/// The moment of an image patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operated {
    /// When it was sent.
    pub at: Timestamp,
    /// containerID by container name right before.
    pub before: BTreeMap<String, String>,
}

/// A write that the API server refuses, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The write that is refused.
    pub action: Action,
    /// The first of a row of refusals.
    pub since: Timestamp,
    /// The last one.
    pub last: Timestamp,
    /// In CamelCase: `AdmissionDenied`, or `PatchConflict` if what the patch tests is not so.
    pub reason: &'static str,
    /// The server's words.
    pub words: String,
}

impl Memory {
    /// The grant is there. Nothing is remembered of an earlier grant of the same operation, which has the same id.
    pub fn see(&mut self, grant: &Grant, now: Timestamp) {
        if self.granted != Some(grant.granted.0) {
            *self = Self { granted: Some(grant.granted.0), ..Self::default() };
        }
        self.seen.get_or_insert(now);
    }

    /// That was decided. Says whether the phase is new.
    pub fn enter(&mut self, decision: &Decision, reported: Option<&Transition>, now: Timestamp) -> bool {
        let phase = decision.phase;
        // Of all operations only that of a pod that leaves for good ends here.
        self.left_for_good |=
            phase == Phase::Draining && decision.result.as_ref().is_some_and(|(outcome, _)| *outcome == Outcome::Done);
        if phase == Phase::Operating && decision.action.is_none() {
            self.patched.get_or_insert(now);
        }
        if self.operated.is_some() && decision.is_past_start() {
            self.ready.get_or_insert(now);
        }
        if self.phase.is_some_and(|(known, _)| known == phase) {
            return false;
        }
        let stored = reported.filter(|reported| reported.phase == phase).map(|reported| reported.since.0);
        let since = stored.unwrap_or(now);
        self.phase = Some((phase, since));
        if matches!(phase, Phase::Verifying | Phase::Checking) {
            self.started.get_or_insert(since);
        }
        true
    }

    /// The pod's connections were counted.
    pub fn count(&mut self, phase: Phase, count: Count) {
        // While a hook is called that waited for the connections to go, its own are counted.
        let was_drained = self.hooks.values().any(|called| called.when == HookTime::AfterDrain);
        if phase <= Phase::Operating && self.operated.is_none() && !was_drained {
            self.drained = Some(count);
        }
    }

    /// The pod was looked at.
    pub fn observe(&mut self, phase: Phase, observation: &Observation, now: Timestamp) {
        match observation {
            Observation::None | Observation::Failed(_) => {}
            Observation::Counted(count) => {
                self.count(phase, *count);
                self.listening = self.listening.or(count.listening);
            }
            Observation::Held(held) => self.hold(phase, held, now),
        }
    }

    /// The numbers of the way back are not kept: it is the way there that teaches the gap.
    fn hold(&mut self, phase: Phase, held: &Held, now: Timestamp) {
        if held.direction == Direction::Back {
            return;
        }
        self.held = Some(held.numbers);
        self.listening = self.listening.or(held.listening);
        if held.stage == Stage::Released && phase < Phase::Operating {
            self.hold_failed = Some(now);
        }
    }

    /// The application is asked, or waited for.
    pub fn ask(&mut self, decision: &Decision, now: Timestamp) {
        if let Some(ask) = &decision.hook {
            self.hooks.entry(ask.name.clone()).or_insert_with(|| Called::new(ask, now));
        }
        if decision.waiting_for.iter().any(|what| matches!(what, WaitingFor::Task(_))) {
            self.task_since.get_or_insert(now);
        }
    }

    /// A call of a hook has ended.
    pub fn hook_answered(&mut self, name: &str, attempt: u32, answer: Answer, now: Timestamp) {
        if let Some(called) = self.hooks.get_mut(name) {
            called.answered(attempt, answer, now);
        }
    }

    /// The pod's volumes were looked at.
    pub fn looked_at_volumes(&mut self, found: Result<bool, String>, now: Timestamp) {
        let state = match found {
            Ok(true) => VolumesState::AsExpected,
            Ok(false) => VolumesState::Other,
            Err(why) => VolumesState::Failed(why),
        };
        self.volumes = Some(Volumes { at: now, state });
    }

    /// The API server has answered a question that was asked so long ago.
    pub fn answered(&mut self, milliseconds: u32, now: Timestamp) {
        self.round_trip = Some(RoundTrip { at: now, milliseconds });
    }

    /// A write is about to be sent. What an image patch replaces is noted before the answer: the kubelet is quicker.
    pub fn sending(&mut self, action: &Action, grant: &Grant, pod: &PodView, now: Timestamp) {
        let ids = Deed::of(grant).container_ids(pod);
        let before = ids.map(|(name, id)| (name.to_owned(), id.to_owned()));
        let operated = || Some(Operated { at: now, before: before.collect() });
        match action {
            Action::Patch(Direction::Forward) => {
                let restarts =
                    |container: &ContainerView| Some((container.name.clone(), container.status.as_ref()?.restarts));
                self.operated = operated();
                self.restarts = Deed::of(grant).containers(pod).filter_map(restarts).collect();
            }
            Action::Patch(Direction::Back) => self.undone = operated(),
            Action::LeaveService => self.lowering = Some(pod.resource_version.clone()),
            Action::FetchPod
            | Action::LookAtVolumes
            | Action::WantVolumes
            | Action::ShowDrained
            | Action::ReturnToService { .. } => {}
        }
    }

    /// A write was done.
    pub fn done(&mut self, action: &Action, now: Timestamp) {
        self.denied = None;
        match action {
            Action::LeaveService => (self.lowered, self.lowering) = (Some(now), None),
            Action::WantVolumes => self.volumes_wanted = Some(now),
            Action::FetchPod
            | Action::LookAtVolumes
            | Action::ShowDrained
            | Action::ReturnToService { .. }
            | Action::Patch(_) => {}
        }
    }

    /// A write was certainly not done.
    pub fn not_done(&mut self, action: &Action) {
        match action {
            Action::Patch(Direction::Forward) => self.operated = None,
            Action::Patch(Direction::Back) => self.undone = None,
            Action::LeaveService => self.lowering = None,
            Action::FetchPod
            | Action::LookAtVolumes
            | Action::WantVolumes
            | Action::ShowDrained
            | Action::ReturnToService { .. } => {}
        }
    }

    /// A write is refused, and perhaps always will be.
    pub fn refused(&mut self, action: &Action, reason: &'static str, words: &str, now: Timestamp) {
        // An earlier write may have been done after all, without an answer: its refusals say nothing about this one.
        let known = self.denied.take().filter(|denied| denied.action == *action && !denied.is_old(now));
        let since = known.map_or(now, |denied| denied.since);
        self.denied = Some(Denied { action: action.clone(), since, last: now, reason, words: words.to_owned() });
    }

    /// The API server has this report.
    pub fn reported(&mut self, entry: &Transition) {
        self.rollback.clone_from(&entry.rollback);
    }
}

impl Denied {
    /// The ledger may be newer than the API server's copy of it: so long a refusal counts for nothing (docs/contract.md#forbidden).
    pub const LAG_SECONDS: u32 = 5;

    /// Whether it has lasted too long to be a lag: what was refused once and not tried since may be allowed by now.
    #[must_use]
    pub fn lasting(&self) -> bool {
        self.last >= after_seconds(self.since, Self::LAG_SECONDS)
    }

    /// Whether the next refusal begins a new row.
    fn is_old(&self, now: Timestamp) -> bool {
        now >= after_seconds(self.last, 3 * Self::LAG_SECONDS)
    }
}
