//! One decision about the whole cluster: snapshot and time in, ordered writes out. Pure.
//!
//! Phases, in an order that their types enforce: is this still the leader, and are all ledgers of its epoch (`fencing`) → what is
//! wished (`wishes`) → which operations have ended, and on what evidence (`endings`) → who might go (`candidates`) → whose grants
//! were lost → what do the rules say → who goes (`grants`) → what follows from that. Each is a function of the value of the one
//! before, and returns changes; [`draft::Draft`] makes the writes of all of them.

mod approvals;
mod attempts;
mod candidates;
mod chance;
mod change;
mod companions;
mod dependency;
mod draft;
mod endings;
mod endpoints;
mod events;
mod explain;
mod fencing;
mod finalizers;
mod gaps;
mod grants;
mod halts;
mod images;
mod in_service_fallback;
mod in_the_way;
mod inoperable;
mod last_endpoint;
mod lasting;
mod lifecycle;
mod losses;
mod lost;
mod natively;
mod policy_notes;
mod pool_wait;
mod pools;
mod prefetch;
mod refusals;
mod relabel;
mod reload;
mod removals;
mod requests;
mod reserve;
mod rule_status;
mod service_publishing;
mod stand_in;
mod start_up;
mod trials;
mod unfit;
mod wait_reason;
mod wishes;
mod words;
mod write;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::mode::{Forecast, Policies, Traffic};
use crate::pools::{PoolWish, Pools};
use hitless_api::event::EventNote;
use hitless_api::{Grant, MicroTime, ObjectRef, PodRef, Propagation};
use hitless_gate::Verdict;
use jiff::{Timestamp, Unit};

pub(crate) use companions::is_made;
pub use companions::{Companion, wants_all};
pub use endings::Read;
pub use explain::{Details, Explanation, PodReport, WorkloadReport, explain};
pub use hitless_gate::Lasting;
pub use pool_wait::PoolWait;
pub use reload::Reload;
pub use service_publishing::READY_FOR;
pub use wait_reason::{Behind, NotFetched, WaitReason, no_agent, unfit};
pub(crate) use wishes::operations;
pub use wishes::under_way;
pub use words::{unblock, words};
pub use write::{
    CompanionWrite, EndedHold, InServiceFallback, LedgerWrite, NodeTransitionWrite, PrefetchWrite, ProviderStatusWrite,
    RoleBindingWrite, RuleStatusWrite, ServiceWrite, Step, WithoutAgent, Write,
};

use candidates::Basis;
use change::Change;
use draft::Draft;
use fencing::Fence;
use grants::Granted;

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
    pub waiting: Option<WaitReason>,
    /// What the rules said, if they were asked.
    pub gate: Option<Verdict>,
    /// Leave or Hold, if it is granted.
    pub expected: Option<Forecast>,
    /// The rules let none of all pods go, or no other pod serves while it is operated; and a companion pod may run beside it.
    pub beside_companion: bool,
}

impl PodVerdict {
    /// What it waits for and what to do, for people; `None`: it is granted.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match (&self.waiting, &self.gate) {
            (Some(WaitReason::Rules), Some(gate)) => {
                let said = gate.denied().map(|rule| format!("{}: {}", rule.rule, words(rule, self.beside_companion)));
                Some(said.collect::<Vec<_>>().join("; "))
            }
            (waiting, _) => waiting.as_ref().map(WaitReason::text),
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
    /// What is wanted of pools of load balancers outside of the cluster; the same as last time as long as nothing changes.
    pub pools: Vec<PoolWish>,
    /// How many workloads that have opted in are at each stage, by its name.
    pub stages: BTreeMap<&'static str, usize>,
    /// What people should know; the same as last time as long as it holds.
    pub events: Vec<EventNote>,
    /// When to decide again even if nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// Decides. `now` is the wall clock. `cache` saves time and nothing else: one that has seen nothing gives the same answer.
#[must_use]
pub fn round(snapshot: &Snapshot, cache: &mut GateCache, now: Timestamp) -> Round {
    match Pass::begin(snapshot, cache, now) {
        Ok(pass) => pass.finish().round,
        Err(round) => *round,
    }
}

/// A round up to the point at which pods are judged.
struct Pass<'a, 'g> {
    basis: Basis<'a, 'g>,
    /// With what has ended, and with the Services of operations that are under way.
    draft: Draft<'a>,
    asked: approvals::Asked,
    beside: dependency::Beside<'a>,
    /// What the authors of rules and budgets should mend.
    faults: Vec<EventNote>,
}

/// A round that has been decided, and what it rests on.
struct Finished<'a> {
    round: Round,
    wishes: wishes::Wishes<'a>,
    ended: endings::Ended<'a>,
    images: images::Images<'a>,
    lost: lost::Lost<'a>,
    reloads: reload::Reloads,
    inoperable: inoperable::Inoperable,
}

