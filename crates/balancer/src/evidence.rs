//! What a pool's last reading proves about one address.

use std::net::SocketAddr;
use std::time::Instant;

use crate::{Observation, Server, ServerState, Unknown};

/// What is known about a pod in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The provider sends it new sessions.
    Serving,
    /// The provider would send it sessions only if no other server could serve.
    Standby,
    /// The provider would send it sessions, and its health check says no.
    Unhealthy,
    /// The provider is about to put a change into effect.
    Changing,
    /// It gets no new sessions, except some that stick to it. Not out yet, even with none open.
    Draining {
        /// Open sessions; `None` if the provider doesn't count them.
        sessions: Option<u32>,
    },
    /// It gets no session, and the provider counts none.
    Out,
    /// The provider doesn't have it.
    NotRegistered,
    /// Nothing is known. Never take it for out, nor for serving.
    Unknown(Unknown),
}

/// What `observed` proves about the server at `address`. If there are several, such as ours and one that others have
/// configured, it is out when all are.
#[must_use]
pub fn evidence(address: SocketAddr, observed: &Observation, now: Instant) -> Evidence {
    match observed.servers(now) {
        Err(unknown) => Evidence::Unknown(unknown),
        Ok(servers) => {
            let here = servers.iter().filter(|server| server.address == Some(address));
            here.map(of_one).reduce(both).unwrap_or(Evidence::NotRegistered)
        }
    }
}

fn of_one(server: &Server) -> Evidence {
    let sessions = server.sessions;
    match (server.state, sessions) {
        (ServerState::Ready, _) => Evidence::Serving,
        (ServerState::Standby, _) => Evidence::Standby,
        (ServerState::Unhealthy, _) => Evidence::Unhealthy,
        (ServerState::Changing, _) => Evidence::Changing,
        (ServerState::Maintenance, Some(0)) => Evidence::Out,
        (ServerState::Draining | ServerState::Maintenance | ServerState::Leaving, _) => Evidence::Draining { sessions },
    }
}

/// The one of two that is farther from out; sessions of both.
fn both(one: Evidence, other: Evidence) -> Evidence {
    match (one, other) {
        (Evidence::Draining { sessions: one }, Evidence::Draining { sessions: other }) => {
            Evidence::Draining { sessions: one.zip(other).map(|(one, other)| one.saturating_add(other)) }
        }
        (one, other) => {
            if distance(&one) >= distance(&other) {
                one
            } else {
                other
            }
        }
    }
}

const fn distance(evidence: &Evidence) -> u8 {
    match evidence {
        Evidence::NotRegistered => 0,
        Evidence::Out => 1,
        Evidence::Draining { .. } => 2,
        Evidence::Unhealthy => 3,
        Evidence::Standby => 4,
        Evidence::Changing => 5,
        Evidence::Serving => 6,
        Evidence::Unknown(_) => 7,
    }
}
