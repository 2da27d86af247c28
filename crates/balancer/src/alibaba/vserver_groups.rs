//! vServer groups of CLB. Pods are servers of type `eni`: a network interface, and one of its addresses.
//!
//! The list shows a write as done as soon as it is answered, so no server is ever `Changing`. Writes have no client token: weights and
//! removals can be repeated as they are, and an addition that is refused counts as done if the server is listed.

mod answer;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::json;

use crate::{Mark, PoolName, ProviderError, Server, ServerState};

use super::account::Vpc;
use super::call::{Api, Operation};
use super::{Member, changed, interfaces};

use answer::Entry;
pub(super) use answer::{Group, HealthStatus};

/// The vServer groups of one region.
#[derive(Clone, Debug)]
pub(super) struct VServerGroups {
    slb: Api,
    ecs: Api,
    vpc: Option<Vpc>,
}

impl VServerGroups {
    pub(super) const fn new(slb: Api, ecs: Api, vpc: Option<Vpc>) -> Self {
        Self { slb, ecs, vpc }
    }

    pub(super) async fn read(&self, pool: &PoolName, mark: &Mark) -> Result<Vec<Server>, ProviderError> {
        let operation = self.describe(pool);
        let group: Group = self.slb.read(&operation).await?;
        let mut servers = listed(&operation, mark, &group)?;
        if servers.iter().any(|server| server.state == ServerState::Ready) {
            let health = self.operation("DescribeHealthStatus", pool).with("LoadBalancerId", &group.load_balancer_id);
            let health: HealthStatus = self.slb.read(&health).await?;
            judge(&mut servers, &group, &health);
        }
        Ok(servers)
    }

    pub(super) async fn add(&self, member: &Member<'_>, weight: u16) -> Result<(), ProviderError> {
        let interface = interfaces::holder(&self.ecs, self.vpc.as_ref(), member).await?;
        let operation = self.write("AddVServerGroupBackendServers", member, &interface, Some(weight));
        match self.slb.call(&operation).await {
            // Without a client token, a repeated request whose first answer was lost looks like one that adds a server twice. No code says
            // just that, so the list tells.
            Err(refused @ (ProviderError::Exists { .. } | ProviderError::Refused { .. })) => {
                match self.entry(member).await {
                    Ok(_) => Ok(()),
                    Err(_) => Err(refused),
                }
            }
            outcome => outcome.map(drop),
        }
    }

    pub(super) async fn weigh(&self, member: &Member<'_>, weight: u16) -> Result<(), ProviderError> {
        let entry = self.entry(member).await?;
        self.slb.call(&self.write("SetVServerGroupAttribute", member, &entry.server_id, Some(weight))).await.map(drop)
    }

    pub(super) async fn remove(&self, member: &Member<'_>) -> Result<(), ProviderError> {
        let entry = self.entry(member).await?;
        self.slb.call(&self.write("RemoveVServerGroupBackendServers", member, &entry.server_id, None)).await.map(drop)
    }

    /// The member as it is listed. It is known there by the interface that it was added with, also when a pod has another one now.
    async fn entry(&self, member: &Member<'_>) -> Result<Entry, ProviderError> {
        let group: Group = self.slb.read(&self.describe(member.pool)).await?;
        let is_it = |entry: &Entry| {
            entry.address() == Some(SocketAddr::V4(member.address)) && entry.description == member.name.as_str()
        };
        group
            .into_entries()
            .find(is_it)
            .ok_or_else(|| ProviderError::NoServer { pool: member.pool.clone(), server: member.name.clone() })
    }

    fn describe(&self, pool: &PoolName) -> Operation {
        self.operation("DescribeVServerGroupAttribute", pool).with("VServerGroupId", pool)
    }

    fn write(&self, action: &'static str, member: &Member<'_>, interface: &str, weight: Option<u16>) -> Operation {
        let mut server = json!({
            "ServerId": interface,
            "ServerIp": member.address.ip().to_string(),
            "Port": member.address.port().to_string(),
            "Type": "eni",
        });
        if let Some(weight) = weight {
            server["Weight"] = weight.to_string().into();
            server["Description"] = member.name.as_str().into();
        }
        self.operation(action, member.pool)
            .about(&member.name)
            .with("VServerGroupId", member.pool)
            .with("BackendServers", json!([server]))
    }

    fn operation(&self, action: &'static str, pool: &PoolName) -> Operation {
        Operation::new(action, pool).with("RegionId", self.slb.region())
    }
}

/// The servers of a group, in its order.
pub(super) fn listed(operation: &Operation, mark: &Mark, group: &Group) -> Result<Vec<Server>, ProviderError> {
    let (mut servers, mut names) = (Vec::new(), BTreeSet::new());
    for entry in group.entries() {
        let server = entry.server(mark).map_err(|why| operation.unexpected(why))?;
        if !names.insert(server.name.clone()) {
            return Err(changed(&operation.pool, &server.name));
        }
        servers.push(server);
    }
    Ok(servers)
}

/// Tells who fails a health check among the servers of a group, as [`listed`] gives them.
pub(super) fn judge(servers: &mut [Server], group: &Group, health: &HealthStatus) {
    for (server, entry) in servers.iter_mut().zip(group.entries()) {
        if server.state == ServerState::Ready && health.fails(entry) {
            server.state = ServerState::Unhealthy;
        }
    }
}
