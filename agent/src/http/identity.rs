//! Who asks, and what it may see: a pod sees itself, the node sees all, a stranger sees no pod.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hitless_api::PodRef;
use hitless_api::names::annotations;
use hitless_kernel::{Pid, pod_uids_of};
use tokio::net::unix::UCred;
use tokio::time::sleep;

use super::limits::{Client, Source};
use super::state::AppState;
use crate::view::NodePod;

/// Between two looks whether trusted addresses are those of pods.
const LOOK_AT_TRUSTED: Duration = Duration::from_secs(30);

/// The other end of a connection, as it was when it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP; IPv4 addresses in an IPv6 one are IPv4 addresses.
    Tcp {
        /// Its address.
        from: IpAddr,
        /// Ours.
        to: IpAddr,
    },
    /// Over TCP, to the listener inside of a pod.
    Inside {
        /// The pod.
        pod: PodRef,
        /// The other end's address.
        from: IpAddr,
        /// Where that is.
        side: Side,
    },
    /// Over the unix socket.
    Process {
        /// User id, as the node counts.
        user: u32,
        /// uids of the pods whose control groups it is in, the outermost first; absent if that is not known.
        pods: Option<Vec<String>>,
    },
}

/// Where somebody is who comes to the listener inside of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the pod.
    Pod,
    /// On its node: the kubelet.
    Node,
    /// Anywhere else.
    Other,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The node itself: the kubelet, root, and pods on the host's network.
    Node,
    /// A pod of this node.
    Pod(PodRef),
    /// The node, inside of a pod: it sees that pod, and has the node's places.
    NodeFor(PodRef),
    /// Somebody else.
    Stranger {
        /// Its address; absent on the unix socket.
        address: Option<IpAddr>,
        /// Named in `HITLESS_TRUSTED`, so it sees what the node sees.
        is_trusted: bool,
    },
}

impl Peer {
    /// Over TCP.
    #[must_use]
    pub fn tcp(from: IpAddr, to: IpAddr) -> Self {
        Self::Tcp { from: from.to_canonical(), to: to.to_canonical() }
    }

    /// Over the unix socket. A process that is gone by now is nobody. Should its pid have been given to another one meanwhile,
    /// that one's pod would be shown to it: little enough, and only for processes of this node.
    #[must_use]
    pub fn process(proc_root: &Path, credentials: &UCred) -> Self {
        let pid = credentials.pid().filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let pods = pid.and_then(|pid| {
            let found = pod_uids_of(proc_root, pid);
            found.inspect_err(|error| tracing::debug!(%error, "can't tell whose process asks")).ok().flatten()
        });
        Self::Process { user: credentials.uid(), pods }
    }
}

impl Caller {
    /// Who `peer` is, among the pods of this node.
    #[must_use]
    pub fn of(peer: &Peer, pods: &[Arc<NodePod>], trusted: &[Prefix]) -> Self {
        match peer {
            Peer::Tcp { from, to } => Self::of_address(*from, *to, pods, trusted),
            Peer::Inside { pod, side: Side::Pod, .. } => Self::Pod(pod.clone()),
            Peer::Inside { pod, side: Side::Node, .. } => Self::NodeFor(pod.clone()),
            Peer::Inside { from, side: Side::Other, .. } => Self::Stranger { address: Some(*from), is_trusted: false },
            Peer::Process { user: 0, pods: Some(uids) } if uids.is_empty() => Self::Node,
            Peer::Process { pods: uids, .. } => {
                let uids = uids.as_deref().unwrap_or_default();
                let known = uids.iter().find_map(|uid| pods.iter().find(|pod| is_group_of(pod, uid)));
                known.map_or(Self::Stranger { address: None, is_trusted: false }, |pod| Self::Pod(pod.view.id.clone()))
            }
        }
    }

    fn of_address(from: IpAddr, to: IpAddr, pods: &[Arc<NodePod>], trusted: &[Prefix]) -> Self {
        let of_pods = || pods.iter().filter(|pod| !pod.view.finished && pod.ips.contains(&from));
        // Only the node itself has the address that was called, and the addresses of pods on its network are its own.
        if from.is_loopback() || from == to || of_pods().any(|pod| pod.view.host_network) {
            return Self::Node;
        }
        // An address is given to the next pod while the one before may still be listed.
        if let Some(pod) = of_pods().min_by_key(|pod| pod.view.terminating) {
            return Self::Pod(pod.view.id.clone());
        }
        let is_trusted = trusted.iter().any(|prefix| prefix.holds(from));
        Self::Stranger { address: Some(from), is_trusted }
    }

    /// Whether it may see every pod.
    #[must_use]
    pub const fn sees_all(&self) -> bool {
        matches!(self, Self::Node | Self::Stranger { is_trusted: true, .. })
    }

    /// Whether it may see this pod.
    #[must_use]
    pub fn sees(&self, namespace: &str, name: &str) -> bool {
        match self {
            Self::Pod(own) | Self::NodeFor(own) => own.namespace == namespace && own.name == name,
            Self::Node | Self::Stranger { .. } => self.sees_all(),
        }
    }

