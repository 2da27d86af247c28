//! The last reading of a pool, and how long it is worth something.

use std::time::{Duration, Instant};

use crate::{ProviderError, Server};

/// A reading that is older proves nothing: somebody else may have changed the pool since. Several times what a round takes.
pub const FRESH: Duration = Duration::from_secs(10);

/// What a pool's last reading has given.
#[derive(Clone, Debug)]
pub struct Observation {
    read: Result<Vec<Server>, String>,
    at: Instant,
}

/// Why nothing is known about a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The provider gave no answer, or none that can be relied on.
    #[error("the load balancer's servers could not be read: {0}")]
    Unreadable(String),
    /// The reading is too old.
    #[error("the load balancer's servers were last read {} s ago, which is too long to rely on", .age.as_secs())]
    Stale {
        /// How old.
        age: Duration,
    },
}

impl Observation {
    /// A reading that was *begun* at `at`.
    #[must_use]
    pub fn new(read: Result<Vec<Server>, ProviderError>, at: Instant) -> Self {
        Self { read: read.map_err(|error| error.to_string()), at }
    }

    /// All servers of the pool, if that is known.
    pub fn servers(&self, now: Instant) -> Result<&[Server], Unknown> {
        let servers = self.read.as_ref().map_err(|error| Unknown::Unreadable(error.clone()))?;
        let age = now.saturating_duration_since(self.at);
        if age > FRESH { Err(Unknown::Stale { age }) } else { Ok(servers) }
    }
}
