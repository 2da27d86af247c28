//! Alibaba Cloud's load balancers, by their APIs: pods are servers of a group, whose id is the pool's name.
//!
//! | Product | API | Group | A pod is |
//! | --- | --- | --- | --- |
//! | Network Load Balancer (NLB) | Nlb 2022-04-30 | server group | a server of type `Ip` |
//! | Application Load Balancer (ALB) | Alb 2020-06-16 | server group | a server of type `Ip` |
//! | Classic Load Balancer (CLB) | Slb 2014-05-15, Ecs 2014-05-26 | vServer group | a server of type `eni` |
//!
//! What the APIs ask of callers:
//!
//! * They count no sessions. A server is out when it is no longer listed. So that its sessions end before, the load balancer needs
//!   connection draining (`ConnectionDrainEnabled` of a server group, `ConnectionDrain` of CLB's listeners).
//! * Writes of NLB and ALB are asynchronous: the server is `Adding`, `Configuring` or `Removing` for a while, see
//!   [`ServerState::Changing`](crate::ServerState::Changing) and [`ServerState::Leaving`](crate::ServerState::Leaving). CLB's list never shows
//!   one on its way.
//! * The lists of NLB and ALB do not say what health checks found: a server is never seen as unhealthy. CLB tells.
//! * A server is ours if its description is our name for its own address. IPv6 addresses do not fit there, so they are refused.

mod account;
mod call;
#[doc(hidden)]
pub mod fuzz;
mod interfaces;
mod refusal;
mod server_groups;
mod service;
mod sign;
mod vserver_groups;

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;

use crate::{Mark, Owner, PoolName, Provider, ProviderError, Server, ServerName, Weight};

pub use account::{Account, ApiError, Region, Retries, Vpc};
use call::Api;
use server_groups::ServerGroups;
use service::Service;
pub use sign::Credentials;
use vserver_groups::VServerGroups;

/// The largest of all products.
const LARGEST_WEIGHT: u16 = 100;

/// A kind of load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Product {
    /// Network Load Balancer.
    Nlb,
    /// Application Load Balancer.
    Alb,
    /// Classic Load Balancer.
    Clb {
        /// Where the pods are; needed if their addresses exist in another VPC of the region, too.
        vpc: Option<Vpc>,
    },
}

/// The groups of one product in one region.
#[derive(Clone, Debug)]
pub struct Alibaba {
    product: Product,
    groups: Groups,
    mark: Mark,
}

#[derive(Clone, Debug)]
enum Groups {
    Servers(ServerGroups),
    VServers(VServerGroups),
}

/// A server of ours.
struct Member<'a> {
    pool: &'a PoolName,
    name: ServerName,
    address: SocketAddrV4,
}

impl Product {
    /// As it is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nlb => "NLB",
            Self::Alb => "ALB",
            Self::Clb { .. } => "CLB",
        }
    }

    /// How the ids of its groups begin.
    const fn prefix(&self) -> &'static str {
        match self {
            Self::Nlb | Self::Alb => "sgp-",
            Self::Clb { .. } => "rsp-",
        }
    }
}

impl Alibaba {
    /// Groups of the account's region. Servers are registered with `mark` in their descriptions.
    pub fn new(product: Product, account: Account, mark: Mark) -> Result<Self, ApiError> {
        let account = Arc::new(account);
        let api = |service: Service| Api::new(service, &account);
        let groups = match &product {
            Product::Nlb => Groups::Servers(ServerGroups::new(api(Service::Nlb)?)),
            Product::Alb => Groups::Servers(ServerGroups::new(api(Service::Alb)?)),
            Product::Clb { vpc } => {
                Groups::VServers(VServerGroups::new(api(Service::Slb)?, api(Service::Ecs)?, vpc.clone()))
            }
        };
        Ok(Self { product, groups, mark })
    }

    /// Which product it is.
    #[must_use]
    pub const fn product(&self) -> &Product {
        &self.product
    }

