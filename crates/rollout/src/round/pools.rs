//! Load balancers outside of the cluster: who may leave a pool, which waits are over, what is wanted of each pool, and what people should
//! know of them (docs/contract.md#load-balancers).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;
use hitless_api::traffic_provider::{TrafficPoolState, TrafficPoolStatus, TrafficProviderStatus};
use hitless_api::{Grant, GrantMode, GrantOp, Reservation, Wait, WaitPoint};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::candidates::{Basis, Operable};
use super::change::Change;
use super::draft::Draft;
use super::finalizers;
use super::micro;
use super::pool_wait::PoolWait;
use super::wait_reason::WaitReason;
use super::wishes::Wishes;
use super::write::ProviderStatusWrite;
use crate::mode::ServiceView;
use crate::pools::{
    Backend, BackendState, BackendWish, Owner, PoolKey, PoolReading, PoolWish, Pools, ProviderView, Stand,
};
use crate::snapshot::Snapshot;

/// The pods of each pool, with their addresses there.
pub(super) type Members<'a> = BTreeMap<PoolKey, Vec<(&'a PodView, SocketAddr)>>;

/// Whether the pod should get sessions, as far as it and what is done to it tell.
fn serves(pod: &PodView) -> bool {
    pod.available() && pod.in_service().is_none_or(|condition| condition.is_true)
}

