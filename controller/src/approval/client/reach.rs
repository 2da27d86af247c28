//! Which addresses an approver may have. Whoever writes a rule names an address that the controller connects to: never its own, the API
//! server's, nor one that only its node is meant to reach; and where the administrator has named the approvers, no others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hitless_gate::approval::target::Target;
use hitless_runtime::prefix::{InvalidPrefix, Prefix};
use tokio::net::lookup_host;

use crate::approval::requests::Failure;

/// Metadata servers that are not link-local: Alibaba Cloud's, and that of AWS by IPv6.
const METADATA: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254))];

/// How far approvers are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the network.
    Network(Limits),
    /// At loopback addresses, too; for tests.
    OwnAddresses,
}

/// What of the network is out of reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The controller's own addresses, and the API server's.
    pub never: Vec<IpAddr>,
    /// The approvers that there are; absent: whatever a rule names.
    pub only: Option<Named>,
}

/// The approvers that an administrator has named: a setting, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named(Vec<Name>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// `approver.example.com`; a Service is `name.namespace.svc`.
    Host(String),
    /// `*.example.com`: every name that ends so, with the first dot.
    Below(String),
    /// `10.1.0.0/16`.
    Prefix(Prefix),
}

/// A text that names no approver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no approver; write a host (approver.example.com), all below a domain (*.example.com), a Service (name.namespace.svc), \
     or addresses (10.1.0.0/16), several separated by commas"
)]
pub struct InvalidName(String);

impl FromStr for Named {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let prefix: Result<Prefix, InvalidPrefix> = text.parse();
        if let Ok(prefix) = prefix {
            return Ok(Self::Prefix(prefix));
        }
        let (host, is_below) = text.strip_prefix('*').map_or((text, false), |host| (host, true));
        let name = if is_below { host.strip_prefix('.').unwrap_or_default() } else { host };
        let is_label = |label: &str| {
            !label.is_empty() && label.chars().all(|each| each.is_ascii_alphanumeric() || each == '-' || each == '_')
        };
        if !name.split('.').all(is_label) {
            return Err(InvalidName(text.to_owned()));
        }
        let host = host.to_ascii_lowercase();
        Ok(if is_below { Self::Below(host) } else { Self::Host(host) })
    }
}

impl Named {
    fn allow(&self, target: &Target, addresses: &[SocketAddr]) -> bool {
        // A Service has one name, however much of its domain a rule writes.
        let host = target.service.as_ref().map(|(namespace, name)| format!("{name}.{namespace}.svc"));
        let host = host.unwrap_or_else(|| target.host.trim_end_matches('.').to_owned()).to_ascii_lowercase();
        let is_named = self.0.iter().any(|name| match name {
            Name::Host(named) => *named == host,
            Name::Below(domain) => host.ends_with(domain),
            Name::Prefix(_) => false,
        });
        let is_within = |address: &SocketAddr| {
            let ip = address.ip().to_canonical();
            self.0.iter().any(|name| matches!(name, Name::Prefix(prefix) if prefix.holds(ip)))
        };
        is_named || addresses.iter().all(is_within)
    }
}

impl Reach {
    /// The addresses of the target's name, if an approver may have each of them. They are the ones to connect to: asked again, a name
    /// may have others.
    pub(super) async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Failure> {
        // getaddrinfo on a thread of its own. In glibc 2.34 and later it needs no plug-ins, so it works in a static binary too.
        let resolved = lookup_host((target.host.as_str(), target.port)).await;
        let addresses = resolved.map_err(|error| {
            Failure::Unreachable(format!("{}: the name can't be resolved: {error}", target.authority))
        })?;
        self.check(target, addresses.collect())
    }

