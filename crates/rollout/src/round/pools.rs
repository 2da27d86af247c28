//! Load balancers outside of the cluster: who may leave a pool, which waits are over, what is wanted of each pool, and what people should
//! know of them (docs/contract.md#load-balancers).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, GrantOp, Wait, WaitPoint};

use crate::pools::{Backend, BackendState, Owner, PoolKey, PoolReading, Pools, Stand};
use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::{Facts, PoolMembers};
use crate::round::finalizers;
use crate::round::operable::Operable;
use crate::round::pool_wait::PoolWait;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;
use crate::snapshot::Snapshot;

/// Whether the pod should get sessions, as far as it and what is done to it tell.
pub(crate) fn serves(pod: &PodView) -> bool {
    pod.available() && pod.in_service().is_none_or(|condition| condition.is_true)
}

impl<'a> Facts<'a, '_> {
    /// The waits of a pod that leaves service.
    pub(crate) fn waits(&self, pod: &PodView, op: &GrantOp, mode: &GrantMode) -> Vec<Wait> {
        if *mode != GrantMode::Leave {
            return Vec::new();
        }
        let points: &[(WaitPoint, &str)] = match op {
            GrantOp::Drain => &[(WaitPoint::Operate, OUT)],
            GrantOp::Update | GrantOp::Restart | GrantOp::Relabel | GrantOp::Foreign | GrantOp::Unknown(_) => {
                &[(WaitPoint::Operate, OUT), (WaitPoint::Done, SERVES)]
            }
        };
        let names: BTreeSet<String> = self.pools.of_pod(pod).iter().map(|(key, _)| key.to_string()).collect();
        let all = names
            .iter()
            .flat_map(|name| points.iter().map(|(point, words)| Wait::pending(name.clone(), point.clone(), words)));
        self.finalizers(pod, op).into_iter().chain(all).take(Wait::MOST).collect()
    }

    /// Why the pod does not leave service in this mode now.
    pub(crate) fn leaves_pools(
        &self,
        operable: &Operable<'a>,
        mode: &GrantMode,
        writes: &WritePlan<'_>,
    ) -> Option<WaitReason> {
        if *mode != GrantMode::Leave || self.snapshot.unknown.pools || self.pools.is_empty() {
            return None;
        }
        let pod = operable.pod;
        if let Some((service, flaw)) = self.pools.flaw_of(pod) {
            return Some(waiting(&service.name, PoolWait::Invalid(flaw.to_string())));
        }
        for (key, address) in self.pools.of_pod(pod) {
            let node = self.snapshot.node_transitions.get(operable.node);
            let why = if node.and_then(|node| node.agent.as_ref()).is_some_and(|agent| !agent.can(Wait::FEATURE)) {
                Some(PoolWait::Agent(operable.node.to_owned()))
            } else {
                self.leaves_pool(pod, key, address, writes)
            };
            if let Some(why) = why {
                return Some(waiting(&key.to_string(), why));
            }
        }
        None
    }

    fn leaves_pool(
        &self,
        pod: &PodView,
        key: &PoolKey,
        address: SocketAddr,
        writes: &WritePlan<'_>,
    ) -> Option<PoolWait> {
        let backends = match self.snapshot.pools.get(key) {
            Some(PoolReading::Read(backends)) => backends,
            Some(PoolReading::Unreadable(why)) => return Some(PoolWait::Unreadable(why.clone())),
            Some(PoolReading::Assumed) => return None,
            None => return Some(PoolWait::Unreadable("it has not been read yet".to_owned())),
        };
        match backends.get(&address) {
            Some(Backend { owner: Owner::Others, state, .. }) if *state != BackendState::NotRegistered => {
                return Some(PoolWait::NotOurs);
            }
            Some(_) | None => {}
        }
        // One that gets no sessions takes nothing away.
        if backends.get(&address).is_none_or(|own| own.state != BackendState::Serving) {
            return None;
        }
        let mut taken = BTreeSet::from([address]);
        for (other, at) in self.members(key).iter().copied() {
            if other.id.uid == pod.id.uid {
                continue;
            }
            let is_taken =
                writes.reservation(&other.id.namespace, &other.id.uid).is_some() || self.ended.is_taken(&other.id.uid);
            if is_taken || !serves(other) {
                taken.insert(at);
                continue;
            }
            let state = backends.get(&at).map_or(BackendState::NotRegistered, |backend| backend.state);
            if !matches!(state, BackendState::Serving | BackendState::Standby) {
                return Some(PoolWait::Other { pod: other.id.name.clone(), state });
            }
        }
        let another = backends.iter().any(|(at, other)| other.state == BackendState::Serving && !taken.contains(at));
        (!another).then_some(PoolWait::Last)
    }

    /// The pods of a pool, with their addresses there.
    fn members(&self, key: &PoolKey) -> &[(&'a PodView, SocketAddr)] {
        let all = self.pool_members.get_or_init(|| {
            let mut all: PoolMembers<'a> = BTreeMap::new();
            for pod in self.snapshot.pods.iter().filter(|pod| !pod.finished) {
                for (key, address) in self.pools.of_pod(pod) {
                    all.entry(key.clone()).or_default().push((pod, address));
                }
            }
            all
        });
        all.get(key).map_or(&[], Vec::as_slice)
    }
}