impl<'a, 'g> Pass<'a, 'g> {
    /// The round itself if it ends here.
    fn begin(snapshot: &'a Snapshot, cache: &'g mut GateCache, now: Timestamp) -> Result<Self, Box<Round>> {
        // What is written must compare equal when it is read again, and the wire has microseconds.
        let now = now.round(Unit::Microsecond).unwrap_or(now);
        match fencing::check(snapshot) {
            Fence::Deposed(later) => return Err(Box::new(Round { deposed: Some(later), ..Round::default() })),
            Fence::TakeOver(changes) => {
                let steps = Draft::new(snapshot, now).with(changes).into_steps();
                return Err(Box::new(Round { steps, ..Round::default() }));
            }
            Fence::Ours => {}
        }
        let images = images::Images::new(snapshot, now);
        let mut wishes = wishes::derive(snapshot, &images, now);
        let gate = cache.sync(snapshot, &wishes.world);
        let faults = gate.faults();
        let beside = dependency::Beside::of(snapshot);
        let endings::Endings { ended, changes } = endings::derive(&wishes, &beside, snapshot, now);
        let draft = Draft::new(snapshot, now).with(changes);
        let lost = lost::Lost::of(snapshot, now);
        let trials = trials::Trials::of(&wishes, &ended, &lost);
        let overdue = lifecycle::Overdue::of(snapshot, now);
        let gate = grants::tell(gate, &wishes, &ended, (&trials, &overdue, &lost), &draft);
        let nodes = snapshot.node_transitions.values();
        let least_seconds = Propagation::least_seconds(nodes.filter_map(|node| node.spec.propagation.as_ref()));
        let policies = Policies::of(&snapshot.drain_policies, least_seconds);
        let traffic = Traffic::new(&snapshot.services, &snapshot.pods).with_lost(lost.uids());
        let (post_checks, asked) = approvals::post_checks(&wishes, gate, snapshot, now);
        let pools = Pools::of(&snapshot.services, &snapshot.providers, &snapshot.pools);
        let draft = draft.with(pools::waits(&wishes, &pools, snapshot));
        let draft = draft.with(post_checks).with(service_publishing::keep(&wishes, &ended, &traffic, snapshot));
        let draft = draft.with(last_endpoint::cancels(&wishes, &ended, &traffic, snapshot, now));
        let mut dependencies = dependency::Dependencies::of(&wishes, &beside, snapshot, now);
        let draft = draft.with(std::mem::take(&mut dependencies.changes));
        let reloads = reload::decide(&wishes, snapshot, now);
        wishes.by_pod.extend(companions::retiring(&wishes, &ended, &traffic, &lost, snapshot));
        let companions = companions::Companions::new(snapshot, now);
        let losses = losses::known(&wishes, now);
        let learned = gaps::learned(&wishes);
        Ok(Self {
            basis: Basis {
                snapshot,
                wishes,
                ended,
                trials,
                gate,
                policies,
                traffic,
                images,
                pools,
                pool_members: OnceCell::new(),
                companions,
                dependencies,
                learned,
                losses,
                reloads,
                lost,
            },
            draft,
            asked,
            beside,
            faults,
        })
    }

    fn finish(self) -> Finished<'a> {
        let Self { basis, draft, mut asked, beside, faults } = self;
        let granted = basis.candidates(&basis.wishes.by_pod, draft).resume(&basis).judge(&basis).grant(&basis);
        let Granted { draft, verdicts } = granted;
        let (slow, away) = (start_up::slow(&basis, draft.now), basis.dependencies.notes.clone());
        let prefetches = prefetch::decide(&basis, &verdicts, draft.now);
        let companions = companions::decide(&basis, &verdicts, &draft);
        let Basis { snapshot, wishes, ended, gate, policies, learned, losses, reloads, pools, images, lost, .. } =
            basis;
        asked.add_all(&verdicts, &wishes);

