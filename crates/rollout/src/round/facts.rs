//! What a round knows before it decides: all that features and phases read.

pub(crate) mod agents;
pub(crate) mod chance;
pub(crate) mod companions;
pub(crate) mod dependency;
pub(crate) mod desired;
pub(crate) mod endings;
pub(crate) mod images;
pub(crate) mod in_place_failed;
pub(crate) mod inoperable;
pub(crate) mod learned;
pub(crate) mod losses;
pub(crate) mod lost;
pub(crate) mod overdue;
pub(crate) mod refusals;
pub(crate) mod reload;
pub(crate) mod trials;
pub(crate) mod unfit;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use hitless_gate::Gate;

use crate::mode::{Policies, Traffic};
use crate::pools::{PoolKey, Pools};
use crate::round::facts::companions::Companions;
use crate::round::facts::dependency::{Beside, Dependencies};
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::Ended;
use crate::round::facts::images::Images;
use crate::round::facts::inoperable::Inoperable;
use crate::round::facts::learned::Learned;
use crate::round::facts::losses::WorkloadLosses;
use crate::round::facts::lost::Lost;
use crate::round::facts::overdue::Overdue;
use crate::round::facts::reload::Reloads;
use crate::round::facts::trials::Trials;
use crate::snapshot::Snapshot;

/// The pods of each pool, with their addresses there.
pub(crate) type PoolMembers<'a> = BTreeMap<PoolKey, Vec<(&'a PodView, SocketAddr)>>;

/// What pods are judged by: what is wanted, what has ended, and a gate that was told of both.
pub(crate) struct Facts<'a, 'g> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) desired: DesiredState<'a>,
    pub(crate) ended: Ended<'a>,
    pub(crate) trials: Trials<'a>,
    pub(crate) gate: &'g Gate,
    pub(crate) policies: Policies<'a>,
    pub(crate) traffic: Traffic<'a>,
    pub(crate) images: Images<'a>,
    /// Which pods are in which pools of load balancers outside of the cluster.
    pub(crate) pools: Pools<'a>,
    /// Made when somebody asks: most rounds grant nothing.
    pub(crate) pool_members: OnceCell<PoolMembers<'a>>,
    pub(crate) companions: Companions<'a>,
    /// What pods of the version before show at the same time.
    pub(crate) beside: Beside<'a>,
    /// Workloads of which something is away that all their pods need.
    pub(crate) dependencies: Dependencies<'a>,
    /// What was learned of gaps and does not stand on the workload yet, by index of the plan.
    pub(crate) learned: BTreeMap<usize, Learned>,
    /// Connections that were lost when a pod became not Ready, by index of the plan.
    pub(crate) losses: BTreeMap<usize, WorkloadLosses>,
    /// Workloads that reload.
    pub(crate) reloads: Reloads,
    /// Pods that nobody waits for, because their nodes do not answer.
    pub(crate) lost: Lost<'a>,
    /// Operations that others keep from ending.
    pub(crate) overdue: Overdue<'a>,
    /// Workloads whose pods can't be operated as they are.
    pub(crate) inoperable: Inoperable,
    /// What the authors of rules and budgets should mend.
    pub(crate) faults: Vec<EventNote>,
}
