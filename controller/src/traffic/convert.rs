//! Between what a round says of pools and what `hitless_balancer` says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use hitless_balancer::{self as balancer, Evidence, Last, PodName, Wanted, Weight, evidence};
use hitless_rollout::pools::{Backend, BackendState, DesiredBackend, Owner, PoolReading, Stand};

use super::Seen;

/// What the decider of steps is asked for. The last server that serves stays.
#[must_use]
pub fn wanted(backends: &[DesiredBackend]) -> Vec<Wanted> {
    let each = |desired: &DesiredBackend| {
        let pod = desired.pod.as_ref();
        Wanted {
            pod: PodName {
                namespace: pod.map(|pod| pod.namespace.clone()).unwrap_or_default(),
                name: pod.map(|pod| pod.name.clone()).unwrap_or_default(),
            },
            address: desired.address,
            weight: Weight::ONE,
            stand: match desired.stand {
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
    let told: BTreeMap<SocketAddr, Stand> = seen.told.iter().map(|desired| (desired.address, desired.stand)).collect();
    let listed = servers.iter().filter_map(|server| server.address);
    let addresses: BTreeSet<SocketAddr> = listed.chain(told.keys().copied()).collect();
    let backend = |address: SocketAddr| {
        let mut here = servers.iter().filter(|server| server.address == Some(address));
        let is_theirs = here.any(|server| server.owner == balancer::Owner::Others);
        let owner = if is_theirs { Owner::Others } else { Owner::Us };
        // Not known is what the whole reading would be.
        let state = state(&evidence(address, &seen.observation, now)).unwrap_or(BackendState::Changing);
        (address, Backend { state, owner, told: told.get(&address).copied() })
    };
    PoolReading::Read(addresses.into_iter().map(backend).collect())
}

fn state(evidence: &Evidence) -> Option<BackendState> {
    Some(match evidence {
        Evidence::Serving => BackendState::Serving,
        Evidence::Standby => BackendState::Standby,
        Evidence::Unhealthy => BackendState::Unhealthy,
        Evidence::Changing => BackendState::Changing,
        Evidence::Draining { sessions } => BackendState::Draining { sessions: *sessions },
        Evidence::Out => BackendState::Out,
        Evidence::NotRegistered => BackendState::NotRegistered,
        Evidence::Unknown(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_balancer::{Mark, Observation, ProviderError, Server, ServerState};
    use std::time::Duration;

    fn at(index: u8) -> SocketAddr {
        SocketAddr::from(([10, 1, 0, index], 8080))
    }

    fn server(index: u8, state: ServerState, owner: balancer::Owner) -> Server {
        let name = Mark::new("hitless").unwrap().name_of(at(index));
        Server { name, address: Some(at(index)), state, weight: 1, sessions: Some(0), owner }
    }

    fn desired(index: u8, stand: Stand) -> DesiredBackend {
        DesiredBackend { pod: None, address: at(index), stand }
    }

    #[test]
    fn a_reading_tells_of_each_address_that_is_there_or_wanted_and_what_was_wanted_of_it_then() {
        let begin = Instant::now();
        let servers = vec![
            server(1, ServerState::Ready, balancer::Owner::Us),
            server(2, ServerState::Maintenance, balancer::Owner::Us),
            server(3, ServerState::Ready, balancer::Owner::Others),
        ];
        let told = vec![desired(1, Stand::In), desired(2, Stand::Out), desired(4, Stand::In)];
        let seen = Seen { observation: Observation::new(Ok(servers), begin), told };
        let PoolReading::Read(read) = reading(&seen, begin) else { panic!("it was read") };
        let of = |index: u8| read[&at(index)];
        assert_eq!(read.len(), 4);
        assert_eq!(of(1), Backend { state: BackendState::Serving, owner: Owner::Us, told: Some(Stand::In) });
        assert_eq!(of(2), Backend { state: BackendState::Out, owner: Owner::Us, told: Some(Stand::Out) });
        assert_eq!(of(3), Backend { state: BackendState::Serving, owner: Owner::Others, told: None });
        assert_eq!(of(4), Backend { state: BackendState::NotRegistered, owner: Owner::Us, told: Some(Stand::In) });
        let late = reading(&seen, begin + Duration::from_secs(11));
        assert!(matches!(late, PoolReading::Unreadable(why) if why.contains("too long")), "an old reading is none");
        let error = ProviderError::NoPool(balancer::PoolName::new("shop").unwrap());
        let failed = Seen { observation: Observation::new(Err(error), begin), told: Vec::new() };
        assert!(matches!(reading(&failed, begin), PoolReading::Unreadable(why) if why.contains("no pool shop")));
    }

    #[test]
    fn the_last_server_stays_whatever_is_wanted() {
        let all = wanted(&[desired(1, Stand::In), desired(2, Stand::Out), desired(3, Stand::Gone)]);
        let stands: Vec<balancer::Stand> = all.into_iter().map(|each| each.stand).collect();
        let keep = Last::Keep;
        assert_eq!(stands, [balancer::Stand::In, balancer::Stand::Out(keep), balancer::Stand::Gone(keep)]);
    }
}
