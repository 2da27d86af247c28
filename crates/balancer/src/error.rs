//! Why a provider did not do what it was asked.

use std::io;
use std::time::Duration;

use crate::{PoolName, ServerName};

/// What was asked of a provider, why it was not done, and what to do. None of them says that a server is out.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// No connection, or it broke.
    #[error(
        "no connection to the load balancer at {endpoint}: {source}; check that it runs and that the address is right"
    )]
    Unreachable {
        /// Where.
        endpoint: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It took too long. Whether the request took effect is not known: read before the next one.
    #[error("the load balancer at {endpoint} did not answer {request:?} within {} ms; it is overloaded or hangs", .limit.as_millis())]
    TimedOut {
        /// Where.
        endpoint: String,
        /// What was asked.
        request: String,
        /// How long was waited.
        limit: Duration,
    },
    /// More than we take.
    #[error(
        "the load balancer's answer to {request:?} is longer than {limit} bytes, so it was not read; use smaller pools"
    )]
    TooLong {
        /// What was asked.
        request: String,
        /// In bytes.
        limit: usize,
    },
    /// An answer that breaks off, or is not as documented. It proves nothing.
    #[error(
        "the load balancer's answer to {request:?} can't be used: {why}; try again, and check its version if that does not help"
    )]
    Unexpected {
        /// What was asked.
        request: String,
        /// What is wrong with it.
        why: String,
    },
    /// The list of servers changed while it was read.
    #[error("pool {pool} was changed while it was read (server {server}); read it again")]
    Changed {
        /// Which pool.
        pool: PoolName,
        /// The server that is in one part of the answer only.
        server: String,
    },
    /// The credentials or the socket do not allow it.
    #[error("the load balancer denied {request:?}; {remedy}")]
    Denied {
        /// What was asked.
        request: String,
        /// What to change.
        remedy: &'static str,
    },
    /// No such backend or server group.
    #[error("the load balancer has no pool {0}; check the name, and that its configuration is loaded")]
    NoPool(PoolName),
    /// No such server: somebody else has deleted it.
    #[error("pool {pool} has no server {server} any more; read the pool again")]
    NoServer {
        /// Which pool.
        pool: PoolName,
        /// Which server.
        server: ServerName,
    },
    /// It is there already.
    #[error("pool {pool} has a server {server} already; read the pool again")]
    Exists {
        /// Which pool.
        pool: PoolName,
        /// Which server.
        server: ServerName,
    },
    /// It has connections, or is not in maintenance any more.
    #[error("server {server} of pool {pool} can't be changed yet: {why}; read the pool again")]
    Busy {
        /// Which pool.
        pool: PoolName,
        /// Which server.
        server: ServerName,
        /// The provider's words.
        why: String,
    },
    /// The provider can't do this at all, as it is configured or in its version.
    #[error("the load balancer can't do {request:?}: {why}; {remedy}")]
    NotSupported {
        /// What was asked.
        request: String,
        /// The provider's words.
        why: String,
        /// What to change.
        remedy: &'static str,
    },
    /// Any other refusal.
    #[error("the load balancer refused {request:?}: {answer}; its documentation says what this means")]
    Refused {
        /// What was asked.
        request: String,
        /// The provider's words.
        answer: String,
    },
}

impl ProviderError {
    /// Whether the same request would fail again until somebody changes something.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        match self {
            Self::TooLong { .. }
            | Self::Unexpected { .. }
            | Self::Denied { .. }
            | Self::NoPool(_)
            | Self::NotSupported { .. }
            | Self::Refused { .. } => true,
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Changed { .. }
            | Self::NoServer { .. }
            | Self::Exists { .. }
            | Self::Busy { .. } => false,
        }
    }

    /// Whether the provider as a whole did not answer.
    pub(crate) const fn is_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::TooLong { .. }
            | Self::Unexpected { .. }
            | Self::Changed { .. }
            | Self::Denied { .. }
            | Self::NoPool(_)
            | Self::NoServer { .. }
            | Self::Exists { .. }
            | Self::Busy { .. }
            | Self::NotSupported { .. }
            | Self::Refused { .. } => false,
        }
    }
}
