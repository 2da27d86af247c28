//! Between what a round says of pools and what `hitless_balancer` says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use hitless_balancer::{self as balancer, Evidence, Last, PodName, Wanted, Weight, evidence};
use hitless_rollout::pools::{Backend, BackendWish, Owner, PoolReading, Stand, Standing};

use super::Seen;

/// What the decider of steps is asked for. The last server that serves stays.
#[must_use]
pub fn wanted(backends: &[BackendWish]) -> Vec<Wanted> {
    let each = |wish: &BackendWish| {
        let pod = wish.pod.as_ref();
        Wanted {
            pod: PodName {
                namespace: pod.map(|pod| pod.namespace.clone()).unwrap_or_default(),
                name: pod.map(|pod| pod.name.clone()).unwrap_or_default(),
            },
            address: wish.address,
            weight: Weight::ONE,
            stand: match wish.stand {
                Stand::In => balancer::Stand::In,
                Stand::Out => balancer::Stand::Out(Last::Keep),
                Stand::Gone => balancer::Stand::Gone(Last::Keep),
            },
        }
    };
    backends.iter().map(each).collect()
}

/// What the round is told of a reading.
#[must_use]
pub fn reading(seen: &Seen, now: Instant) -> PoolReading {
    let servers = match seen.observation.servers(now) {
        Ok(servers) => servers,
        Err(unknown) => return PoolReading::Unreadable(unknown.to_string()),
    };
    let told: BTreeMap<SocketAddr, Stand> = seen.told.iter().map(|wish| (wish.address, wish.stand)).collect();
    let listed = servers.iter().filter_map(|server| server.address);
    let addresses: BTreeSet<SocketAddr> = listed.chain(told.keys().copied()).collect();
    let backend = |address: SocketAddr| {
        let mut here = servers.iter().filter(|server| server.address == Some(address));
        let is_theirs = here.any(|server| server.owner == balancer::Owner::Others);
        let owner = if is_theirs { Owner::Others } else { Owner::Us };
        // Not known is what the whole reading would be.
        let standing = standing(&evidence(address, &seen.observation, now)).unwrap_or(Standing::Changing);
        (address, Backend { standing, owner, told: told.get(&address).copied() })
    };
    PoolReading::Read(addresses.into_iter().map(backend).collect())
}

fn standing(evidence: &Evidence) -> Option<Standing> {
    Some(match evidence {
        Evidence::Serving => Standing::Serving,
        Evidence::Standby => Standing::Standby,
        Evidence::Unhealthy => Standing::Unhealthy,
        Evidence::Changing => Standing::Changing,
        Evidence::Draining { sessions } => Standing::Draining { sessions: *sessions },
        Evidence::Out => Standing::Out,
        Evidence::NotRegistered => Standing::NotRegistered,
        Evidence::Unknown(_) => return None,
    })
}