fn waiting(name: &str, why: PoolWait) -> WaitReason {
    WaitReason::Pool { name: name.to_owned(), why }
}

/// What is missing before the operation.
const OUT: &str = "the load balancer is to let no session in, and none is to be open";

/// What is missing before its end.
const SERVES: &str = "the load balancer is to show that it serves";

/// Waits that are over, or that wait for something else than is said there.
pub(crate) fn waits<'a>(desired: &DesiredState<'a>, pools: &Pools<'a>, snapshot: &'a Snapshot) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    for (node, view) in &snapshot.node_transitions {
        for grant in view.unfinished() {
            let Some(pod) = desired.pods.get(grant.pod.uid.as_str()) else { continue };
            for wait in grant.waits.iter().filter(|wait| wait.is_pending()) {
                let message = match judge(wait, grant, pod, (desired, pools, snapshot)) {
                    None => None,
                    Some(words) if words == wait.message => continue,
                    Some(words) => Some(words),
                };
                let (name, before) = (wait.name.as_str(), wait.before.clone());
                changes.push(Change::Wait { node, grant, name, before, message });
            }
        }
    }
    changes
}

/// What is missing; `None`: it is over.
fn judge(
    wait: &Wait,
    grant: &Grant,
    pod: &PodView,
    (desired, pools, snapshot): (&DesiredState<'_>, &Pools<'_>, &Snapshot),
) -> Option<String> {
    if wait.is_for_finalizers() {
        return finalizers::judge(desired, grant, pod).map(|words| limit(&words));
    }
    let words = match wait.before {
        WaitPoint::Operate => OUT,
        WaitPoint::Done => SERVES,
        WaitPoint::Unknown(_) => return Some(wait.message.clone()),
    };
    let of_pod = pools.of_pod(pod);
    let here: Vec<(&PoolKey, SocketAddr)> =
        of_pod.into_iter().filter(|(key, _)| key.to_string() == wait.name).collect();
    if here.is_empty() {
        // Whether its server is there still is not known.
        let of_wait = snapshot.pools.iter().find(|(key, _)| key.to_string() == wait.name);
        if let Some((_, PoolReading::Unreadable(why))) = of_wait {
            return Some(limit(why));
        }
        // Somebody who has mistyped a name does not want the pod to be operated while it serves there.
        return pools.flaw_of(pod).map(|(service, flaw)| limit(&format!("Service {}: {flaw}", service.name)));
    }
    let is_over = |(key, address): &(&PoolKey, SocketAddr)| {
        let Some(backend) = snapshot.pools.get(*key).and_then(|reading| reading.at(*address)) else { return false };
        match wait.before {
            WaitPoint::Operate => {
                let has_left = pod.in_service().is_some_and(|it| !it.is_true && it.message == grant.id);
                let is_out = matches!(backend.state, BackendState::Out | BackendState::NotRegistered);
                has_left && is_out && matches!(backend.told, Some(Stand::Out | Stand::Gone))
            }
            // That it served before it left says nothing.
            WaitPoint::Done => {
                let has_returned = pod.in_service().is_some_and(|it| it.is_true && it.message == grant.returned_mark());
                has_returned && pod.ready() && backend.state == BackendState::Serving && backend.told == Some(Stand::In)
            }
            WaitPoint::Unknown(_) => false,
        }
    };
    if here.iter().all(is_over) {
        return None;
    }
    let unreadable = here.iter().find_map(|(key, _)| match snapshot.pools.get(*key) {
        Some(PoolReading::Unreadable(why)) => Some(why),
        Some(PoolReading::Read(_) | PoolReading::Assumed) | None => None,
    });
    Some(unreadable.map_or_else(|| words.to_owned(), |why| limit(why)))
}

pub(crate) fn limit(words: &str) -> String {
    words.chars().take(512).collect()
}
