//! Server groups of NLB and of ALB: both APIs have the same operations, with the same parameters and answers.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use crate::{Mark, PoolName, ProviderError, Server, ServerName, ServerState};

use super::call::{Api, Operation, Page};
use super::{Member, changed, owned};

const LIST: &str = "ListServerGroupServers";

/// The server groups of one region.
#[derive(Clone, Debug)]
pub(super) struct ServerGroups {
    api: Api,
}

impl ServerGroups {
    pub(super) const fn new(api: Api) -> Self {
        Self { api }
    }

    pub(super) async fn read(&self, pool: &PoolName, mark: &Mark) -> Result<Vec<Server>, ProviderError> {
        let (servers, pages) = self.pages(pool, mark).await?;
        if pages > 1 {
            // Pages are read one after the other. A server that was removed meanwhile might have moved another one to a page that was
            // read before, and that one must not be taken for out.
            let (again, _) = self.pages(pool, mark).await?;
            let names = |servers: &[Server]| -> BTreeSet<ServerName> {
                servers.iter().map(|server| server.name.clone()).collect()
            };
            if let Some(server) = names(&servers).symmetric_difference(&names(&again)).next() {
                return Err(changed(pool, server));
            }
        }
        Ok(servers)
    }

    /// The servers on all pages, and how many pages there are.
    async fn pages(&self, pool: &PoolName, mark: &Mark) -> Result<(Vec<Server>, usize), ProviderError> {
        let operation = Operation::new(LIST, pool).with("ServerGroupId", pool);
        let pages: Vec<Listing> = self.api.pages(&operation).await?;
        Ok((listed(&operation, mark, &pages)?, pages.len()))
    }

    pub(super) async fn add(&self, member: &Member<'_>, weight: u16) -> Result<(), ProviderError> {
        self.write("AddServersToServerGroup", member, Some(weight)).await
    }

    pub(super) async fn weigh(&self, member: &Member<'_>, weight: u16) -> Result<(), ProviderError> {
        self.write("UpdateServerGroupServersAttribute", member, Some(weight)).await
    }

    pub(super) async fn remove(&self, member: &Member<'_>) -> Result<(), ProviderError> {
        self.write("RemoveServersFromServerGroup", member, None).await
    }

    /// It can be repeated: the token tells that it is the same write.
    async fn write(&self, action: &'static str, member: &Member<'_>, weight: Option<u16>) -> Result<(), ProviderError> {
        let address = member.address;
        let mut operation = Operation::new(action, member.pool)
            .about(&member.name)
            .with("ServerGroupId", member.pool)
            .with("ClientToken", super::sign::nonce())
            .with("Servers.1.ServerId", address.ip())
            .with("Servers.1.ServerIp", address.ip())
            .with("Servers.1.ServerType", "Ip")
            .with("Servers.1.Port", address.port());
        if let Some(weight) = weight {
            operation = operation.with("Servers.1.Weight", weight).with("Servers.1.Description", &member.name);
        }
        self.api.call(&operation).await.map(drop)
    }
}

/// The servers on all pages. One that is there twice has moved from one page to another.
pub(super) fn listed(operation: &Operation, mark: &Mark, pages: &[Listing]) -> Result<Vec<Server>, ProviderError> {
    let (mut servers, mut names) = (Vec::new(), BTreeSet::new());
    for entry in pages.iter().flat_map(|page| &page.servers) {
        let server = entry.server(mark).map_err(|why| operation.unexpected(why))?;
        if !names.insert(server.name.clone()) {
            return Err(changed(&operation.pool, &server.name));
        }
        servers.push(server);
    }
    Ok(servers)
}

/// The answer to `ListServerGroupServers`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listing {
    servers: Vec<Entry>,
    next_token: Option<String>,
}

impl Page for Listing {
    fn next_token(&self) -> Option<&str> {
        self.next_token.as_deref().filter(|token| !token.is_empty())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    server_id: String,
    #[serde(default)]
    server_ip: String,
    /// None if the group forwards all ports.
    #[serde(default)]
    port: u16,
    weight: u16,
    status: Status,
    #[serde(default)]
    description: String,
}

/// As documented; another one makes the answer void.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Status {
    Adding,
    Available,
    Configuring,
    Removing,
    /// ALB: others put another server in its place.
    Replacing,
}

impl Entry {
    fn server(&self, mark: &Mark) -> Result<Server, String> {
        let address = self.server_ip.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port));
        // A server is known by its id, its address (an interface may have several) and its port.
        let id = [self.server_id.as_str(), self.server_ip.as_str(), &self.port.to_string()].join(":");
        let (name, owner) = owned(mark, address, &self.description, id)?;
        let state = match self.status {
            Status::Available if self.weight == 0 => ServerState::Draining,
            Status::Available => ServerState::Ready,
            Status::Adding | Status::Configuring | Status::Replacing => ServerState::Changing,
            Status::Removing => ServerState::Leaving,
        };
        Ok(Server { name, address, state, weight: self.weight, sessions: None, owner })
    }
}
