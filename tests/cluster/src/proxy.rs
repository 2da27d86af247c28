//! How kube-proxy brings what is sent to a Service to its pods.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// kube-proxy's mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Proxy {
    /// Tables of its own, changed one entry at a time.
    #[default]
    Nftables,
    /// Chains of the `nat` table that all programs share, written anew as a whole: what most clusters have.
    Iptables,
}

impl Proxy {
    pub(crate) const ALL: [(Self, &str); 2] = [(Self::Nftables, "nftables"), (Self::Iptables, "iptables")];
}

named!(Proxy, "mode of kube-proxy");
