//! What a cluster is made of, as options of every command that brings one up.

mod profile;

use clap::Args;
use hitless_cluster::{IpFamily, Kubernetes, Options, PodNetwork, Proxy, Runtime, UpOptions};

pub(crate) use profile::Profile;

/// The options, each a value of one type. What is not given is the profile's, and without one what everything is tested on.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Made {
    /// A set of the following options that has a name: a file of tests/cluster/profiles, without `.toml`.
    #[arg(long, global = true)]
    profile: Option<Profile>,
    /// The version of Kubernetes: 1.33 to 1.37 [default: 1.36]. Those before 1.36 have no mutating admission policies, but 1.34-beta and
    /// 1.35-beta.
    #[arg(long, global = true)]
    kubernetes: Option<Kubernetes>,
    /// The addresses of nodes, pods and Services: ipv4, ipv6, or dual for both [default: ipv4].
    #[arg(long, global = true)]
    ip_family: Option<IpFamily>,
    /// How kube-proxy brings what is sent to a Service to its pods: nftables or iptables [default: nftables].
    #[arg(long, global = true)]
    proxy: Option<Proxy>,
    /// How pods of different nodes reach each other: bridge (routes), or flannel (VXLAN) [default: bridge].
    #[arg(long, global = true)]
    network: Option<PodNetwork>,
    /// What runs containers: containerd-2, containerd-1.7, or crun, under containerd 1.7 [default: containerd-2].
    #[arg(long, global = true)]
    runtime: Option<Runtime>,
    /// How many nodes; they are called n1, n2, ….
    #[arg(long, global = true, default_value_t = 2)]
    nodes: u8,
}

impl Made {
    /// What they mean for the cluster.
    pub(crate) fn options(&self) -> Options {
        let base = self.profile.as_ref().map_or_else(Options::default, |profile| profile.options);
        Options {
            kubernetes: self.kubernetes.unwrap_or(base.kubernetes),
            ip_family: self.ip_family.unwrap_or(base.ip_family),
            proxy: self.proxy.unwrap_or(base.proxy),
            network: self.network.unwrap_or(base.network),
            runtime: self.runtime.unwrap_or(base.runtime),
        }
    }

    /// A cluster of this name.
    pub(crate) fn named(&self, name: &str) -> UpOptions {
        UpOptions { name: name.to_owned(), nodes: self.nodes, options: self.options() }
    }

    /// How many nodes.
    pub(crate) const fn nodes(&self) -> u8 {
        self.nodes
    }
}

/// The same as arguments of a command that takes [`Made`].
pub(crate) fn arguments(options: Options) -> Vec<String> {
    let Options { kubernetes, ip_family, proxy, network, runtime } = options;
    let all = [
        ("--kubernetes", kubernetes.to_string()),
        ("--ip-family", ip_family.to_string()),
        ("--proxy", proxy.to_string()),
        ("--network", network.to_string()),
        ("--runtime", runtime.to_string()),
    ];
    all.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
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

    fn parsed(arguments: &[&str]) -> Options {
        Command::parse_from(std::iter::once(&"test").chain(arguments)).made.options()
    }

    #[test]
    fn arguments_mean_what_they_were_made_of() {
        assert_eq!(parsed(&[]), Options::default());
        let given =
            parsed(&["--proxy", "iptables", "--kubernetes", "1.37", "--network", "flannel", "--runtime", "crun"]);
        assert_eq!((given.proxy, given.network), (Proxy::Iptables, PodNetwork::Flannel));
        let again = arguments(given);
        assert_eq!(parsed(&again.iter().map(String::as_str).collect::<Vec<_>>()), given);
    }

    #[test]
    fn what_is_given_beside_a_profile_counts_more() {
        let managed = parsed(&["--profile", "managed-1.34"]);
        assert_eq!((managed.kubernetes, managed.runtime), (Kubernetes::V1_34, Runtime::Containerd1_7));
        let other = parsed(&["--profile", "managed-1.34", "--runtime", "containerd-2"]);
        assert_eq!(other, Options { runtime: Runtime::Containerd2, ..managed });
    }
}