impl<'a> Basis<'a, '_> {
    /// The waits of a pod that leaves service.
    pub(super) fn waits(&self, pod: &PodView, op: &GrantOp, mode: &GrantMode) -> Vec<Wait> {
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
    pub(super) fn leaves_pools(
        &self,
        operable: &Operable<'a>,
        mode: &GrantMode,
        draft: &Draft<'_>,
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
                self.leaves_pool(pod, key, address, draft)
            };
            if let Some(why) = why {
                return Some(waiting(&key.to_string(), why));
            }
        }
        None
    }

    fn leaves_pool(&self, pod: &PodView, key: &PoolKey, address: SocketAddr, draft: &Draft<'_>) -> Option<PoolWait> {
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
                draft.reservation(&other.id.namespace, &other.id.uid).is_some() || self.ended.is_taken(&other.id.uid);
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
            let mut all: Members<'a> = BTreeMap::new();
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
pub(super) fn waits<'a>(wishes: &Wishes<'a>, pools: &Pools<'a>, snapshot: &'a Snapshot) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    for (node, view) in &snapshot.node_transitions {
        for grant in view.unfinished() {
            let Some(pod) = wishes.pods.get(grant.pod.uid.as_str()) else { continue };
            for wait in grant.waits.iter().filter(|wait| wait.is_pending()) {
                let message = match judge(wait, grant, pod, pools, snapshot) {
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
fn judge(wait: &Wait, grant: &Grant, pod: &PodView, pools: &Pools<'_>, snapshot: &Snapshot) -> Option<String> {
    if wait.is_for_finalizers() {
        return finalizers::judge(grant, pod).map(|words| limit(&words));
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

fn limit(words: &str) -> String {
    words.chars().take(512).collect()
}

/// What is wanted of each pool of each TrafficProvider, once all grants are in the draft.
pub(super) fn wishes(pools: &Pools<'_>, draft: &Draft<'_>) -> Vec<PoolWish> {
    let snapshot = draft.snapshot;
    if snapshot.providers.is_empty() {
        return Vec::new();
    }
    let held: BTreeSet<&str> = snapshot
        .node_transitions
        .values()
        .flat_map(|node| node.unfinished())
        .filter(|grant| grant.mode == GrantMode::Hold)
        .map(|grant| grant.pod.uid.as_str())
        .collect();
    let named: BTreeSet<&PoolKey> = pools.named().map(|(key, _)| key).collect();
    let mut wanted: BTreeMap<&PoolKey, BTreeMap<SocketAddr, BackendWish>> = BTreeMap::new();
    for pod in &snapshot.pods {
        let of_pod = pools.of_pod(pod);
        if of_pod.is_empty() {
            continue;
        }
        let by_services = pools.named_by_services(pod);
        // A Service that names a pool and does not get it loses nothing.
        let is_unsure = pools.flaw_of(pod).is_some();
        for (key, address) in of_pod {
            let is_deselected = !by_services.contains(&(key, address)) && named.contains(key) && !is_unsure;
            let stand = if pod.terminating || pod.finished || is_deselected {
                Stand::Gone
            } else if held.contains(pod.id.uid.as_str()) {
                Stand::In
            } else if !serves(pod) {
                Stand::Out
            } else if is_leaving(pod, key, address, draft) {
                continue;
            } else {
                Stand::In
            };
            let all = wanted.entry(key).or_default();
            // A new pod may have the address of one that is gone, and then its word counts.
            if all.get(&address).is_none_or(|known| known.stand == Stand::Gone) {
                all.insert(address, BackendWish { pod: Some(pod.id.clone()), address, stand });
            }
        }
    }
    let wish = |key: PoolKey| {
        let mut backends = wanted.remove(&key).unwrap_or_default();
        let without_pod = without_pod(&key, snapshot, &backends);
        backends.extend(without_pod.into_iter().map(|wish| (wish.address, wish)));
        PoolWish { key, backends: backends.into_values().collect() }
    };
    snapshot.providers.iter().flat_map(|provider| provider.keys()).map(wish).collect()
}

/// The load balancer lets the pod go, as far as is known, and its operation has begun: then it is not brought back before the pod
/// itself has returned. A new leader may have old copies of the pod and of its grant, and the agent one of a wait that is over.
fn is_leaving(pod: &PodView, key: &PoolKey, address: SocketAddr, draft: &Draft<'_>) -> bool {
    let place = draft.reservation(&pod.id.namespace, &pod.id.uid);
    let has_returned = |place: &Reservation| {
        let mark = Grant::mark_of_return(&place.id, &place.since);
        pod.in_service().is_some_and(|it| it.is_true && it.message == mark)
    };
    let is_let_go = match draft.snapshot.pools.get(key) {
        Some(PoolReading::Read(read)) => {
            read.get(&address).is_some_and(|it| matches!(it.state, BackendState::Draining { .. } | BackendState::Out))
        }
        // It may be: a new leader has not read it yet.
        Some(PoolReading::Unreadable(_) | PoolReading::Assumed) | None => true,
    };
    is_let_go && place.is_some_and(|place| !has_returned(place))
}

/// Servers of ours whose pods are gone.
fn without_pod(key: &PoolKey, snapshot: &Snapshot, backends: &BTreeMap<SocketAddr, BackendWish>) -> Vec<BackendWish> {
    // One whose pod has not been read is not without one.
    if !snapshot.left_out.is_empty() || snapshot.uncounted {
        return Vec::new();
    }
    let Some(PoolReading::Read(read)) = snapshot.pools.get(key) else { return Vec::new() };
    let is_stray = |(address, backend): &(&SocketAddr, &Backend)| {
        let is_there = backend.state != BackendState::NotRegistered;
        is_there && backend.owner == Owner::Us && !backends.contains_key(*address)
    };
    let strays = read.iter().filter(is_stray).map(|(address, _)| *address);
    // Companions that never served are nobody's, and have addresses all the same.
    let known = || snapshot.pods.iter().chain(&snapshot.companions).filter(|pod| !pod.finished);
    let has = |pod: &PodView, address: &SocketAddr| {
        pod.ip.as_ref().and_then(|ip| ip.parse::<IpAddr>().ok()) == Some(address.ip())
    };
    let gone = strays.filter(|address| !known().any(|pod| has(pod, address)));
    gone.map(|address| BackendWish { pod: None, address, stand: Stand::Gone }).collect()
}

/// What people should know of Services with pools.
pub(super) fn notes(pools: &Pools<'_>, snapshot: &Snapshot) -> Vec<EventNote> {
    let flaws = pools.flaws().map(|(service, flaw)| note(service, "TrafficInvalid", flaw.to_string()));
    let unreadable = pools.named().filter_map(|(key, service)| match snapshot.pools.get(key)? {
        PoolReading::Unreadable(why) => {
            let text = format!(
                "pool {key} can't be relied on, so no operation of its pods begins and nothing is removed: {why}"
            );
            Some(note(service, "TrafficUnreadable", text))
        }
        PoolReading::Read(_) | PoolReading::Assumed => None,
    });
    flaws.chain(unreadable).collect()
}

fn note(service: &ServiceView, reason: &'static str, text: String) -> EventNote {
    let regarding = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(service.namespace.clone()),
        name: Some(service.name.clone()),
        uid: Some(service.version.uid.clone()),
        ..ObjectReference::default()
    };
    EventNote { regarding, severity: Severity::Warning, reason, action: "FollowPods", text }
}

/// Statuses of TrafficProviders that are not what they should be: only the state of a pool counts, its words come with it.
pub(super) fn statuses<'a>(pools: &Pools<'_>, snapshot: &'a Snapshot, now: Timestamp) -> Vec<Change<'a>> {
    let named: BTreeSet<&PoolKey> = pools.named().map(|(key, _)| key).collect();
    snapshot.providers.iter().filter_map(|provider| status(provider, &named, snapshot, now)).collect()
}

fn status<'a>(
    provider: &ProviderView,
    named: &BTreeSet<&PoolKey>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Option<Change<'a>> {
    let known = provider.status.as_ref().map(|status| status.pools.as_slice()).unwrap_or_default();
    let of = |key: PoolKey| {
        let before = known.iter().find(|before| before.name == key.pool);
        let (state, message) = match snapshot.pools.get(&key) {
            Some(PoolReading::Read(_)) => (TrafficPoolState::Read, String::new()),
            Some(PoolReading::Unreadable(why)) => (TrafficPoolState::Unreadable, limit(why)),
            // As the leader before has said, until it is known.
            Some(PoolReading::Assumed) | None => return before.cloned(),
        };
        let same = before.filter(|before| before.state == state).cloned();
        same.or(Some(TrafficPoolStatus { name: key.pool, state, since: micro(now), message }))
    };
    let pools: Vec<TrafficPoolStatus> = provider.keys().filter(|key| named.contains(key)).filter_map(of).collect();
    if pools == known {
        return None;
    }
    let (name, version) = (provider.name.clone(), provider.version.clone());
    Some(Change::ProviderStatus(ProviderStatusWrite { name, version, status: TrafficProviderStatus { pools } }))
}
