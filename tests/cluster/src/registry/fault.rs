//! Faults by switch: how a registry treats pulls of one repository until it is told otherwise. Pushes of this crate meet none.

use serde::Serialize;

use super::{Registry, paths};
use crate::{Cluster, Error, Place, Result};

/// What is wrong with a repository for whoever pulls from it. The registry's `faults.go` has the other half.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// Blobs come slowly. An answer that is under way goes on at full speed when the fault is cleared.
    Throttle {
        /// Bytes per second of each answer, at least 1.
        bytes_per_second: u64,
    },
    /// Pulls are answered by an error of the registry's API.
    Refuse {
        /// HTTP status, 400 to 599.
        status: u16,
        /// What the registry says. Clients see it in answers to GET only: HEAD has no body.
        message: String,
        /// Whether HEAD, by which a runtime resolves a tag, is refused as well. A registry that is down does so; one with a
        /// limit of pulls does not.
        heads: bool,
    },
    /// HTTP Basic is asked for.
    Login {
        /// Name of the user, without a colon.
        user: String,
        /// Password.
        password: String,
    },
    /// The connection is closed in the middle of a blob.
    Cut {
        /// The first byte of a blob that is not sent. Blobs that are not longer arrive.
        after: u64,
        /// In how many answers; 0 for all. containerd asks for the rest three times before its pull fails.
        times: u32,
    },
    /// Connections are closed without an answer.
    Unreachable,
}

impl Registry {
    /// From now on pulls of a repository meet this fault, and no other. Of a name without a slash those below `library/`, too.
    pub fn set_fault(&self, repository: &str, fault: &Fault) -> Result<()> {
        let body = serde_json::to_vec(fault).map_err(|error| Error::Invalid(format!("{fault:?}: {error}")))?;
        for path in paths(repository) {
            self.send("PUT", &format!("/faults/{path}"), "application/json", &body, 204)?;
        }
        Ok(())
    }

    /// Pulls of the repository work again. It is no error if it has no fault.
    pub fn clear_fault(&self, repository: &str) -> Result<()> {
        for path in paths(repository) {
            self.send("DELETE", &format!("/faults/{path}"), "", &[], 204)?;
        }
        Ok(())
    }
}

impl Cluster {
    /// From now on pulls of a repository (its name without registry and tag) meet this fault, and no other.
    ///
    /// What a node has already it does not pull again: a fault needs an image or a tag that is new there.
    pub fn set_fault(&self, repository: &str, fault: &Fault) -> Result<()> {
        self.in_network(Place::ControlPlane, || self.registry().set_fault(repository, fault))?
    }

    /// Pulls of the repository work again. It is no error if it has no fault.
    pub fn clear_fault(&self, repository: &str) -> Result<()> {
        self.in_network(Place::ControlPlane, || self.registry().clear_fault(repository))?
    }

    /// As [`Cluster::set_fault`], until the guard is dropped.
    pub fn fault(&self, repository: &str, fault: &Fault) -> Result<FaultGuard> {
        self.set_fault(repository, fault)?;
        Ok(FaultGuard { cluster: self.clone(), repository: repository.to_owned() })
    }
}

/// A fault of a repository; cleared when dropped.
#[derive(Debug)]
#[must_use = "the fault is cleared when this is dropped"]
pub struct FaultGuard {
    cluster: Cluster,
    repository: String,
}

impl FaultGuard {
    /// Clears the fault, and says so if that fails.
    pub fn clear(self) -> Result<()> {
        self.cluster.clear_fault(&self.repository)
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        // After `clear` there is nothing to do. A registry that cannot be reached has gone with its cluster.
        let _ = self.cluster.clear_fault(&self.repository);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_written_as_the_registry_reads_it() {
        let json = |fault: &Fault| serde_json::to_string(fault).unwrap();
        assert_eq!(json(&Fault::Throttle { bytes_per_second: 7 }), r#"{"kind":"throttle","bytes_per_second":7}"#);
        assert_eq!(json(&Fault::Cut { after: 9, times: 0 }), r#"{"kind":"cut","after":9,"times":0}"#);
        assert_eq!(json(&Fault::Unreachable), r#"{"kind":"unreachable"}"#);
    }

    #[test]
    fn a_name_without_a_slash_is_below_library_as_well() {
        assert_eq!(paths("web"), ["web", "library/web"]);
        assert_eq!(paths("team/web"), ["team/web"]);
    }
}
