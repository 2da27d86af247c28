//! flannel on the nodes: VXLAN between them.
//!
//! It takes a node's subnet from the Node, makes the tunnel, and says in a file what the CNI plugin has to know. Upstream's CNI plugin
//! only hands that on to the plugin `bridge`, whose configuration is written from the file here.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::address::Family;
use crate::{Error, Options, Proxy, Result, run};

/// The user, and the file of its kubeconfig without `.conf`.
pub(crate) const USER: &str = "flannel";
/// Where flannel says what a node's pods get, inside the node's `/run`.
pub(crate) const SUBNET_FILE: &str = "flannel/subnet.env";
/// The link that flannel makes.
pub(crate) const LINK: &str = "flannel.1";

/// The rights that flannel's own manifests give it, without those on pods, which tell it the node's name elsewhere.
pub(crate) fn rights() -> String {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": USER},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string()
}

/// What flannel is told of the whole cluster. Its own rules are of the same kind as kube-proxy's.
pub(crate) fn configuration(options: Options) -> String {
    let mut configuration = json!({"EnableNFTables": options.proxy == Proxy::Nftables, "Backend": {"Type": "vxlan"}});
    for family in options.ip_family.each() {
        match family {
            Family::V4 => configuration["Network"] = family.cluster().into(),
            Family::V6 => {
                configuration["EnableIPv6"] = true.into();
                configuration["IPv6Network"] = family.cluster().into();
            }
        }
    }
    configuration["EnableIPv4"] = options.ip_family.each().contains(&Family::V4).into();
    configuration.to_string()
}

/// Waits for what flannel says of a node: the largest packet of its pods, in bytes.
pub(crate) fn wait_for_mtu(node: &str, file: &Path, alive: impl Fn() -> Result<()>) -> Result<u32> {
    run::until(&format!("flannel of {node}"), Duration::from_mins(1), || {
        alive()?;
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => return Ok(Err(format!("{}: {error}", file.display()))),
        };
        Ok(mtu(&text).ok_or_else(|| format!("{} names no FLANNEL_MTU: {text}", file.display())))
    })
}

fn mtu(subnet_file: &str) -> Option<u32> {
    subnet_file.lines().find_map(|line| line.strip_prefix("FLANNEL_MTU="))?.trim().parse().ok()
}

/// The first address of a node's pods: what its route through the tunnel is looked up for.
pub(crate) fn first_address(subnet: &str) -> Result<IpAddr> {
    let network = subnet.split('/').next().unwrap_or_default();
    network.parse().map_err(|error| Error::Invalid(format!("{subnet} is no subnet: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpFamily;

    #[test]
    fn the_cni_plugin_learns_the_mtu_from_flannels_file() {
        let file =
            "FLANNEL_NETWORK=172.31.0.0/16\nFLANNEL_SUBNET=172.31.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        assert_eq!((mtu(file), mtu("FLANNEL_MTU=\n"), mtu("")), (Some(1450), None, None));
    }

    #[test]
    fn flannels_rules_are_of_kube_proxys_kind_and_its_network_has_the_clusters_families() {
        let of = |proxy, ip_family| {
            let text = configuration(Options { ip_family, proxy, ..Options::default() });
            serde_json::from_str::<serde_json::Value>(&text).unwrap()
        };
        let plain = of(Proxy::Iptables, IpFamily::Ipv4);
        assert_eq!((&plain["EnableNFTables"], &plain["Network"]), (&json!(false), &json!("172.31.0.0/16")));
        assert_eq!(plain["IPv6Network"], json!(null));
        let both = of(Proxy::Nftables, IpFamily::Dual);
        assert_eq!((&both["EnableNFTables"], &both["IPv6Network"]), (&json!(true), &json!("fd00:172:31::/48")));
        assert_eq!(of(Proxy::Nftables, IpFamily::Ipv6)["EnableIPv4"], json!(false));
    }
}
