//! Which network interface has a pod's address. CLB asks for it; ECS knows it.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::ProviderError;

use super::Member;
use super::account::Vpc;
use super::call::{Api, Operation, Page};

/// The id of the one interface that has the member's address.
pub(super) async fn holder(ecs: &Api, vpc: Option<&Vpc>, member: &Member<'_>) -> Result<String, ProviderError> {
    let ip = member.address.ip().to_string();
    let mut operation = Operation::new("DescribeNetworkInterfaces", member.pool)
        .about(&member.name)
        .with("RegionId", ecs.region())
        .with("Status", "InUse")
        .with("PrivateIpAddress.1", &ip);
    if let Some(vpc) = vpc {
        operation = operation.with("VpcId", vpc);
    }
    let pages: Vec<Interfaces> = ecs.pages(&operation).await?;
    let interfaces = pages.into_iter().flat_map(|page| page.network_interface_sets.network_interface_set);
    let ids: BTreeSet<String> =
        interfaces.filter(|each| each.has(&ip)).map(|interface| interface.network_interface_id).collect();
    let refused = |why: String, remedy: &'static str| ProviderError::NotSupported {
        request: operation.action.to_owned(),
        why,
        remedy,
    };
    let mut ids = ids.into_iter();
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => Err(refused(
            format!("no network interface in use has the address {ip}"),
            "use pods whose addresses are those of network interfaces (Terway), in this region and VPC",
        )),
        (Some(one), Some(other)) => Err(refused(
            format!("{one} and {other} both have the address {ip}"),
            "say in which VPC the pods are: alibabaClb.vpc",
        )),
    }
}

/// The answer to `DescribeNetworkInterfaces`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Interfaces {
    network_interface_sets: InterfaceSets,
    next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InterfaceSets {
    network_interface_set: Vec<Interface>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Interface {
    network_interface_id: String,
    private_ip_sets: IpSets,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct IpSets {
    private_ip_set: Vec<Ip>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ip {
    private_ip_address: String,
}

impl Page for Interfaces {
    fn next_token(&self) -> Option<&str> {
        self.next_token.as_deref().filter(|token| !token.is_empty())
    }
}

impl Interface {
    /// Its own address, or one of its further ones: pods share interfaces.
    fn has(&self, ip: &str) -> bool {
        self.private_ip_sets.private_ip_set.iter().any(|each| each.private_ip_address == ip)
    }
}
