//! How pods of different nodes reach each other.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// The network between the pods of different nodes. On each node they are on a bridge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PodNetwork {
    /// Routes from node to node.
    #[default]
    Bridge,
    /// flannel: VXLAN between the nodes, whose packets are larger than those of pods, and masquerading of what leaves the cluster.
    Flannel,
}

impl PodNetwork {
    pub(crate) const ALL: [(Self, &str); 2] = [(Self::Bridge, "bridge"), (Self::Flannel, "flannel")];
}

named!(PodNetwork, "network");