    /// The target's addresses, if an approver may have each of them.
    pub(super) fn check(&self, target: &Target, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Failure> {
        let Self::Network(limits) = self else { return Ok(addresses) };
        let refused = |address: &SocketAddr| Some((address.ip(), limits.refusal(address.ip())?));
        if let Some((address, why)) = addresses.iter().find_map(refused) {
            return Err(Failure::Misconfigured(format!(
                "{}: no approver is asked at {address}: {why}; give its Service, or an address in the network",
                target.authority
            )));
        }
        match &limits.only {
            Some(named) if !named.allow(target, &addresses) => Err(Failure::Misconfigured(format!(
                "{}: it is none of the approvers that HITLESS_APPROVERS of the controller names; ask the administrator of hitless",
                target.authority
            ))),
            Some(_) | None => Ok(addresses),
        }
    }
}

impl Limits {
    fn refusal(&self, address: IpAddr) -> Option<&'static str> {
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
        } else if self.never.contains(&address) {
            Some("that is the controller itself, or the API server")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(only: Option<&str>) -> Reach {
        let never = vec!["10.96.0.1".parse().unwrap(), "fd00:96::1".parse().unwrap()];
        Reach::Network(Limits { never, only: only.map(|only| only.parse().unwrap()) })
    }

    /// What is said of a target with that address; empty: it is asked.
    fn said(reach: &Reach, url: &str, address: &str) -> String {
        let target = Target::parse(url, "url").unwrap();
        let address = SocketAddr::new(address.parse().unwrap(), target.port);
        match reach.check(&target, vec![address]) {
            Ok(addresses) => {
                assert_eq!(addresses, [address]);
                String::new()
            }
            Err(Failure::Misconfigured(words)) => words,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_addresses_in_the_network_are_asked() {
        let refused = |address: &str| said(&network(None), "http://approver", address).contains("no approver is asked");
        for address in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "100.100.100.200", "224.0.0.1"] {
            assert!(refused(address), "{address}");
        }
        for address in
            ["::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254"]
        {
            assert!(refused(address), "{address}");
        }
        for address in ["10.96.0.1", "fd00:96::1", "::ffff:10.96.0.1"] {
            assert!(refused(address), "{address}");
        }
        for address in ["10.96.0.10", "192.168.1.1", "203.0.113.9", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(!refused(address), "{address}");
        }
    }

    #[test]
    fn where_approvers_are_named_no_other_is_asked() {
        let reach = network(Some("ask.example.com, *.corp.example.com, gate.team.svc, 192.0.2.0/24"));
        let asks = |host: &str, address: &str| said(&reach, &format!("http://{host}"), address).is_empty();
        for host in [
            "ask.example.com",
            "Ask.Example.com.",
            "a.b.corp.example.com",
            "gate.team.svc",
            "gate.team.svc.cluster.local",
        ] {
            assert!(asks(host, "203.0.113.9"), "{host}");
        }
        assert!(asks("other.example.com", "192.0.2.7") && asks("192.0.2.7", "192.0.2.7"), "by address");
        for host in ["example.com", "corp.example.com", "evilcorp.example.com", "gate.other.svc", "203.0.113.9"] {
            assert!(!asks(host, "203.0.113.9"), "{host}");
        }
        let words = said(&reach, "http://example.com", "203.0.113.9");
        assert!(words.contains("HITLESS_APPROVERS") && words.contains("ask the administrator"), "{words}");
        assert!(said(&reach, "http://ask.example.com", "127.0.0.1").contains("the controller itself"), "named or not");
    }

    #[test]
    fn a_name_that_makes_no_sense_is_refused_in_words() {
        for text in ["", "a,", "*", "*.", "*example.com", "http://a", "a b", "10.0.0.0/33"] {
            let error = text.parse::<Named>().unwrap_err().to_string();
            assert!(error.contains("names no approver"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_rule_that_names_one_is_told_why() {
        let target = Target::parse("http://169.254.169.254/latest/meta-data", "url").unwrap();
        let Err(Failure::Misconfigured(words)) = network(None).resolve(&target).await else { panic!("it is asked") };
        assert!(words.contains("metadata server") && words.contains("give its Service"), "{words}");
    }
}
