//! Pools of load balancers outside of the cluster: which pods are in which, what their load balancers show of them, and what is wanted
//! of them (docs/balancers.md).

mod bound;
mod reading;

use std::fmt;

use hitless_api::traffic_provider::{TrafficProviderSpec, TrafficProviderStatus};
use hitless_api::{TrafficProvider, Version};

pub use bound::{Flaw, Pools};
pub use reading::{Backend, BackendState, DesiredBackend, DesiredPool, Owner, PoolReading, Stand};

/// A pool of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// Name of the TrafficProvider.
    pub provider: String,
    /// As the load balancer calls it.
    pub pool: String,
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.pool)
    }
}

/// A TrafficProvider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderView {
    /// Name.
    pub name: String,
    /// What a write is conditional on.
    pub version: Version,
    /// What an administrator wrote.
    pub spec: TrafficProviderSpec,
    /// What we last reported.
    pub status: Option<TrafficProviderStatus>,
}

impl From<TrafficProvider> for ProviderView {
    fn from(object: TrafficProvider) -> Self {
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            version: Version {
                uid: object.metadata.uid.clone().unwrap_or_default(),
                resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
            },
            spec: object.spec,
            status: object.status,
        }
    }
}

impl ProviderView {
    /// The keys of its pools.
    pub fn keys(&self) -> impl Iterator<Item = PoolKey> {
        self.spec.pools.iter().map(|pool| PoolKey { provider: self.name.clone(), pool: pool.name.clone() })
    }
}
