//! Capabilities the agent must hold, checked before the first pod depends on them.

use std::fmt;

use rustix::thread::{CapabilitySet, capabilities};

/// A Linux capability that a call of this crate needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// List the directories of other users, here `/proc/<pid>/fd`.
    DacReadSearch,
    /// Change a namespace's packet filter, and end connections.
    NetAdmin,
    /// See and send packets of a namespace.
    NetRaw,
    /// Enter another network namespace.
    SysAdmin,
    /// Look into processes of other users: their namespaces and their file descriptors.
    SysPtrace,
}

impl Capability {
    /// Whether `effective` allows what this capability is wanted for. `CAP_DAC_OVERRIDE`, which container runtimes
    /// grant by default, includes `CAP_DAC_READ_SEARCH`.
    fn is_held(self, effective: CapabilitySet) -> bool {
        effective.intersects(match self {
            Self::DacReadSearch => CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::SysAdmin => CapabilitySet::SYS_ADMIN,
            Self::SysPtrace => CapabilitySet::SYS_PTRACE,
        })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysPtrace => "CAP_SYS_PTRACE",
        })
    }
}

/// A capability that this process does not hold, and what will fail without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingCapability {
    /// The capability to add to the container's `securityContext.capabilities`.
    pub capability: Capability,
    /// What cannot be done without it, in words for the log.
    pub needed_for: &'static str,
}

impl fmt::Display for MissingCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capability, needed_for } = self;
        write!(f, "{capability} is missing: it is needed to {needed_for}")
    }
}

/// What [`check_capabilities`] asks for, with the reason of each.
const NEEDED: [MissingCapability; 5] = [
    MissingCapability { capability: Capability::SysPtrace, needed_for: "find a pod's network namespace and sockets" },
    MissingCapability { capability: Capability::SysAdmin, needed_for: "enter a pod's network namespace" },
    MissingCapability {
        capability: Capability::DacReadSearch,
        needed_for: "find the owner of an idle connection in order to close it",
    },
    MissingCapability {
        capability: Capability::NetAdmin,
        needed_for: "hold new connections and to end connections by force",
    },
    MissingCapability {
        capability: Capability::NetRaw,
        needed_for: "see the connections that are held and to let them in again",
    },
];

/// Capabilities that calls of this crate need and the calling thread does not hold effectively; empty when all is well.
/// A kernel that does not say counts as holding none.
#[must_use]
pub fn check_capabilities() -> Vec<MissingCapability> {
    missing_from(capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective))
}

fn missing_from(effective: CapabilitySet) -> Vec<MissingCapability> {
    NEEDED.into_iter().filter(|needed| !needed.capability.is_held(effective)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_capability_is_named_with_its_purpose() {
        let missing = missing_from(CapabilitySet::all() - CapabilitySet::SYS_PTRACE - CapabilitySet::DAC_READ_SEARCH);
        assert_eq!(missing.len(), 1);
        assert_eq!(
            missing[0].to_string(),
            "CAP_SYS_PTRACE is missing: it is needed to find a pod's network namespace and sockets"
        );
        assert_eq!(missing_from(CapabilitySet::empty()).len(), 5);
        assert_eq!(missing_from(CapabilitySet::all()), []);
    }
}
