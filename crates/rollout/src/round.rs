//! One decision about the whole cluster: snapshot and time in, ordered writes out. Pure.
//!
//! Phases, in an order that their types enforce: is this still the leader, and are all ledgers of its epoch (`fencing`) → what is
//! wanted (`desired`) → which operations have ended, and on what evidence (`endings`) → who might go (`candidates`) → whose grants
//! were lost → what do the rules say → who goes (`grants`) → what follows from that (`features`). Each is a function of the value of the
//! one before, and returns changes; [`write_plan::WritePlan`] makes the writes of all of them.

mod absence;
mod approvals;
mod attempts;
mod by_workload;
mod candidates;
mod change;
mod companions;
mod decided;
mod explain;
mod facts;
mod features;
mod fencing;
mod finalizers;
mod grants;
mod in_the_way;
mod last_endpoint;
mod lasting;
mod natively;
mod note;
mod operable;
mod pod_verdict;
mod pool_wait;
mod pools;
mod relabel;
mod removals;
mod reserve;
mod stand_in;
mod wait_reason;
mod words;
pub mod write;
mod write_plan;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::mode::{Policies, Traffic};
use crate::pools::{DesiredPool, Pools};
use hitless_api::Propagation;
use hitless_api::event::EventNote;
use jiff::{Timestamp, Unit};

pub use by_workload::ByWorkload;
pub(crate) use companions::is_made;
pub use companions::wants_all;
pub use explain::{Details, Explanation, PodReport, WorkloadReport, explain};
pub(crate) use facts::desired::operations;
pub use facts::desired::under_way;
pub use facts::endings::Read;
pub use facts::reload::Reload;
pub use features::service_publishing::READY_FOR;
pub use hitless_gate::{Lasting, Places};
pub use pod_verdict::PodVerdict;
pub use pool_wait::PoolWait;
pub use wait_reason::companion::Companion;
pub use wait_reason::{Behind, NotFetched, WaitReason, no_agent, unfit};
pub use words::{unblock, words};
pub use write::{FENCE, Step};

use facts::Facts;
use features::Followed;
use fencing::Fence;
use grants::Granted;
use write_plan::WritePlan;

use crate::Ask;
use crate::gate_cache::GateCache;
use crate::snapshot::Snapshot;

/// What a round decided.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// A leader of this later epoch has written: nothing may be written any more.
    pub deposed: Option<i64>,
    /// In this order; see [`Step::needs`].
    pub steps: Vec<Step>,
    /// Pods to be read afresh: their state is evidence that an operation has ended.
    pub reads: Vec<Read>,
    /// Every pod that wants something, and whether it may.
    pub verdicts: Vec<PodVerdict>,
    /// Approvers to be asked; the same as last time as long as nothing changes.
    pub asks: Vec<Ask>,
    /// What is wanted of pools of load balancers outside of the cluster; the same as last time as long as nothing changes.
    pub pools: Vec<DesiredPool>,
    /// How many workloads that have opted in are at each stage, by its name.
    pub stages: BTreeMap<&'static str, usize>,
    /// Those of them at which something happens.
    pub by_workload: Vec<ByWorkload>,
    /// TransitionBudgets of which places are taken.
    pub places: Vec<Places>,
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
    facts: Facts<'a, 'g>,
    /// With what has ended, and with the Services of operations that are under way.
    writes: WritePlan<'a>,
    asked: approvals::Asked,
}

/// A round that has been decided, and what it rests on.
struct Finished<'a> {
    round: Round,
    desired: facts::desired::DesiredState<'a>,
    ended: facts::endings::Ended<'a>,
    images: facts::images::Images<'a>,
    lost: facts::lost::Lost<'a>,
    reloads: facts::reload::Reloads,
    inoperable: facts::inoperable::Inoperable,
}