    /// The server at an address, as we would register it.
    fn member<'a>(&self, pool: &'a PoolName, address: SocketAddr) -> Result<Member<'a>, ProviderError> {
        let name = self.mark.name_of(address);
        match address {
            SocketAddr::V4(address) => Ok(Member { pool, name, address }),
            SocketAddr::V6(_) => Err(ProviderError::NotSupported {
                request: format!("server {address}"),
                why: "its address does not fit into a server's description, by which we know our own".to_owned(),
                remedy: "use IPv4 addresses",
            }),
        }
    }

    /// A server that is listed.
    fn listed<'a>(&self, pool: &'a PoolName, server: &ServerName) -> Result<Member<'a>, ProviderError> {
        let address = self.mark.address_of(server).ok_or_else(|| ProviderError::NotSupported {
            request: format!("server {server}"),
            why: "it is not ours".to_owned(),
            remedy: "change it where it was registered",
        })?;
        self.member(pool, address)
    }

    async fn weigh(&self, pool: &PoolName, server: &ServerName, weight: u16) -> Result<(), ProviderError> {
        let member = self.listed(pool, server)?;
        match &self.groups {
            Groups::Servers(groups) => groups.weigh(&member, weight).await,
            Groups::VServers(groups) => groups.weigh(&member, weight).await,
        }
    }

    fn fitting(&self, weight: Weight) -> Result<u16, ProviderError> {
        if weight.get() <= LARGEST_WEIGHT {
            return Ok(weight.get());
        }
        Err(ProviderError::NotSupported {
            request: format!("weight {weight}"),
            why: format!("weights of {} end at {LARGEST_WEIGHT}", self.product.name()),
            remedy: "use a smaller one",
        })
    }
}

impl Provider for Alibaba {
    async fn read(&self, pool: &PoolName) -> Result<Vec<Server>, ProviderError> {
        let prefix = self.product.prefix();
        if !pool.as_str().starts_with(prefix) {
            return Err(ProviderError::NotSupported {
                request: format!("pool {pool}"),
                why: format!("groups of {} have ids that begin with {prefix}", self.product.name()),
                remedy: "name the group by its id",
            });
        }
        let mut servers = match &self.groups {
            Groups::Servers(groups) => groups.read(pool, &self.mark).await?,
            Groups::VServers(groups) => groups.read(pool, &self.mark).await?,
        };
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(servers)
    }

    async fn register(&self, pool: &PoolName, address: SocketAddr, weight: Weight) -> Result<(), ProviderError> {
        let (member, weight) = (self.member(pool, address)?, self.fitting(weight)?);
        match &self.groups {
            Groups::Servers(groups) => groups.add(&member, weight).await,
            Groups::VServers(groups) => groups.add(&member, weight).await,
        }
    }

    async fn set_weight(&self, pool: &PoolName, server: &ServerName, weight: Weight) -> Result<(), ProviderError> {
        self.weigh(pool, server, self.fitting(weight)?).await
    }

    async fn ready(&self, pool: &PoolName, server: &ServerName, weight: Weight) -> Result<(), ProviderError> {
        self.weigh(pool, server, self.fitting(weight)?).await
    }

    async fn drain(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        self.weigh(pool, server, 0).await
    }

    /// Nothing: the decider closes only where sessions are counted.
    async fn close(&self, _: &PoolName, _: &ServerName) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn deregister(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        let member = self.listed(pool, server)?;
        match &self.groups {
            Groups::Servers(groups) => groups.remove(&member).await,
            Groups::VServers(groups) => groups.remove(&member).await,
        }
    }
}

/// Name and owner of a server: ours if its description is our name for its address, else it is called by what the API knows it by.
fn owned(
    mark: &Mark,
    address: Option<SocketAddr>,
    description: &str,
    id: String,
) -> Result<(ServerName, Owner), String> {
    let ours = address.map(|address| mark.name_of(address)).filter(|name| name.as_str() == description);
    match ours {
        Some(name) => Ok((name, Owner::Us)),
        None => Ok((ServerName::new(id).map_err(|error| error.to_string())?, Owner::Others)),
    }
}

fn changed(pool: &PoolName, server: &ServerName) -> ProviderError {
    ProviderError::Changed { pool: pool.clone(), server: server.to_string() }
}
