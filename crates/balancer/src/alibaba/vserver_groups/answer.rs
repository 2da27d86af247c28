//! Answers about vServer groups: lists are in an object of their own, and numbers may come as texts.

use std::net::{IpAddr, SocketAddr};
use std::num::ParseIntError;

use serde::Deserialize;

use crate::{Mark, Server, ServerState};

use super::super::owned;

/// The answer to `DescribeVServerGroupAttribute`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in super::super) struct Group {
    pub(super) load_balancer_id: String,
    backend_servers: BackendServers<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BackendServers<T> {
    backend_server: Vec<T>,
}

/// A server of the group.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
    pub(super) server_id: String,
    #[serde(default)]
    server_ip: String,
    port: Number,
    weight: Number,
    /// Absent if it was added without one.
    #[serde(default)]
    pub(super) description: String,
}

/// The answer to `DescribeHealthStatus`: what each listener's health checks have found.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in super::super) struct HealthStatus {
    backend_servers: BackendServers<Checked>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Checked {
    server_id: String,
    port: Number,
    /// The server's own address, or that of the machine with the interface.
    #[serde(default)]
    server_ip: String,
    /// The interface's address.
    #[serde(default)]
    eni_host: String,
    server_health_status: Health,
}

/// As documented; another one makes the answer void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Normal,
    Abnormal,
    /// Not checked, or not yet.
    Unavailable,
}

/// The documentation shows both `80` and `"80"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
struct Number(u16);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u16),
    Text(String),
}

impl TryFrom<Written> for Number {
    type Error = ParseIntError;

    fn try_from(written: Written) -> Result<Self, ParseIntError> {
        match written {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse().map(Self),
        }
    }
}

impl Group {
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.backend_servers.backend_server.iter()
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.backend_servers.backend_server.into_iter()
    }
}

impl Entry {
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server_ip.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port.0))
    }

    /// Its health is in another answer.
    pub(super) fn server(&self, mark: &Mark) -> Result<Server, String> {
        let address = self.address();
        let id = [self.server_id.as_str(), self.server_ip.as_str(), &self.port.0.to_string()].join(":");
        let (name, owner) = owned(mark, address, &self.description, id)?;
        let weight = self.weight.0;
        let state = if weight == 0 { ServerState::Draining } else { ServerState::Ready };
        Ok(Server { name, address, state, weight, sessions: None, owner })
    }
}

impl HealthStatus {
    /// Whether any listener gets no good answer from it.
    pub(super) fn fails(&self, entry: &Entry) -> bool {
        self.backend_servers
            .backend_server
            .iter()
            .any(|checked| checked.server_health_status == Health::Abnormal && checked.is_about(entry))
    }
}

impl Checked {
    /// An interface has several addresses, each of them a server of its own. An answer without an address is about all of them.
    fn is_about(&self, entry: &Entry) -> bool {
        let ip = if self.eni_host.is_empty() { &self.server_ip } else { &self.eni_host };
        self.server_id == entry.server_id && self.port == entry.port && (ip.is_empty() || *ip == entry.server_ip)
    }
}
