//! What the fuzz targets (tests/fuzz) call: the functions that read answers, without an API. No API: nobody else may use it.

use crate::{Mark, PoolName, ProviderError, Server, ServerName};

use super::call::Operation;
use super::refusal::Refusal;
use super::server_groups;
use super::service::Service;
use super::vserver_groups::{self, HealthStatus};

/// The servers of a server group (NLB, ALB) by the pages of its listing.
pub fn server_group(pool: &PoolName, mark: &Mark, pages: &[&[u8]]) -> Result<Vec<Server>, ProviderError> {
    let operation = Operation::new("ListServerGroupServers", pool);
    let pages = pages.iter().map(|page| operation.answer(page)).collect::<Result<Vec<_>, _>>()?;
    server_groups::listed(&operation, mark, &pages)
}

/// The servers of a vServer group (CLB) by its description, and by what health checks have found if there is an answer about that.
pub fn vserver_group(
    pool: &PoolName,
    mark: &Mark,
    group: &[u8],
    health: Option<&[u8]>,
) -> Result<Vec<Server>, ProviderError> {
    let operation = Operation::new("DescribeVServerGroupAttribute", pool);
    let group = operation.answer(group)?;
    let mut servers = vserver_groups::listed(&operation, mark, &group)?;
    if let Some(health) = health {
        let health: HealthStatus = operation.answer(health)?;
        vserver_groups::judge(&mut servers, &group, &health);
    }
    Ok(servers)
}

/// What a refusal of each API means, and whether it is tried again.
#[must_use]
pub fn refusal(pool: &PoolName, server: &ServerName, status: u16, answer: &[u8]) -> Vec<(ProviderError, bool)> {
    let operation = Operation::new("RemoveServersFromServerGroup", pool).about(server);
    let refusal = Refusal::read(answer);
    let services = [Service::Nlb, Service::Alb, Service::Slb, Service::Ecs];
    services.map(|service| (refusal.error(service, &operation), refusal.passes(status))).into()
}
