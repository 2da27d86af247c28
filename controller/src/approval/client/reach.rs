//! Which addresses an approver may have. Whoever writes a rule names an address that the controller connects to: a Service of the rule's
//! own namespace, or what the administrator has named; never the controller's own, the API server's, nor one that only its node is meant
//! to reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hitless_api::names::system_namespace;
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
    /// The approvers that there are besides Services of a rule's own namespace; absent: none.
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

/// What is there behind a target's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located {
    /// Where to connect to.
    pub(super) addresses: Vec<SocketAddr>,
    /// It is a Service that selects pods. Behind another one there may be anybody's addresses.
    pub(super) selects_pods: bool,
}

/// As `HITLESS_APPROVERS` has it. A Service has one name, however much of its domain a rule writes.
fn name_of(target: &Target) -> String {
    let host = target.service.as_ref().map(|(namespace, name)| format!("{name}.{namespace}.svc"));
    host.unwrap_or_else(|| target.host.trim_end_matches('.').to_owned()).to_ascii_lowercase()
}

impl Named {
    fn has_name(&self, target: &Target) -> bool {
        let host = name_of(target);
        self.0.iter().any(|name| match name {
            Name::Host(named) => *named == host,
            Name::Below(domain) => host.ends_with(domain),
            Name::Prefix(_) => false,
        })
    }

    fn has_prefixes(&self) -> bool {
        self.0.iter().any(|name| matches!(name, Name::Prefix(_)))
    }

    fn holds(&self, addresses: &[SocketAddr]) -> bool {
        let is_within = |address: &SocketAddr| {
            let ip = unwrapped(address.ip());
            self.0.iter().any(|name| matches!(name, Name::Prefix(prefix) if prefix.holds(ip)))
        };
        addresses.iter().all(is_within)
    }
}

/// The address that is meant: an IPv4 address can be written in IPv6, mapped or for NAT64 (`64:ff9b::/96`, RFC 6052).
fn unwrapped(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => match v6.octets() {
            [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(v6),
        },
        IpAddr::V4(v4) => IpAddr::V4(v4),
    }
}

/// Whether the target is a Service of this namespace, as its name says.
pub(super) fn is_of(namespace: &str, target: &Target) -> bool {
    target.service.as_ref().is_some_and(|(own, _)| own == namespace)
}

fn not_named(target: &Target) -> Failure {
    Failure::Misconfigured(format!(
        "{}: approvers are Services of the rule's own namespace, and what HITLESS_APPROVERS names; ask the administrator of hitless to \
         add {} to that setting of Deployment {}/hitless-controller",
        target.authority,
        name_of(target),
        system_namespace()
    ))
}

impl Reach {
    /// Whether the author of a rule of `namespace` may know what became of a request: others learned by that who is in the network.
    pub(super) fn tells(&self, namespace: &str, target: &Target) -> bool {
        match self {
            Self::Network(_) => is_of(namespace, target),
            Self::OwnAddresses => true,
        }
    }

    /// Looks for the target, unless no address could be allowed. The addresses are the ones to connect to: asked again, a name may have
    /// others.
    pub(super) async fn locate(
        &self,
        namespace: &str,
        target: &Target,
        look: impl Future<Output = Result<Located, Failure>>,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let Self::Network(limits) = self else { return Ok(look.await?.addresses) };
        let named = limits.only.as_ref();
        let (is_own, is_named) = (is_of(namespace, target), named.is_some_and(|named| named.has_name(target)));
        if !is_own && !is_named && !named.is_some_and(Named::has_prefixes) {
            return Err(not_named(target));
        }
        let found = match look.await {
            Ok(found) => found,
            // Which names there are is nobody's business either.
            Err(_) if !is_own && !is_named => return Err(not_named(target)),
            Err(failure) => return Err(failure),
        };
        let is_allowed =
            is_named || (is_own && found.selects_pods) || named.is_some_and(|named| named.holds(&found.addresses));
        if !is_allowed {
            return Err(not_named(target));
        }
        let refused = |address: &SocketAddr| Some((address.ip(), limits.refusal(address.ip())?));
        match found.addresses.iter().find_map(refused) {
            Some((address, why)) => Err(Failure::Misconfigured(format!(
                "{}: no approver is asked at {address}: {why}; give its Service, or an address in the network",
                target.authority
            ))),
            None => Ok(found.addresses),
        }
    }
}

/// The addresses of a name that is no Service's. getaddrinfo runs on a thread of its own. In glibc 2.34 and later it needs no plug-ins,
/// so it works in a static binary too.
pub(super) async fn resolve(target: &Target) -> Result<Located, Failure> {
    let resolved = lookup_host((target.host.as_str(), target.port)).await;
    let addresses = resolved
        .map_err(|error| Failure::Unreachable(format!("{}: the name can't be resolved: {error}", target.authority)))?;
    Ok(Located { addresses: addresses.collect(), selects_pods: false })
}

impl Limits {
    fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        let address = unwrapped(address);
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

    const EVERYWHERE: Option<&str> = Some("0.0.0.0/0, ::/0");

    fn network(only: Option<&str>) -> Reach {
        let never = vec!["10.96.0.1".parse().unwrap(), "fd00:96::1".parse().unwrap()];
        Reach::Network(Limits { never, only: only.map(|only| only.parse().unwrap()) })
    }

    /// What is said to a rule of namespace `shop` of a target with that address; empty: it is asked.
    async fn said(reach: &Reach, url: &str, address: &str) -> String {
        let target = Target::parse(url, "url").unwrap();
        let address = SocketAddr::new(address.parse().unwrap(), target.port);
        let look = async { Ok(Located { addresses: vec![address], selects_pods: true }) };
        outcome(reach, &target, look).await
    }

