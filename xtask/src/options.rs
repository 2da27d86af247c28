//! What a cluster is made of, as options of every command that brings one up.

use clap::Args;
use hitless_cluster::{IpFamily, Kubernetes, Options, PodNetwork, Proxy, Runtime};

/// The options, each a value of one type.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Made {
    /// The version of Kubernetes: 1.33 to 1.37. Those before 1.36 have no mutating admission policies, but 1.34-beta and 1.35-beta.
    #[arg(long, global = true, default_value_t)]
    kubernetes: Kubernetes,
    /// The addresses of nodes, pods and Services: ipv4, ipv6, or dual for both.
    #[arg(long, global = true, default_value_t)]
    ip_family: IpFamily,
    /// How kube-proxy brings what is sent to a Service to its pods: nftables or iptables.
    #[arg(long, global = true, default_value_t)]
    proxy: Proxy,
    /// How pods of different nodes reach each other: bridge (routes), or flannel (VXLAN).
    #[arg(long, global = true, default_value_t)]
    network: PodNetwork,
    /// What runs containers: containerd-2, containerd-1.7, or crun under containerd 2.
    #[arg(long, global = true, default_value_t)]
    runtime: Runtime,
}

impl Made {
    /// What they mean for the cluster.
    pub(crate) fn options(self) -> Options {
        let Self { kubernetes, ip_family, proxy, network, runtime } = self;
        Options { kubernetes, ip_family, proxy, network, runtime }
    }

    /// The same as arguments of a command.
    pub(crate) fn arguments(self) -> Vec<String> {
        let Self { kubernetes, ip_family, proxy, network, runtime } = self;
        let all = [
            ("--kubernetes", kubernetes.to_string()),
            ("--ip-family", ip_family.to_string()),
            ("--proxy", proxy.to_string()),
            ("--network", network.to_string()),
            ("--runtime", runtime.to_string()),
        ];
        all.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        made: Made,
    }

    #[test]
    fn arguments_mean_what_they_were_made_of() {
        let given = Command::parse_from(["test", "--proxy", "iptables", "--kubernetes", "1.37"]).made;
        assert_eq!(given.options().proxy, Proxy::Iptables);
        let again = Command::parse_from(std::iter::once("test".to_owned()).chain(given.arguments())).made;
        assert_eq!(again.options(), given.options());
        assert_eq!(Command::parse_from(["test"]).made.options(), Options::default());
    }
}
