//! The addresses inside a cluster. They repeat from cluster to cluster: each has namespaces of its own.

/// The control plane: API server (port 6443) and image registry (port 5000).
pub const CONTROL_PLANE: &str = "172.31.255.1";
/// `host:port` of the image registry.
pub(crate) const REGISTRY: &str = "172.31.255.1:5000";
/// The cluster IPs of Services. As many as real clusters have: a node's connection tracking remembers for a day to which pod a
/// connection went that was cut off, and sends a new one from the same port to the same cluster IP there, whosever Service it is by now.
pub(crate) const SERVICES: &str = "172.29.0.0/16";
/// The cluster IP of the API server's own Service, the first of [`SERVICES`].
pub(crate) const API_SERVICE: &str = "172.29.0.1";
/// A network outside of the cluster, for clients and load balancers: not in [`CLUSTER`], or kube-proxy would take them for pods.
pub const OUTSIDE: &str = "172.30.255.2";
/// The router between it and the nodes.
pub(crate) const OUTSIDE_ROUTER: &str = "172.30.255.1";
/// Said to pods to be the DNS server. There is none, but without an address the kubelet warns at every pod.
pub(crate) const DNS: &str = "172.29.0.10";
/// All pods and nodes: what kube-proxy must not masquerade.
pub(crate) const CLUSTER: &str = "172.31.0.0/16";
/// How many nodes a cluster may have: each takes a /24 of [`CLUSTER`].
pub(crate) const MAX_NODES: u8 = 100;

/// The address of node `index` (from 1).
pub(crate) fn node(index: u8) -> String {
    format!("172.31.255.{}", 10 + u16::from(index))
}

/// The pods of node `index` (from 1).
pub(crate) fn pods(index: u8) -> String {
    format!("172.31.{index}.0/24")
}
