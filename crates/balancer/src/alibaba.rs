//! Alibaba Cloud's Network Load Balancer (NLB, API version 2022-04-30): pods are servers of type `Ip` of a server group, whose id is the
//! pool's name.
//!
//! What the API asks of callers:
//!
//! * It counts no sessions. A server is out when it is no longer listed. So that its sessions end before, the server group
//!   needs connection draining (`ConnectionDrainEnabled`).
//! * Every write is asynchronous: the server is `Adding`, `Configuring` or `Removing` for a while, see
//!   [`ServerState::Changing`](crate::ServerState::Changing) and [`ServerState::Leaving`](crate::ServerState::Leaving).
//! * The list of servers does not say what health checks found: a server is never seen as unhealthy.
//! * A server is ours if its description is our name for its own address. IPv6 addresses do not fit there, so they are refused.

mod answer;
mod call;
mod sign;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::{Mark, PoolName, Provider, ProviderError, Server, ServerName, Weight};

use answer::Page;
use call::Operation;
pub use call::{Api, ApiError, Retries};
pub use sign::Credentials;

/// Most servers on a page.
const PAGE: usize = 100;
/// Most pages; a server group has 1,000 servers at most.
const MOST_PAGES: usize = 50;
/// NLB's largest.
const LARGEST_WEIGHT: u16 = 100;

/// The server groups of one region.
#[derive(Clone, Debug)]
pub struct Nlb {
    api: Api,
    mark: Mark,
}

impl Nlb {
    /// Server groups behind this API. Servers are registered with `mark` in their descriptions.
    #[must_use]
    pub const fn new(api: Api, mark: Mark) -> Self {
        Self { api, mark }
    }

    /// All pages, and how many there are.
    async fn pages(&self, pool: &PoolName) -> Result<(Vec<Server>, usize), ProviderError> {
        let (mut servers, mut names) = (Vec::new(), BTreeSet::new());
        let mut token = None;
        for pages in 1..=MOST_PAGES {
            let mut operation = Operation::new("ListServerGroupServers", pool).with("MaxResults", PAGE);
            if let Some(token) = token {
                operation = operation.with("NextToken", token);
            }
            let page = Page::read(&operation, &self.api.call(&operation).await?)?;
            for server in page.servers(&operation, &self.mark)? {
                if !names.insert(server.name.clone()) {
                    return Err(changed(pool, &server.name));
                }
                servers.push(server);
            }
            match page.next_token() {
                None => return Ok((servers, pages)),
                Some(next) => token = Some(next),
            }
        }
        let why = format!("it has more than {MOST_PAGES} pages");
        Err(ProviderError::Unexpected { request: "ListServerGroupServers".into(), why })
    }

    async fn weigh(&self, pool: &PoolName, server: &ServerName, weight: u16) -> Result<(), ProviderError> {
        let address = self.ours("UpdateServerGroupServersAttribute", server)?;
        let operation = self.on("UpdateServerGroupServersAttribute", pool, address)?;
        self.api.call(&operation.about(server).with("Servers.1.Weight", weight)).await.map(drop)
    }

    /// An operation on the server with this address. Whatever writes can be repeated: the token tells.
    fn on(&self, action: &'static str, pool: &PoolName, address: SocketAddr) -> Result<Operation, ProviderError> {
        let SocketAddr::V4(address) = address else {
            return Err(ProviderError::NotSupported {
                request: action.to_owned(),
                why: format!("{address} does not fit into a server's description, by which we know our own"),
                remedy: "use IPv4 addresses",
            });
        };
        Ok(Operation::new(action, pool)
            .with("ClientToken", sign::nonce())
            .with("Servers.1.ServerId", address.ip())
            .with("Servers.1.ServerIp", address.ip())
            .with("Servers.1.ServerType", "Ip")
            .with("Servers.1.Port", address.port())
            .with("Servers.1.Description", self.mark.name_of(address.into())))
    }

    fn ours(&self, action: &'static str, server: &ServerName) -> Result<SocketAddr, ProviderError> {
        self.mark.address_of(server).ok_or_else(|| ProviderError::NotSupported {
            request: action.to_owned(),
            why: format!("{server} is not ours"),
            remedy: "change it where it was registered",
        })
    }
}

impl Provider for Nlb {
    async fn read(&self, pool: &PoolName) -> Result<Vec<Server>, ProviderError> {
        let (mut servers, pages) = self.pages(pool).await?;
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        if pages > 1 {
            // Pages are read one after the other. A server that was removed meanwhile might have moved another one to a page that was
            // read before, and that one must not be taken for out.
            let (again, _) = self.pages(pool).await?;
            let names: BTreeSet<&ServerName> = again.iter().map(|server| &server.name).collect();
            let gone = servers.iter().find(|server| !names.contains(&server.name));
            let new = again.iter().find(|server| !servers.iter().any(|other| other.name == server.name));
            if let Some(server) = gone.or(new) {
                return Err(changed(pool, &server.name));
            }
        }
        Ok(servers)
    }

    async fn register(&self, pool: &PoolName, address: SocketAddr, weight: Weight) -> Result<(), ProviderError> {
        let operation = self.on("AddServersToServerGroup", pool, address)?;
        let operation = operation.about(&self.mark.name_of(address)).with("Servers.1.Weight", fitting(weight)?);
        self.api.call(&operation).await.map(drop)
    }

    async fn set_weight(&self, pool: &PoolName, server: &ServerName, weight: Weight) -> Result<(), ProviderError> {
        self.weigh(pool, server, fitting(weight)?).await
    }

    async fn ready(&self, pool: &PoolName, server: &ServerName, weight: Weight) -> Result<(), ProviderError> {
        self.weigh(pool, server, fitting(weight)?).await
    }

    async fn drain(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        self.weigh(pool, server, 0).await
    }

    /// Nothing: the decider closes only where sessions are counted.
    async fn close(&self, _: &PoolName, _: &ServerName) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn deregister(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        let address = self.ours("RemoveServersFromServerGroup", server)?;
        let operation = self.on("RemoveServersFromServerGroup", pool, address)?;
        self.api.call(&operation.about(server)).await.map(drop)
    }
}

fn changed(pool: &PoolName, server: &ServerName) -> ProviderError {
    ProviderError::Changed { pool: pool.clone(), server: server.to_string() }
}

fn fitting(weight: Weight) -> Result<u16, ProviderError> {
    if weight.get() <= LARGEST_WEIGHT {
        return Ok(weight.get());
    }
    Err(ProviderError::NotSupported {
        request: format!("weight {weight}"),
        why: format!("weights of NLB end at {LARGEST_WEIGHT}"),
        remedy: "use a smaller one",
    })
}
