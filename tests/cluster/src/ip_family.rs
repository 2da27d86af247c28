//! Which families of addresses a cluster has.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::address::Family;
use crate::named::named;

/// The addresses of nodes, pods and Services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum IpFamily {
    /// IPv4 alone.
    #[default]
    Ipv4,
    /// IPv6 alone.
    Ipv6,
    /// Both: pods and nodes have an address of each, IPv4 first. A Service has one of IPv4 unless it asks for another.
    Dual,
}

impl IpFamily {
    pub(crate) const ALL: [(Self, &str); 3] = [(Self::Ipv4, "ipv4"), (Self::Ipv6, "ipv6"), (Self::Dual, "dual")];

    /// How many families these are.
    #[must_use]
    pub const fn count(self) -> usize {
        self.each().len()
    }

    /// The families, the first one that of `status.podIP`.
    pub(crate) const fn each(self) -> &'static [Family] {
        match self {
            Self::Ipv4 => &[Family::V4],
            Self::Ipv6 => &[Family::V6],
            Self::Dual => &[Family::V4, Family::V6],
        }
    }

    /// The family of `status.podIP`.
    pub(crate) const fn first(self) -> Family {
        match self {
            Self::Ipv4 | Self::Dual => Family::V4,
            Self::Ipv6 => Family::V6,
        }
    }

    /// Something of each family, the first one first, as Kubernetes' settings have it.
    pub(crate) fn list<T: fmt::Display>(self, of: impl Fn(Family) -> T) -> String {
        let all: Vec<String> = self.each().iter().map(|family| of(*family).to_string()).collect();
        all.join(",")
    }

    /// What programs listen on to be reached by every family of the cluster.
    pub(crate) fn unspecified(self) -> std::net::IpAddr {
        let last = self.each().last().copied().unwrap_or(Family::V4);
        last.unspecified()
    }
}

named!(IpFamily, "family of addresses");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_dual_cluster_name_ipv4_first_and_its_programs_listen_for_both() {
        assert_eq!(IpFamily::Dual.list(Family::control_plane), "172.31.255.1,fd00:172:31:255::1");
        assert_eq!(IpFamily::Dual.list(Family::services), "172.29.0.0/16,fd00:172:29::/112");
        assert_eq!(IpFamily::Dual.unspecified().to_string(), "::");
        assert_eq!(IpFamily::Ipv4.unspecified().to_string(), "0.0.0.0");
        assert_eq!(IpFamily::Dual.first(), Family::V4);
    }
}
