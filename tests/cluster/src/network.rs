//! Network namespaces: one for the control plane, with a bridge, and one for each node, on that bridge.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use nix::sched::{CloneFlags, setns};

use crate::address::Family;
use crate::{Error, IpFamily, Options, PodNetwork, Result, run};

/// Where in a cluster something runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The control plane's network namespace. It has routes to all nodes and pods, but no kube-proxy: a ClusterIP
    /// answers only on a node.
    ControlPlane,
    /// A network namespace outside of the cluster, with routes to all nodes and pods: where clients and load balancers are.
    Outside,
    /// Node `n1`, `n2`, …, counted from 1: its network namespace, and for commands its mount namespace too.
    Node(u8),
}

impl Place {
    /// The name of the network namespace, as `ip netns` shows it.
    ///
    /// Dots cannot occur in a cluster's name, so no cluster can have another one's namespace.
    pub(crate) fn namespace(self, cluster: &str) -> String {
        match self {
            Self::ControlPlane => format!("hitless.{cluster}.cp"),
            Self::Outside => format!("hitless.{cluster}.outside"),
            Self::Node(index) => format!("hitless.{cluster}.n{index}"),
        }
    }

    /// The file that stands for the network namespace.
    pub(crate) fn namespace_file(self, cluster: &str) -> PathBuf {
        PathBuf::from("/run/netns").join(self.namespace(cluster))
    }
}

/// Runs `work` on a thread inside a network namespace and returns what it returns.
pub(crate) fn inside<T: Send>(cluster: &str, place: Place, work: impl FnOnce() -> T + Send) -> Result<T> {
    inside_file(place.namespace_file(cluster), work)
}

/// The same inside the network namespace of a process.
pub(crate) fn inside_process<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> Result<T> {
    inside_file(PathBuf::from(format!("/proc/{pid}/ns/net")), work)
}

