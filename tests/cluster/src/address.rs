//! The addresses inside a cluster. They repeat from cluster to cluster: each has namespaces of its own.

/// The control plane: API server (port 6443) and image registry (port 5000).
pub const CONTROL_PLANE: &str = "172.31.255.1";
/// `host:port` of the image registry.
pub(crate) const REGISTRY: &str = "172.31.255.1:5000";
/// The cluster IPs of Services.
pub(crate) const SERVICES: &str = "172.31.254.0/24";
/// The cluster IP of the API server's own Service, the first of [`SERVICES`].
pub(crate) const API_SERVICE: &str = "172.31.254.1";
/// A network outside of the cluster, for clients and load balancers: not in [`CLUSTER`], or kube-proxy would take them for pods.
pub const OUTSIDE: &str = "172.30.255.2";
/// The router between it and the nodes.
pub(crate) const OUTSIDE_ROUTER: &str = "172.30.255.1";
/// Said to pods to be the DNS server. There is none, but without an address the kubelet warns at every pod.
pub(crate) const DNS: &str = "172.31.254.10";
/// All pods and nodes: what kube-proxy must not masquerade.
pub(crate) const CLUSTER: &str = "172.31.0.0/16";
/// How many nodes a cluster may have: each takes a /24 of [`CLUSTER`] below the Services'.
pub(crate) const MAX_NODES: u8 = 100;

/// The address of node `index` (from 1).
pub(crate) fn node(index: u8) -> String {
    format!("172.31.255.{}", 10 + u16::from(index))
}

/// The pods of node `index` (from 1).
pub(crate) fn pods(index: u8) -> String {
    format!("172.31.{index}.0/24")
}
