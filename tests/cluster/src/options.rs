//! What a cluster is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{IpFamily, Kubernetes, PodNetwork, Proxy, Runtime};

/// Which of the stacks that people have a cluster is. The default is the one that everything is tested on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// The version of Kubernetes.
    pub kubernetes: Kubernetes,
    /// The addresses of nodes, pods and Services.
    pub ip_family: IpFamily,
    /// How Services reach their pods.
    pub proxy: Proxy,
    /// How pods of different nodes reach each other.
    pub network: PodNetwork,
    /// What runs containers.
    pub runtime: Runtime,
}

impl fmt::Display for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kubernetes, ip_family, proxy, network, runtime } = self;
        write!(
            formatter,
            "Kubernetes {kubernetes}, {ip_family} addresses, kube-proxy with {proxy}, network {network}, {runtime}"
        )
    }
}
