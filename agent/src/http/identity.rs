//! Who asks, and what it may see: a pod sees itself, the node sees all, a stranger sees no pod.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hitless_api::PodRef;
use hitless_api::names::annotations;
use hitless_kernel::{Pid, pod_uids_of};
use hitless_runtime::prefix::Prefix;
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

#[cfg(test)]
mod tests;