        let mut events = events::notes(&wishes, &ended, &verdicts, &snapshot.own_writes);
        events.extend(events::misspelt(snapshot));
        events.extend(lost.notes(&wishes));
        let overdue = lifecycle::Overdue::of(snapshot, draft.now);
        events.extend(overdue.notes(&wishes));
        events.extend(events::not_fetched(&wishes, &images));
        events.extend(events::fetching(&wishes, &verdicts));
        events.extend(prefetches.notes);
        events.extend(events::without_agent(&wishes, &ended, snapshot, draft.now));
        events.extend(events::too_large(snapshot));
        events.extend(slow.notes.into_iter().chain(away));
        events.extend(policy_notes::notes(&wishes, &policies));
        let inoperable = inoperable::find(&wishes, &policies);
        events.extend(inoperable::notes(&wishes, &inoperable));
        events.extend(endpoints::notes(&wishes));
        events.extend(faults);
        events.extend(reloads.notes.iter().cloned());
        events.extend(pools::notes(&pools, snapshot));
        let now = draft.now;
        // What would be said of a namespace that is not known need not be true.
        events.retain(|note| !note.regarding.namespace.as_ref().is_some_and(|name| snapshot.leaves_out(name)));
        events.extend(events::left_out(snapshot, now));
        let (closed, close_at) = service_publishing::close(&wishes, &draft);
        let fallback = in_service_fallback::decide(snapshot, now);
        let statuses = rule_status::decide(snapshot, &verdicts, now);
        let requested = requests::reports(&wishes, &verdicts, snapshot);
        events.extend(requested.notes);
        let wake_at = [
            close_at,
            fallback.wake_at,
            ended.wake_at,
            statuses.wake_at,
            asked.wake_at,
            prefetches.wake_at,
            overdue.wake_at,
            lost.wake_at,
            slow.wake_at,
        ];
        // A pod that counts as available again may let another one go.
        let settled_at = wishes.world.recently_ready.values().min().copied().filter(|_| !verdicts.is_empty());
        let wake_at = wake_at.into_iter().flatten().chain(companions.wake_at).chain(settled_at);
        let planned = wishes.plans.iter().filter_map(|plan| plan.wake_at);
        let wake_at = wake_at.chain(reloads.wake_at).chain(requested.wake_at).chain(planned).min();
        let plans = wishes.plans.iter().enumerate().filter(|(index, _)| !reloads.comes_first(*index));
        let workloads = plans.flat_map(|(_, plan)| &plan.writes).cloned().map(Change::Workload);
        let unfits = unfit::Unfits { wishes: &wishes, ended: &ended, images: &images, snapshot, now };
        let mut marks = unfits.changes();
        marks.extend(halts::changes(&unfits, gate));
        marks.extend(gaps::changes(&wishes, &learned, &losses, &reloads));
        marks.extend(reloads.changes());
        let back = |grant: &Grant| !beside.is_away(grant, &wishes);
        let again = chance::changes(&wishes, &ended, back, &change::written(&marks), now);
        marks.extend(again);
        let refused = refusals::changes(&wishes, snapshot, &change::written(&marks), now);
        marks.extend(refused);
        let draft = draft.with(closed).with(workloads).with(lifecycle::changes(&wishes, snapshot, now));
        let draft = draft.with(requested.writes.into_iter().map(Change::Workload)).with(marks);
        let draft = draft.with(fallback.changes).with(statuses.changes);
        let draft = draft.with(pools::statuses(&pools, snapshot, now));
        let pools = pools::wishes(&pools, &draft);
        let draft = draft.with(prefetches.changes).with(companions.changes);
        let reads = ended.reads.iter().filter(|read| !snapshot.leaves_out(&read.pod.namespace)).cloned().collect();
        let steps = draft.into_steps();
        let stages = wishes.stages();
        let round = Round { deposed: None, steps, reads, verdicts, asks: asked.asks, pools, stages, events, wake_at };
        Finished { round, wishes, ended, images, lost, reloads, inoperable }
    }
}

fn micro(time: Timestamp) -> MicroTime {
    MicroTime(time)
}
