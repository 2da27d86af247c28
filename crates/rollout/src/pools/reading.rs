//! What is known of a pool, and what is wanted of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hitless_api::PodRef;

use super::PoolKey;

/// What a load balancer shows of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// It gets new sessions.
    Serving,
    /// It would get sessions only if no other one could serve.
    Standby,
    /// Its health check says no.
    Unhealthy,
    /// The load balancer is busy with a change.
    Changing,
    /// It gets no new sessions but some that stick to it. Not out yet, even with none open.
    Draining {
        /// Open ones; `None` where the load balancer does not count them.
        sessions: Option<u32>,
    },
    /// It gets no session, and none is open.
    Out,
    /// The load balancer does not have it.
    NotRegistered,
}

impl BackendState {
    /// In words, without numbers that change all the time.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Serving => "it serves",
            Self::Standby => "it is a backup server",
            Self::Unhealthy => "the load balancer's health check says no",
            Self::Changing => "the load balancer is busy with a change of it",
            Self::Draining { .. } => "it is being drained",
            Self::Out => "it is out",
            Self::NotRegistered => "it is not registered",
        }
    }
}

/// Who has registered a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// We have.
    Us,
    /// Anybody else; we never change it.
    Others,
}

/// One server of a pool, or an address at which one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// What the load balancer shows.
    pub state: BackendState,
    /// Who has registered it; of one that is not registered: us.
    pub owner: Owner,
    /// What was wanted of it when this was read. A reading from before the load balancer was told to let nobody in proves nothing: who
    /// reads may be about to register it.
    pub told: Option<Stand>,
}

/// The last reading of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolReading {
    /// Fresh enough to rely on. Each address that is registered, or at which a server is wanted.
    Read(BTreeMap<SocketAddr, Backend>),
    /// Nothing is known, for this reason.
    Unreadable(String),
    /// It can be read, and not from here: nothing is taken to be in the way.
    Assumed,
}

impl PoolReading {
    /// What it says of an address.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Option<Backend> {
        match self {
            Self::Read(backends) => backends.get(&address).copied(),
            Self::Unreadable(_) | Self::Assumed => None,
        }
    }
}

/// Where a server should stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It should get sessions.
    In,
    /// It should get none for a while.
    Out,
    /// It should not be listed.
    Gone,
}

/// What is wanted of one server. The last one that serves stays, whatever is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredBackend {
    /// Whose it is; for people. `None`: no pod is known at this address any more.
    pub pod: Option<PodRef>,
    /// Where.
    pub address: SocketAddr,
    /// In or out.
    pub stand: Stand,
}

/// What is wanted of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredPool {
    /// Which.
    pub key: PoolKey,
    /// Its servers, by address. What is not listed stays as it is.
    pub backends: Vec<DesiredBackend>,
}