fn inside_file<T: Send>(path: PathBuf, work: impl FnOnce() -> T + Send) -> Result<T> {
    let namespace = File::open(&path).map_err(Error::file("open", &path))?;
    let thread = move || {
        // Only this thread changes its namespace, and it ends with the work.
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        Ok(work())
    };
    let done: Result<T, nix::Error> = std::thread::scope(|scope| match scope.spawn(thread).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    done.map_err(|errno| Error::File { action: "enter", path, source: errno.into() })
}

/// Makes the namespaces of a cluster and the wires between them.
///
/// Both ends of every wire are made inside the namespaces: no interface of a cluster ever exists outside.
pub(crate) fn make(cluster: &str, nodes: u8, options: Options) -> Result<()> {
    let ip_family = options.ip_family;
    let control = Place::ControlPlane.namespace(cluster);
    add(cluster, Place::ControlPlane, ip_family)?;
    ip(&format!("-n {control} link add br0 type bridge"))?;
    ip(&format!("-n {control} link set br0 up"))?;
    for family in ip_family.each() {
        give(&control, *family, family.control_plane(), "br0")?;
    }
    make_outside(cluster, &control, ip_family)?;
    for index in 1..=nodes {
        make_node(cluster, &control, (index, nodes), options)?;
    }
    Ok(())
}

fn make_outside(cluster: &str, control: &str, ip_family: IpFamily) -> Result<()> {
    let outside = Place::Outside.namespace(cluster);
    add(cluster, Place::Outside, ip_family)?;
    ip(&format!("-n {control} link add outside type veth peer name eth0 netns {outside}"))?;
    ip(&format!("-n {control} link set outside up"))?;
    ip(&format!("-n {outside} link set eth0 up"))?;
    for family in ip_family.each() {
        let router = family.outside_router();
        give(control, *family, router, "outside")?;
        give(&outside, *family, family.outside(), "eth0")?;
        ip(&format!("-n {outside} route add default via {router}"))?;
    }
    Ok(())
}

fn make_node(cluster: &str, control: &str, (index, nodes): (u8, u8), options: Options) -> Result<()> {
    let ip_family = options.ip_family;
    let node = Place::Node(index).namespace(cluster);
    add(cluster, Place::Node(index), ip_family)?;
    ip(&format!("-n {control} link add n{index} type veth peer name eth0 netns {node}"))?;
    ip(&format!("-n {control} link set n{index} master br0 up"))?;
    ip(&format!("-n {node} link set eth0 up"))?;
    for family in ip_family.each() {
        let own = family.node(index);
        give(&node, *family, own, "eth0")?;
        ip(&format!("-n {node} route add default via {}", family.control_plane()))?;
        ip(&format!("-n {control} route add {} via {own}", family.pods(index)))?;
        let routed = match options.network {
            PodNetwork::Bridge => nodes,
            PodNetwork::Flannel => 0,
        };
        for other in (1..=routed).filter(|other| *other != index) {
            ip(&format!("-n {node} route add {} via {}", family.pods(other), family.node(other)))?;
        }
    }
    Ok(())
}

/// How the kernel of a place would send a packet there, as `ip route get` prints it.
pub(crate) fn route(cluster: &str, place: Place, to: IpAddr) -> Result<String> {
    let arguments = format!("-n {} route get {to}", place.namespace(cluster));
    run::output(Command::new("ip").args(arguments.split_whitespace()))
}

/// Takes a node off the network, or puts it back: the other end of its wire goes down. Its routes stay.
pub(crate) fn set_connected(cluster: &str, index: u8, connected: bool) -> Result<()> {
    let control = Place::ControlPlane.namespace(cluster);
    ip(&format!("-n {control} link set n{index} {}", if connected { "up" } else { "down" }))
}

/// Makes a namespace that forwards packets of these families.
fn add(cluster: &str, place: Place, ip_family: IpFamily) -> Result<()> {
    let name = place.namespace(cluster);
    ip(&format!("netns add {name}"))?;
    ip(&format!("-n {name} link set lo up"))?;
    for family in ip_family.each() {
        set(cluster, place, sysctls(*family))?;
    }
    Ok(())
}

/// Of a namespace, below `/proc/sys/net`.
const fn sysctls(family: Family) -> &'static [(&'static str, &'static str)] {
    match family {
        Family::V4 => &[("ipv4/ip_forward", "1"), ("ipv4/conf/all/rp_filter", "0")],
        // Nobody else has these addresses, so nobody is asked for them: an address would be of no use for a second.
        Family::V6 => &[("ipv6/conf/all/forwarding", "1"), ("ipv6/conf/default/accept_dad", "0")],
    }
}

fn give(namespace: &str, family: Family, address: IpAddr, interface: &str) -> Result<()> {
    ip(&format!("-n {namespace} addr add {address}/{} dev {interface}", family.prefix_length()))
}

/// Removes the names of a cluster's namespaces; the namespaces go with their last process.
pub(crate) fn remove(cluster: &str) -> Result<()> {
    for name in namespaces(cluster) {
        ip(&format!("netns del {name}"))?;
    }
    Ok(())
}

/// The names of a cluster's namespaces that exist.
pub(crate) fn namespaces(cluster: &str) -> Vec<String> {
    with_prefix(&format!("hitless.{cluster}."))
}

/// Whether there is any cluster on this machine, of this checkout or of another.
pub(crate) fn any_cluster() -> bool {
    !with_prefix("hitless.").is_empty()
}

fn with_prefix(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Sets sysctls of a namespace. `/proc/sys/net` shows the namespace of the thread that opens it.
fn set(cluster: &str, place: Place, values: &[(&str, &str)]) -> Result<()> {
    inside(cluster, place, || {
        for (key, value) in values {
            let path = PathBuf::from("/proc/sys/net").join(key);
            fs::write(&path, value).map_err(Error::file("write", path))?;
        }
        Ok(())
    })?
}

fn ip(arguments: &str) -> Result<()> {
    run::output(Command::new("ip").args(arguments.split_whitespace())).map(drop)
}
