//! What is wanted of the pools of load balancers outside of the cluster, and what people should know of them (docs/contract.md#load-balancers).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;
use hitless_api::traffic_provider::{TrafficPoolState, TrafficPoolStatus, TrafficProviderStatus};
use hitless_api::{Grant, GrantMode, MicroTime, Reservation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::mode::ServiceView;
use crate::pools::{
    Backend, BackendState, DesiredBackend, DesiredPool, Owner, PoolKey, PoolReading, Pools, ProviderView, Stand,
};
use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::features::{Effects, FeatureContext};
use crate::round::pools::{limit, serves};
use crate::round::write;
use crate::round::write_plan::WritePlan;
use crate::snapshot::Snapshot;

/// What is wanted of each pool of each TrafficProvider, once all grants are planned.
pub(crate) fn desired(pools: &Pools<'_>, writes: &WritePlan<'_>) -> Vec<DesiredPool> {
    let snapshot = writes.snapshot;
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
    let mut wanted: BTreeMap<&PoolKey, BTreeMap<SocketAddr, DesiredBackend>> = BTreeMap::new();
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
            } else if is_leaving(pod, key, address, writes) {
                continue;
            } else {
                Stand::In
            };
            let all = wanted.entry(key).or_default();
            // A new pod may have the address of one that is gone, and then its word counts.
            if all.get(&address).is_none_or(|known| known.stand == Stand::Gone) {
                all.insert(address, DesiredBackend { pod: Some(pod.id.clone()), address, stand });
            }
        }
    }
    let of_pool = |key: PoolKey| {
        let mut backends = wanted.remove(&key).unwrap_or_default();
        let without_pod = without_pod(&key, snapshot, &backends);
        backends.extend(without_pod.into_iter().map(|backend| (backend.address, backend)));
        DesiredPool { key, backends: backends.into_values().collect() }
    };
    snapshot.providers.iter().flat_map(|provider| provider.keys()).map(of_pool).collect()
}

/// The load balancer lets the pod go, as far as is known, and its operation has begun: then it is not brought back before the pod
/// itself has returned. A new leader may have old copies of the pod and of its grant, and the agent one of a wait that is over.
fn is_leaving(pod: &PodView, key: &PoolKey, address: SocketAddr, writes: &WritePlan<'_>) -> bool {
    let place = writes.reservation(&pod.id.namespace, &pod.id.uid);
    let has_returned = |place: &Reservation| {
        let mark = Grant::mark_of_return(&place.id, &place.since);
        pod.in_service().is_some_and(|it| it.is_true && it.message == mark)
    };
    let is_let_go = match writes.snapshot.pools.get(key) {
        Some(PoolReading::Read(read)) => {
            read.get(&address).is_some_and(|it| matches!(it.state, BackendState::Draining { .. } | BackendState::Out))
        }
        // It may be: a new leader has not read it yet.
        Some(PoolReading::Unreadable(_) | PoolReading::Assumed) | None => true,
    };
    is_let_go && place.is_some_and(|place| !has_returned(place))
}

/// Servers of ours whose pods are gone.
fn without_pod(
    key: &PoolKey,
    snapshot: &Snapshot,
    backends: &BTreeMap<SocketAddr, DesiredBackend>,
) -> Vec<DesiredBackend> {
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
    gone.map(|address| DesiredBackend { pod: None, address, stand: Stand::Gone }).collect()
}

/// Statuses of TrafficProviders, and what people should know of Services with pools.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { pools, snapshot, .. } = context.facts;
    Effects::of(statuses(pools, snapshot, context.now)).telling(notes(pools, snapshot))
}

pub(crate) fn notes(pools: &Pools<'_>, snapshot: &Snapshot) -> Vec<EventNote> {
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
fn statuses<'a>(pools: &Pools<'_>, snapshot: &'a Snapshot, now: Timestamp) -> Vec<Change<'a>> {
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
        same.or(Some(TrafficPoolStatus { name: key.pool, state, since: MicroTime(now), message }))
    };
    let pools: Vec<TrafficPoolStatus> = provider.keys().filter(|key| named.contains(key)).filter_map(of).collect();
    if pools == known {
        return None;
    }
    let (on, status) = (("", provider.name.as_str()), TrafficProviderStatus { pools });
    Some(Change::Write(write::status("provider-status", "TrafficProvider", on, &provider.version, &status)))
}
