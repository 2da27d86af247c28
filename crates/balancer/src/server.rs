//! What a provider says about one server of a pool.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use crate::ServerName;

/// A server of a pool, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Unique in its pool.
    pub name: ServerName,
    /// Where sessions go. Unknown for servers of others that are configured by a host name or a path.
    pub address: Option<SocketAddr>,
    /// Whether sessions come in.
    pub state: ServerState,
    /// Its share of new sessions, beside the others' weights; zero is none.
    pub weight: u16,
    /// Sessions that are open or wait for the server. `None` if the provider does not count them: then nothing but the
    /// server's removal proves that they have ended.
    pub sessions: Option<u32>,
    /// Who has registered it.
    pub owner: Owner,
}

impl Server {
    /// Whether the pool would have one server fewer that serves without it.
    #[must_use]
    pub const fn serves(&self) -> bool {
        match self.state {
            ServerState::Ready => self.weight > 0,
            ServerState::Standby
            | ServerState::Unhealthy
            | ServerState::Draining
            | ServerState::Maintenance
            | ServerState::Changing
            | ServerState::Leaving => false,
        }
    }
}

/// Whether a provider sends new sessions to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It does.
    Ready,
    /// Only when no other server can serve.
    Standby,
    /// It would, but its health check or the server itself says no.
    Unhealthy,
    /// It doesn't, except sessions that stick to this server. Open sessions go on.
    Draining,
    /// It doesn't, without exception. Open sessions go on.
    Maintenance,
    /// The provider is about to put a change into effect.
    Changing,
    /// It is being removed: no new sessions, open ones may go on.
    Leaving,
}

/// Who has registered a server, by its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// We have.
    Us,
    /// We have, for this address, and somebody has given the server another one since.
    UsMoved {
        /// The address that we had registered.
        from: SocketAddr,
    },
    /// Anybody else. We never change it.
    Others,
}

/// The share of new sessions that a server should get, 1 to 256. Providers may allow less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(NonZeroU16);

/// Why a weight is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("weight {0} is not between 1 and 256; to send a server no sessions, take it out instead")]
pub struct WeightError(u16);

impl Weight {
    /// One share.
    pub const ONE: Self = Self(NonZeroU16::MIN);
    /// HAProxy's largest.
    const LARGEST: u16 = 256;

    /// Takes 1 to 256.
    pub const fn new(weight: u16) -> Result<Self, WeightError> {
        match NonZeroU16::new(weight) {
            Some(weight) if weight.get() <= Self::LARGEST => Ok(Self(weight)),
            Some(_) | None => Err(WeightError(weight)),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