impl<'a, 'g> Pass<'a, 'g> {
    /// The round itself if it ends here.
    fn begin(snapshot: &'a Snapshot, cache: &'g mut GateCache, now: Timestamp) -> Result<Self, Box<Round>> {
        // What is written must compare equal when it is read again, and the wire has microseconds.
        let now = now.round(Unit::Microsecond).unwrap_or(now);
        match fencing::check(snapshot) {
            Fence::Deposed(later) => return Err(Box::new(Round { deposed: Some(later), ..Round::default() })),
            Fence::TakeOver(changes) => {
                let steps = WritePlan::new(snapshot, now).with(changes).into_steps();
                return Err(Box::new(Round { steps, ..Round::default() }));
            }
            Fence::Ours => {}
        }
        let images = facts::images::Images::new(snapshot, now);
        let mut desired = facts::desired::derive(snapshot, &images, now);
        let gate = cache.sync(snapshot, &desired.world);
        let faults = gate.faults().into_iter().collect();
        let beside = facts::dependency::Beside::of(snapshot);
        let facts::endings::Endings { ended, changes } = facts::endings::derive(&desired, &beside, snapshot, now);
        let writes = WritePlan::new(snapshot, now).with(changes);
        let lost = facts::lost::Lost::of(snapshot, now);
        let trials = facts::trials::Trials::of(&desired, &ended, &lost);
        let overdue = facts::overdue::Overdue::of(snapshot, &desired, now);
        let gate = grants::tell(gate, &desired, &ended, (&trials, &overdue, &lost), &writes);
        let nodes = snapshot.node_transitions.values();
        let least_seconds = Propagation::least_seconds(nodes.filter_map(|node| node.spec.propagation.as_ref()));
        let policies = Policies::of(&snapshot.drain_policies, least_seconds);
        let traffic = Traffic::new(&snapshot.services, &snapshot.pods).with_lost(lost.uids());
        let (post_checks, asked) = approvals::post_checks(&desired, gate, snapshot, now);
        let pools = Pools::of(&snapshot.services, &snapshot.providers, &snapshot.pools);
        let writes = writes.with(pools::waits(&desired, &pools, snapshot));
        let writes =
            writes.with(post_checks).with(features::service_publishing::keep(&desired, &ended, &traffic, snapshot));
        let writes = writes.with(last_endpoint::cancels(&desired, &ended, &traffic, snapshot, now));
        let mut dependencies = facts::dependency::Dependencies::of(&desired, &beside, snapshot, now);
        let writes = writes.with(std::mem::take(&mut dependencies.changes));
        let reloads = facts::reload::decide(&desired, snapshot, now);
        desired.by_pod.extend(companions::retiring(&desired, &ended, &traffic, &lost, snapshot));
        let companions = facts::companions::Companions::new(snapshot, now);
        let losses = facts::losses::known(&desired, now);
        let learned = facts::learned::learned(&desired);
        let inoperable = facts::inoperable::find(&desired, &policies);
        Ok(Self {
            facts: Facts {
                snapshot,
                desired,
                ended,
                trials,
                gate,
                policies,
                traffic,
                images,
                pools,
                pool_members: OnceCell::new(),
                companions,
                beside,
                dependencies,
                learned,
                losses,
                reloads,
                lost,
                overdue,
                inoperable,
                faults,
            },
            writes,
            asked,
        })
    }

    fn finish(self) -> Finished<'a> {
        let Self { facts, writes, mut asked } = self;
        let granted = facts.candidates(&facts.desired.by_pod, writes).resume(&facts).judge(&facts).grant(&facts);
        let Granted { writes, verdicts } = granted;
        let Followed { writes, notes: events, wake_at } = features::follow(&facts, writes, &verdicts);
        let by_workload = by_workload::of(&facts.desired, &verdicts);
        let places = facts.gate.places().collect();
        let Facts { snapshot, desired, ended, reloads, pools, images, lost, inoperable, .. } = facts;
        asked.add_all(&verdicts, &desired);
        let wake_at = [wake_at, ended.wake_at, asked.wake_at].into_iter().flatten().min();
        let pools = features::pools::desired(&pools, &writes);
        let reads = ended.reads.iter().filter(|read| !snapshot.leaves_out(&read.pod.namespace)).cloned().collect();
        let (steps, stages) = (writes.into_steps(), desired.stages());
        let asks = asked.asks;
        let round =
            Round { deposed: None, steps, reads, verdicts, asks, pools, stages, by_workload, places, events, wake_at };
        Finished { round, desired, ended, images, lost, reloads, inoperable }
    }
}