    async fn outcome(reach: &Reach, target: &Target, look: impl Future<Output = Result<Located, Failure>>) -> String {
        match reach.locate("shop", target, look).await {
            Ok(_) => String::new(),
            Err(Failure::Misconfigured(words)) => words,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn some_addresses_are_never_asked() {
        let reach = network(EVERYWHERE);
        for address in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "100.100.100.200", "224.0.0.1"] {
            assert!(said(&reach, "http://approver", address).await.contains("no approver is asked"), "{address}");
            let wrapped = format!("64:ff9b::{address}");
            assert!(said(&reach, "http://approver", &wrapped).await.contains("no approver is asked"), "{wrapped}");
        }
        for address in ["::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:10.96.0.1"] {
            assert!(said(&reach, "http://approver", address).await.contains("no approver is asked"), "{address}");
        }
        for address in ["10.96.0.1", "fd00:96::1", "64:ff9b::10.96.0.1"] {
            let own = said(&network(None), "http://approver.shop.svc", address).await;
            assert!(own.contains("no approver is asked"), "{address}: {own}");
        }
        for address in ["10.96.0.10", "192.168.1.1", "203.0.113.9", "fd00::1", "2001:db8::1", "64:ff9b::10.0.0.1"] {
            assert_eq!(said(&reach, "http://approver", address).await, "", "{address}");
        }
        let words = said(&reach, "http://x", "169.254.169.254").await;
        assert!(words.contains("metadata server") && words.contains("give its Service"), "{words}");
    }

    #[tokio::test]
    async fn without_a_list_only_services_of_the_rules_namespace_are_asked() {
        let reach = network(None);
        for url in ["http://gate.shop.svc:8080", "https://gate.shop.svc.cluster.local/x"] {
            assert_eq!(said(&reach, url, "10.96.0.10").await, "", "{url}");
        }
        for url in [
            "https://192.0.2.7:10250/pods",
            "http://192.0.2.7:9/",
            "http://gate.other.svc",
            "http://shop.svc",
            "http://gate.shop.svc.example",
            "https://approver.example.com",
            "http://[64:ff9b::c000:207]:10250",
        ] {
            let target = Target::parse(url, "url").unwrap();
            // Nobody looks for it, so nobody learns whether it is there.
            let words = outcome(&reach, &target, async { panic!("{url} is looked for") }).await;
            assert!(words.contains("add") && words.contains("HITLESS_APPROVERS"), "{words}");
        }
        let words = said(&reach, "http://gate.other.svc.cluster.local", "10.96.0.10").await;
        assert!(words.contains("to add gate.other.svc to that setting of Deployment hitless-system/"), "{words}");
        // Behind a Service without a selector there may be anybody's addresses.
        let own = Target::parse("http://gate.shop.svc", "url").unwrap();
        let found = Located { addresses: vec!["10.96.0.10:80".parse().unwrap()], selects_pods: false };
        let words = outcome(&reach, &own, async { Ok(found.clone()) }).await;
        assert!(words.contains("add gate.shop.svc to"), "{words}");
        assert_eq!(outcome(&network(Some("gate.shop.svc")), &own, async { Ok(found) }).await, "");
    }

    #[tokio::test]
    async fn where_approvers_are_named_no_other_is_asked() {
        let reach = network(Some("ask.example.com, *.corp.example.com, gate.team.svc, 192.0.2.0/24"));
        for host in [
            "ask.example.com",
            "Ask.Example.com.",
            "a.b.corp.example.com",
            "gate.team.svc",
            "gate.team.svc.cluster.local",
            "own.shop.svc",
        ] {
            assert_eq!(said(&reach, &format!("http://{host}"), "203.0.113.9").await, "", "{host}");
        }
        for host in ["other.example.com", "192.0.2.7"] {
            assert_eq!(said(&reach, &format!("http://{host}"), "192.0.2.7").await, "", "by address");
            assert_eq!(said(&reach, &format!("http://{host}"), "64:ff9b::192.0.2.7").await, "", "by address");
        }
        for host in ["example.com", "corp.example.com", "evilcorp.example.com", "gate.other.svc", "203.0.113.9"] {
            let words = said(&reach, &format!("http://{host}"), "203.0.113.9").await;
            assert!(words.contains("HITLESS_APPROVERS") && words.contains("ask the administrator"), "{words}");
            // Whether there is such a name is not said either.
            let target = Target::parse(&format!("http://{host}"), "url").unwrap();
            let absent = async { Err(Failure::Unreachable("no such name".to_owned())) };
            assert_eq!(outcome(&reach, &target, absent).await, words);
        }
        let words = said(&reach, "http://ask.example.com", "127.0.0.1").await;
        assert!(words.contains("the controller itself"), "named or not: {words}");
    }

    #[test]
    fn what_became_of_a_request_is_told_of_services_of_the_own_namespace() {
        let target = |url: &str| Target::parse(url, "url").unwrap();
        let reach = network(Some("ask.example.com, 192.0.2.0/24"));
        assert!(reach.tells("shop", &target("http://gate.shop.svc")));
        for url in ["http://gate.team.svc", "http://ask.example.com", "http://192.0.2.7"] {
            assert!(!reach.tells("shop", &target(url)), "{url}");
        }
    }

    #[test]
    fn a_name_that_makes_no_sense_is_refused_in_words() {
        for text in ["", "a,", "*", "*.", "*example.com", "http://a", "a b", "10.0.0.0/33"] {
            let error = text.parse::<Named>().unwrap_err().to_string();
            assert!(error.contains("names no approver"), "{error}");
        }
    }
}
