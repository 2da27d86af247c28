//! Which addresses an approver may have. Whoever writes a rule names an address that the controller connects to: never its loopback
//! address, nor one that only its node is meant to reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hitless_gate::approval::target::Target;
use tokio::net::lookup_host;

use crate::approval::requests::Failure;

/// Metadata servers that are not link-local: Alibaba Cloud's, and that of AWS by IPv6.
const METADATA: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254))];

/// How far approvers are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the network.
    Network,
    /// At loopback addresses, too; for tests.
    OwnAddresses,
}

impl Reach {
    /// The addresses of the target's name, if an approver may have each of them. They are the ones to connect to: asked again, a name
    /// may have others.
    pub(super) async fn resolve(self, target: &Target) -> Result<Vec<SocketAddr>, Failure> {
        // getaddrinfo on a thread of its own. In glibc 2.34 and later it needs no plug-ins, so it works in a static binary too.
        let resolved = lookup_host((target.host.as_str(), target.port)).await;
        let addresses: Vec<SocketAddr> = resolved
            .map_err(|error| {
                Failure::Unreachable(format!("{}: the name can't be resolved: {error}", target.authority))
            })?
            .collect();
        let refused = addresses.iter().find_map(|address| Some((address, self.refusal(address.ip())?)));
        match refused {
            None => Ok(addresses),
            Some((address, why)) => Err(Failure::Misconfigured(format!(
                "{}: no approver is asked at {}: {why}; give its Service, or an address in the network",
                target.authority,
                address.ip()
            ))),
        }
    }

    fn refusal(self, address: IpAddr) -> Option<&'static str> {
        if self == Self::OwnAddresses {
            return None;
        }
        let address = address.to_canonical();
        let is_link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if address.is_loopback() || address.is_unspecified() {
            Some("that is the controller itself")
        } else if is_link_local || METADATA.contains(&address) {
            Some("that is link-local, or a cloud's metadata server")
        } else if address.is_multicast() {
            Some("that is a multicast address")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_in_the_network_are_asked() {
        let refused = |address: &str| Reach::Network.refusal(address.parse().unwrap()).is_some();
        for address in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "100.100.100.200", "224.0.0.1"] {
            assert!(refused(address), "{address}");
        }
        for address in
            ["::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254"]
        {
            assert!(refused(address), "{address}");
        }
        for address in ["10.96.0.10", "192.168.1.1", "203.0.113.9", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(!refused(address), "{address}");
        }
    }

    #[tokio::test]
    async fn a_rule_that_names_one_is_told_why() {
        let target = Target::parse("http://169.254.169.254/latest/meta-data", "url").unwrap();
        let Err(Failure::Misconfigured(words)) = Reach::Network.resolve(&target).await else { panic!("it is asked") };
        assert!(words.contains("metadata server") && words.contains("give its Service"), "{words}");
    }
}
