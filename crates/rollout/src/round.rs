//! One decision about the whole cluster: snapshot and time in, ordered writes out. Pure.
//!
//! Order inside a round: is this still the leader → take over ledgers of an earlier one, and nothing else → what do workloads
//! wish → which operations have ended, and on what evidence → reservations without a grant → who may go next (gate) →
//! stand-ins. All of it works on drafts of the ledgers and NodeTransitions, so that "release and reserve the next" is one
//! write, and "remove the grant and add the next" is one.

mod approvals;
mod blocked;
mod completion;
mod draft;
mod events;
mod fencing;
mod gaps;
mod grants;
mod holds;
mod intents;
mod rivals;
mod rule_status;
mod stand_in;
mod write;

use crate::mode::Policies;
use hitless_api::event::Note;
use hitless_api::{MicroTime, ObjectRef, PodRef, Propagation};
use hitless_gate::Verdict;
use hitless_workloads::World;
use jiff::{Timestamp, Unit};

pub use blocked::Waiting;
pub use completion::Read;
pub use stand_in::GRACE_SECONDS as STAND_IN_GRACE_SECONDS;
pub use write::{EndedHold, LedgerWrite, NodeTransitionWrite, RuleStatusWrite, ServiceWrite, StandIn, Step, Write};

use crate::Ask;
use crate::gate_cache::GateCache;
use crate::snapshot::Snapshot;

/// Annotation on a NodeTransition that names the reservations for which there is, and by this write will be, no grant in it.
pub const FENCE: &str = "hitless.dev/fence";

/// Why a pod that wishes something is not being operated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVerdict {
    /// The pod.
    pub pod: PodRef,
    /// Its top workload.
    pub owner: Option<ObjectRef>,
    /// What it waits for; `None`: it is granted.
    pub waiting: Option<Waiting>,
    /// What the rules said, if they were asked.
    pub gate: Option<Verdict>,
}

impl PodVerdict {
    /// What it waits for and what to do, for people; `None`: it is granted.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match (&self.waiting, &self.gate) {
            (Some(Waiting::Rules), Some(gate)) => {
                Some(gate.denied().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
            (waiting, _) => waiting.as_ref().map(Waiting::text),
        }
    }
}

/// What a round decided.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// A leader of this later epoch has written: nothing may be written any more.
    pub deposed: Option<i64>,
    /// In this order; see [`Step::needs`].
    pub steps: Vec<Step>,
    /// Pods to be read afresh: their state is evidence that an operation has ended.
    pub reads: Vec<Read>,
    /// Every pod that wishes something, and whether it may.
    pub verdicts: Vec<PodVerdict>,
    /// Approvers to be asked; the same as last time as long as nothing changes.
    pub asks: Vec<Ask>,
    /// What people should know; the same as last time as long as it holds.
    pub events: Vec<Note>,
    /// When to decide again even if nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// Decides. `now` is the wall clock. `cache` saves time and nothing else: one that has seen nothing gives the same answer.
#[must_use]
pub fn round(snapshot: &Snapshot, cache: &mut GateCache, now: Timestamp) -> Round {
    // What is written must compare equal when it is read again, and the wire has microseconds.
    let now = now.round(Unit::Microsecond).unwrap_or(now);
    match fencing::check(snapshot) {
        fencing::Fence::Deposed(later) => return Round { deposed: Some(later), ..Round::default() },
        fencing::Fence::TakeOver(steps) => return Round { steps, ..Round::default() },
        fencing::Fence::Held => {}
    }
    let operating = intents::operating(snapshot);
    let world = World::new(&snapshot.objects, &snapshot.pods, &operating, now);
    let wishes = intents::derive(snapshot, &world);
    let gate = cache.sync(snapshot, &world);
    let mut draft = draft::Draft::new(snapshot, now);
    let ended = completion::complete(&wishes, &mut draft);
    let nodes = snapshot.node_transitions.values();
    let least_seconds = Propagation::least_seconds(nodes.filter_map(|node| node.spec.propagation.as_ref()));
    let policies = Policies::of(&snapshot.drain_policies, least_seconds);
    let mut holds = holds::Holds::new(snapshot);
    holds.keep(&wishes, &ended);
    grants::tell_places(&ended, &draft, gate);
    let mut asked = approvals::post_checks(&wishes, &mut draft, gate);
    let verdicts = grants::grant(&wishes, &ended, &mut draft, gate, &policies, &mut holds);
    asked.add_all(&verdicts, &wishes);
    let stand_in = stand_in::decide(snapshot, now);

    let mut events = events::notes(&wishes, &ended, &verdicts);
    events.extend(rivals::notes(&wishes, &policies));
    let mut steps = draft.into_steps();
    let (services, close_at) = holds.steps(&wishes, &steps, now);
    steps.extend(services);
    steps.extend(gaps::steps(&wishes, snapshot));
    steps.extend(wishes.plans.iter().flat_map(|plan| &plan.writes).cloned().map(Step::workload));
    steps.extend(stand_in.steps);
    let statuses = rule_status::decide(snapshot, &verdicts, now);
    steps.extend(statuses.steps);
    let wake_at =
        [close_at, stand_in.wake_at, ended.wake_at, statuses.wake_at, asked.wake_at].into_iter().flatten().min();
    Round { deposed: None, steps, reads: ended.reads, verdicts, asks: asked.asks, events, wake_at }
}

fn micro(time: Timestamp) -> MicroTime {
    MicroTime(time)
}
