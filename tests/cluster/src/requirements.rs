//! What a cluster needs of the machine, beyond packages that can be installed.

use std::fs;

use crate::cgroup::Hierarchies;

/// Something that this machine does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What it is, for instance `root`.
    pub what: &'static str,
    /// What a cluster needs it for and how to get it.
    pub why: &'static str,
}

/// Capability bits (`linux/capability.h`) a cluster cannot do without.
const CAPABILITIES: [(u32, Missing); 3] = [
    (21, Missing { what: "CAP_SYS_ADMIN", why: "namespaces and mounts; run outside a confined container" }),
    (12, Missing { what: "CAP_NET_ADMIN", why: "interfaces and routes; run outside a confined container" }),
    (19, Missing { what: "CAP_SYS_PTRACE", why: "looking into pods' namespaces; run outside a confined container" }),
];

/// What is missing on this machine to run a cluster; empty when one can be made.
///
/// System packages are not listed: [`Cluster::up`](crate::Cluster::up) installs them.
#[must_use]
pub fn missing_requirements() -> Vec<Missing> {
    let mut missing = Vec::new();
    if !is_root() {
        missing.push(Missing { what: "root", why: "namespaces, mounts and cgroups; run it as root" });
    } else if let Ok(status) = fs::read_to_string("/proc/self/status") {
        missing.extend(lacking(&status));
    }
    if Hierarchies::find().is_err() {
        missing.push(Missing {
            what: "cgroup v2",
            why: "owning processes; mount it at /sys/fs/cgroup or /sys/fs/cgroup/unified",
        });
    }
    if !fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.contains("\toverlay")) {
        missing.push(Missing { what: "overlayfs", why: "root file systems of containers; run `modprobe overlay`" });
    }
    missing
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The capabilities that a `/proc/<pid>/status` lacks.
fn lacking(status: &str) -> Vec<Missing> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(u64::MAX);
    CAPABILITIES.into_iter().filter(|(bit, _)| effective & (1 << bit) == 0).map(|(_, missing)| missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confined_root_is_told_which_capability_it_lacks() {
        // CAP_SYS_ADMIN (21) is absent, all others are there.
        let lacks: Vec<&str> = lacking("Name:\tx\nCapEff:\t000001ffffdfffff\n").iter().map(|m| m.what).collect();
        assert_eq!(lacks, ["CAP_SYS_ADMIN"]);
        assert!(lacking("CapEff:\t000001ffffffffff\n").is_empty());
    }
}
