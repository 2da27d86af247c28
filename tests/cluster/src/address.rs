//! The addresses inside a cluster. They repeat from cluster to cluster: each has namespaces of its own.
//!
//! | What | IPv4 | IPv6 |
//! | --- | --- | --- |
//! | nodes and control plane | `172.31.255.0/24` | `fd00:172:31:255::/64` |
//! | pods of node N | `172.31.N.0/24` | `fd00:172:31:N::/64` |
//! | Services | `172.29.0.0/16` | `fd00:172:29::/112` |
//! | outside | `172.30.255.0/24` | `fd00:172:30:255::/64` |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How many nodes a cluster may have: each takes a network of its own for its pods.
pub(crate) const MAX_NODES: u8 = 100;
/// Port of the API server.
pub(crate) const API_SERVER_PORT: u16 = 6443;
/// Port of the image registry.
const REGISTRY_PORT: u16 = 5000;

/// One of the two families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The control plane: API server and image registry.
    pub(crate) const fn control_plane(self) -> IpAddr {
        self.of_nodes(1)
    }

    /// The image registry.
    pub(crate) const fn registry(self) -> SocketAddr {
        SocketAddr::new(self.control_plane(), REGISTRY_PORT)
    }

    /// The cluster IPs of Services. As many as real clusters have: a node's connection tracking remembers for a day to which
    /// pod a connection went that was cut off, and sends a new one from the same port to the same cluster IP there, whosever
    /// Service it is by now.
    pub(crate) const fn services(self) -> &'static str {
        match self {
            Self::V4 => "172.29.0.0/16",
            Self::V6 => "fd00:172:29::/112",
        }
    }

    /// The cluster IP of the API server's own Service, the first of [`Self::services`].
    pub(crate) const fn api_service(self) -> IpAddr {
        self.service(1)
    }

    /// Said to pods to be the DNS server. There is none, but without an address the kubelet warns at every pod.
    pub(crate) const fn dns(self) -> IpAddr {
        self.service(10)
    }

    /// A network outside of the cluster, for clients and load balancers: not in [`Self::cluster`], or kube-proxy would take
    /// them for pods.
    pub(crate) const fn outside(self) -> IpAddr {
        self.at([0x172, 0x30, 0x255], [172, 30, 255], 2)
    }

    /// The router between it and the nodes.
    pub(crate) const fn outside_router(self) -> IpAddr {
        self.at([0x172, 0x30, 0x255], [172, 30, 255], 1)
    }

    /// All pods and nodes: what kube-proxy must not masquerade.
    pub(crate) const fn cluster(self) -> &'static str {
        match self {
            Self::V4 => "172.31.0.0/16",
            Self::V6 => "fd00:172:31::/48",
        }
    }

    /// The address of node `index` (from 1).
    pub(crate) const fn node(self, index: u8) -> IpAddr {
        self.of_nodes(10 + index)
    }

    /// The pods of node `index` (from 1).
    pub(crate) fn pods(self, index: u8) -> String {
        match self {
            Self::V4 => format!("172.31.{index}.0/24"),
            Self::V6 => format!("fd00:172:31:{index}::/64"),
        }
    }

    /// Length of the prefix of every network with interfaces.
    pub(crate) const fn prefix_length(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }

    /// All addresses, as a destination of routes.
    pub(crate) const fn everywhere(self) -> &'static str {
        match self {
            Self::V4 => "0.0.0.0/0",
            Self::V6 => "::/0",
        }
    }

    /// All addresses of a host, to listen on. Where it is IPv6's, IPv4 is served, too.
    pub(crate) const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// A host's own address.
    pub(crate) const fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }

    const fn of_nodes(self, host: u8) -> IpAddr {
        self.at([0x172, 0x31, 0x255], [172, 31, 255], host)
    }

    const fn service(self, host: u8) -> IpAddr {
        self.at([0x172, 0x29, 0], [172, 29, 0], host)
    }

    const fn at(self, v6: [u16; 3], v4: [u8; 3], host: u8) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(v4[0], v4[1], v4[2], host)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, v6[0], v6[1], v6[2], 0, 0, 0, host as u16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_the_same_plan() {
        let text = |family: Family| {
            [family.control_plane(), family.node(1), family.outside(), family.outside_router(), family.api_service()]
                .map(|address| address.to_string())
        };
        assert_eq!(text(Family::V4), ["172.31.255.1", "172.31.255.11", "172.30.255.2", "172.30.255.1", "172.29.0.1"]);
        assert_eq!(
            text(Family::V6),
            ["fd00:172:31:255::1", "fd00:172:31:255::b", "fd00:172:30:255::2", "fd00:172:30:255::1", "fd00:172:29::1"]
        );
        assert_eq!(Family::V6.registry().to_string(), "[fd00:172:31:255::1]:5000");
        // Pods are within what kube-proxy takes for the cluster, and no node's are the nodes'.
        for index in [1, MAX_NODES] {
            assert!(Family::V4.pods(index).starts_with("172.31."));
            assert!(Family::V6.pods(index).starts_with("fd00:172:31:"));
            assert_ne!(index, 255);
        }
    }
}
