//! What kube-proxy has written into a node's packet filter about a Service's port of the node.

use anyhow::{Context as _, ensure};
use hitless_cluster::{Cluster, Place, Proxy};

/// The rules of kube-proxy in one of its modes, for addresses of one family.
pub(super) struct Rules {
    proxy: Proxy,
    is_ipv6: bool,
}

impl Rules {
    pub(super) fn of(cluster: &Cluster, is_ipv6: bool) -> Self {
        Self { proxy: cluster.options().proxy, is_ipv6 }
    }

    /// Whether a node sends what comes to the port of Service `web` to a pod of its own.
    pub(super) fn send_to_own_pod(
        &self,
        cluster: &Cluster,
        node: u8,
        (namespace, port): (&str, u16),
    ) -> anyhow::Result<bool> {
        let (program, arguments) = self.list();
        let mut list = cluster.command(Place::Node(node), program)?;
        let output = list.args(arguments).output().with_context(|| format!("run {program}"))?;
        ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        let rules = String::from_utf8_lossy(&output.stdout);
        Ok(match self.proxy {
            Proxy::Nftables => in_nftables(&rules, namespace, port),
            Proxy::Iptables => in_iptables(&rules, namespace, port),
        })
    }

    /// The command that lists them.
    const fn list(&self) -> (&'static str, &'static [&'static str]) {
        match (self.proxy, self.is_ipv6) {
            (Proxy::Nftables, false) => ("nft", &["list", "table", "ip", "kube-proxy"]),
            (Proxy::Nftables, true) => ("nft", &["list", "table", "ip6", "kube-proxy"]),
            (Proxy::Iptables, false) => ("iptables-save", &[]),
            (Proxy::Iptables, true) => ("ip6tables-save", &[]),
        }
    }
}

/// Whether these rules of kube-proxy send what comes to the port of Service `web`, which is served by pods of the same node, to one
/// of them. Since 1.36 the chain of the Service's own pods has their addresses, before it it jumps to a chain for each.
fn in_nftables(rules: &str, namespace: &str, port: u16) -> bool {
    let service = format!("-{namespace}/web/");
    let mut blocks = rules.split("\n\t}\n");
    let is_local = |block: &&str| {
        let name = block.split_once("chain ").map_or("", |(_, rest)| rest);
        name.starts_with("local-") && name.split_whitespace().next().is_some_and(|name| name.contains(&service))
    };
    let has_pod =
        blocks.clone().filter(is_local).any(|chain| chain.contains("dnat") || chain.contains("goto endpoint-"));
    let refused = format!("tcp . {port} ");
    let is_refused = blocks.any(|block| block.contains("map no-endpoint-nodeports") && block.contains(&refused));
    has_pod && !is_refused
}

/// The same in its mode `iptables`: the chain `KUBE-SVL-…` has a rule for each of the node's own pods, and a port that no pod of
/// the node serves is dropped.
fn in_iptables(rules: &str, namespace: &str, port: u16) -> bool {
    let (own_pod, refused) = (format!("\"{namespace}/web -> "), format!("--dport {port} "));
    let has_pod = rules.lines().any(|rule| rule.starts_with("-A KUBE-SVL-") && rule.contains(&own_pod));
    let is_refused = rules.lines().any(|rule| rule.starts_with("-A KUBE-EXTERNAL-SERVICES") && rule.contains(&refused));
    has_pod && !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "table ip kube-proxy {
\tmap no-endpoint-nodeports {
\t\ttype inet_proto . inet_service : verdict
\t\telements = { tcp . 30002 comment \"a/other\" : drop }
\t}

\tchain local-ABCD-a/web/tcp/ {
\t\tmeta l4proto tcp dnat ip to numgen random mod 1 map { 0 : 10.0.1.5 . 8080 }
\t}

\tchain local-ABCE-b/web/tcp/ {
\t}

\tchain local-ABCF-d/web/tcp/ {
\t\tnumgen random mod 1 vmap { 0 : goto endpoint-GH7X-d/web/tcp/__10.0.1.6/8080 }
\t}
}
";

    #[test]
    fn a_node_has_a_pod_if_its_rules_lead_to_one() {
        assert!(in_nftables(RULES, "a", 30001));
        assert!(in_nftables(RULES, "d", 30005), "as kube-proxy 1.35 writes them");
        assert!(!in_nftables(RULES, "a", 30002), "the port is refused");
        assert!(!in_nftables(RULES, "b", 30003), "the chain is empty");
        assert!(!in_nftables(RULES, "c", 30004), "there is no chain");
    }

    const SAVED: &str = "*filter
-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"b/web has no local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30002 -j DROP
COMMIT
*nat
-A KUBE-NODEPORTS -p tcp -m comment --comment \"a/web\" -m tcp --dport 30001 -j KUBE-EXT-AAAA
-A KUBE-EXT-AAAA -j KUBE-SVL-AAAA
-A KUBE-SVL-AAAA -m comment --comment \"a/web -> 10.0.1.5:8080\" -j KUBE-SEP-CCCC
-A KUBE-SVC-BBBB -m comment --comment \"b/web -> 10.0.2.5:8080\" -j KUBE-SEP-DDDD
COMMIT
";

    #[test]
    fn the_same_in_chains_of_iptables() {
        assert!(in_iptables(SAVED, "a", 30001));
        assert!(!in_iptables(SAVED, "a", 30002), "the port is refused");
        assert!(!in_iptables(SAVED, "b", 30003), "its only pod is on another node");
    }
}