    /// Under whose limits it asks; `client` is what it says of itself.
    #[must_use]
    pub fn source(&self, client: Client) -> Source {
        match self {
            Self::Node | Self::NodeFor(_) => Source::Node(client),
            Self::Pod(pod) => Source::Pod(pod.uid.clone()),
            Self::Stranger { address: Some(address), is_trusted: true } => Source::Trusted(*address),
            Self::Stranger { address, .. } => Source::Other(address.map(network)),
        }
    }
}

/// Who has one address of IPv6 has 64 bits of them.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
    }
}

/// Trusted prefixes that hold addresses of pods: every pod of another node with such an address sees what the node sees.
#[must_use]
pub fn trusted_pods(pods: &[Arc<NodePod>], trusted: &[Prefix]) -> Vec<String> {
    let words = |prefix: &Prefix| {
        let is_held = |pod: &&Arc<NodePod>| {
            !pod.view.host_network && !pod.view.finished && pod.ips.iter().any(|ip| prefix.holds(*ip))
        };
        let id = &pods.iter().find(is_held)?.view.id;
        Some(format!(
            "{prefix} in HITLESS_TRUSTED holds addresses of pods, e.g. of {}/{}: pods of other nodes see every pod of this one; \
             name only load balancers",
            id.namespace, id.name
        ))
    };
    trusted.iter().filter_map(words).collect()
}

/// Writes [`trusted_pods`] into the log, once each.
pub async fn warn_of_trusted_pods(state: AppState) -> Result<(), Infallible> {
    let mut said = BTreeSet::new();
    while !state.token.is_cancelled() {
        for words in trusted_pods(&state.pods.pods(), &state.trusted) {
            // The pod that is named as an example is another one at times.
            let prefix = words.split(' ').next().unwrap_or_default().to_owned();
            if said.insert(prefix) {
                tracing::warn!("{words}");
            }
        }
        tokio::select! {
            () = sleep(LOOK_AT_TRUSTED) => {}
            () = state.token.cancelled() => {}
        }
    }
    Ok(())
}

/// Why it may not see it.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => write!(f, "this is the node itself"),
            Self::Pod(own) | Self::NodeFor(own) => write!(
                f,
                "a pod sees only itself, and this is pod {}/{}; ask for /v1/self/drain",
                own.namespace, own.name
            ),
            Self::Stranger { address: Some(address), .. } => write!(
                f,
                "{address} is no address of this node and of no pod on it; ask from the pod or its node, or name the address in \
                 HITLESS_TRUSTED of the agent"
            ),
            Self::Stranger { address: None, .. } => {
                write!(f, "this process is in no pod that the agent knows, and is not root on the node")
            }
        }
    }
}

/// Whether the control group named after `uid` is this pod's.
fn is_group_of(pod: &NodePod, uid: &str) -> bool {
    pod.view.id.uid == uid || pod.view.annotations.get(annotations::MIRROR).is_some_and(|hash| hash == uid)
}

/// Addresses that begin alike, e.g. `10.0.0.0/8`; one address alone is `192.0.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u32,
}

impl Prefix {
    /// Whether the address is one of them.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.length,
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.length,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no prefix; write e.g. 192.0.2.7 or 10.0.0.0/8, several separated by commas")]
pub struct InvalidPrefix(String);

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let invalid = || InvalidPrefix(text.to_owned());
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(whole), |length| length.parse().map_err(|_| invalid()))?;
        if length <= whole { Ok(Self { address, length }) } else { Err(invalid()) }
    }
}

/// Prefixes separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(pub Vec<Prefix>);

impl FromStr for Prefixes {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        text.split(',').map(|prefix| prefix.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(name: &str, metadata: &Value, spec: &Value, status: &Value) -> Arc<NodePod> {
        let mut pod: Pod =
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("shop".to_owned());
        pod.metadata.uid = Some(format!("uid-{name}"));
        Arc::new(NodePod::from(&pod))
    }

    fn pods() -> Vec<Arc<NodePod>> {
        let (none, spec) = (json!({}), json!({"containers": []}));
        let gone = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef"}});
        let status = json!({"podIP": "10.1.0.5", "podIPs": [{"ip": "10.1.0.5"}, {"ip": "fd00::5"}]});
        vec![
            pod("was-web", &gone, &spec, &status),
            pod("web", &none, &spec, &status),
            pod("old", &none, &spec, &json!({"podIP": "10.1.0.6", "phase": "Succeeded"})),
            pod("proxy", &mirror, &json!({"containers": [], "hostNetwork": true}), &json!({"podIP": "192.168.0.1"})),
        ]
    }

    fn by_address(from: &str) -> Caller {
        let trusted: Prefixes = "172.16.0.0/12, 2001:db8::/32".parse().unwrap();
        Caller::of(&Peer::tcp(from.parse().unwrap(), "192.168.0.2".parse().unwrap()), &pods(), &trusted.0)
    }

    fn name(caller: &Caller) -> &str {
        match caller {
            Caller::Node => "the node",
            Caller::Pod(pod) | Caller::NodeFor(pod) => &pod.name,
            Caller::Stranger { is_trusted: true, .. } => "trusted",
            Caller::Stranger { is_trusted: false, .. } => "stranger",
        }
    }

    #[test]
    fn an_address_is_a_pods_the_nodes_or_a_strangers() {
        for (from, expected) in [
            ("10.1.0.5", "web"),
            ("fd00::5", "web"),
            ("::ffff:10.1.0.5", "web"),
            ("10.1.0.6", "stranger"),
            ("10.2.0.5", "stranger"),
            ("192.168.0.1", "the node"),
            ("192.168.0.2", "the node"),
            ("::ffff:192.168.0.2", "the node"),
            ("127.0.0.1", "the node"),
            ("::1", "the node"),
            ("172.31.9.9", "trusted"),
            ("172.32.0.1", "stranger"),
            ("2001:db8:7::1", "trusted"),
        ] {
            assert_eq!(name(&by_address(from)), expected, "{from}");
        }
    }

    #[test]
    fn a_process_is_its_pod_and_root_outside_of_pods_is_the_node() {
        for (user, groups, expected) in [
            (1000, Some(vec!["uid-web"]), "web"),
            (0, Some(vec!["uid-web"]), "web"),
            (0, Some(vec!["0123456789abcdef0123456789abcdef"]), "proxy"),
            (0, Some(vec!["a-node-in-a-pod", "uid-web"]), "web"),
            (0, Some(vec!["a-pod-that-is-new"]), "stranger"),
            (0, Some(vec![]), "the node"),
            (1000, Some(vec![]), "stranger"),
            (0, None, "stranger"),
        ] {
            let groups = groups.map(|groups| groups.into_iter().map(str::to_owned).collect());
            let caller = Caller::of(&Peer::Process { user, pods: groups.clone() }, &pods(), &[]);
            assert_eq!(name(&caller), expected, "user {user} in {groups:?}");
        }
    }

    #[test]
    fn inside_of_a_pod_the_pod_and_its_node_ask_as_the_pod() {
        let inside = |side| {
            let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: "uid-web".into() };
            Caller::of(&Peer::Inside { pod, from: "172.31.9.9".parse().unwrap(), side }, &pods(), &[])
        };
        assert_eq!(
            [Side::Pod, Side::Node, Side::Other].map(|side| name(&inside(side)).to_owned()),
            ["web", "web", "stranger"]
        );
        for side in [Side::Pod, Side::Node] {
            assert!(inside(side).sees("shop", "web") && !inside(side).sees("shop", "old"), "{side:?}");
        }
        let hook = |side| inside(side).source(Client::Hook);
        assert_eq!(hook(Side::Pod), Source::Pod("uid-web".to_owned()), "a pod can't take the kubelet's places");
        assert_eq!(hook(Side::Node), Source::Node(Client::Hook));
    }

    #[test]
    fn a_pod_sees_itself_the_node_all_and_a_stranger_nobody() {
        for (from, own, other) in [
            ("10.1.0.5", true, false),
            ("127.0.0.1", true, true),
            ("172.31.9.9", true, true),
            ("10.2.0.5", false, false),
        ] {
            let caller = by_address(from);
            assert_eq!((caller.sees("shop", "web"), caller.sees("shop", "old")), (own, other), "{from}");
        }
        assert!(by_address("10.2.0.5").to_string().contains("HITLESS_TRUSTED"));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_a_trusted_address_has_its_own() {
        let source = |from: &str| by_address(from).source(Client::Unknown);
        assert_eq!(source("2001:db9::1"), source("2001:db9::ffff:1"));
        assert_ne!(source("2001:db9::1"), source("2001:db9:0:1::1"));
        assert_ne!(source("10.2.0.5"), source("10.2.0.6"));
        assert_eq!(source("172.31.9.9"), Source::Trusted("172.31.9.9".parse().unwrap()));
    }

    #[test]
    fn a_trusted_prefix_that_holds_a_pod_is_warned_of() {
        let warned = |text: &str| trusted_pods(&pods(), &text.parse::<Prefixes>().unwrap().0);
        assert_eq!(
            warned("192.168.0.0/16,10.1.0.6,172.16.0.0/12"),
            [""; 0],
            "the node itself, a pod that has ended, nobody"
        );
        let words = warned("192.168.0.0/16,10.0.0.0/8,fd00::/8");
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(
            words[0].starts_with("10.0.0.0/8 in HITLESS_TRUSTED holds addresses of pods, e.g. of shop/"),
            "{words:?}"
        );
    }

    #[test]
    fn a_prefix_that_makes_no_sense_is_refused_in_words() {
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "node-1", "10.0.0.1,"] {
            let error = text.parse::<Prefixes>().unwrap_err().to_string();
            assert!(error.contains("no address"), "{error}");
        }
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        assert!(all.holds("203.0.113.9".parse().unwrap()) && !all.holds("::1".parse().unwrap()));
    }
}
