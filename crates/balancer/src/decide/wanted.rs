//! What is wanted of a pool, and what is left as it is.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use crate::{Server, ServerName, Unknown, Weight};

use super::Step;

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is wanted for one pod in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose address it is; for people.
    pub pod: PodName,
    /// The pod's own address, and its port.
    pub address: SocketAddr,
    /// Its share of new sessions while it is in.
    pub weight: Weight,
    /// In or out.
    pub stand: Stand,
}

/// Where a pod should stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It should get sessions.
    In,
    /// It should get none for a while, and stay listed if the provider can do that.
    Out(Last),
    /// It should not be listed.
    Gone(Last),
}

/// What to do if no other server of the pool serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// Leave it in, and say so.
    Keep,
    /// Take it out all the same: clients get errors.
    Take,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// What is not as wanted, and gets no step.
    pub kept: Vec<Kept>,
}

/// Something that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whose address it is; nothing for a server that no pod is wanted at.
    pub pod: Option<PodName>,
    /// The server, if there is one.
    pub server: Option<ServerName>,
    /// Why.
    pub reason: Reason,
}

/// Why something is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Nothing is known, so nothing is done.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// Nobody else serves.
    #[error(
        "it is the only server of the pool that serves; it stays until another one serves, or until its loss is accepted"
    )]
    LastServing,
    /// Others have registered it.
    #[error("others have registered this server, so only they can change it")]
    NotOurs,
    /// A server with its name has another address, and is removed first.
    #[error("somebody has given its server another address; that server is removed first")]
    NameTaken,
}

impl Kept {
    pub(super) fn of(target: &Wanted, reason: Reason) -> Self {
        Self { pod: Some(target.pod.clone()), server: None, reason }
    }

    pub(super) fn at(server: &Server, target: Option<&Wanted>, reason: Reason) -> Self {
        Self { pod: target.map(|target| target.pod.clone()), server: Some(server.name.clone()), reason }
    }
}

/// One entry for each address: a new pod may have the address of one that is gone, and then its word counts.
pub(super) fn strongest(wanted: &[Wanted]) -> BTreeMap<SocketAddr, &Wanted> {
    let mut desired: BTreeMap<SocketAddr, &Wanted> = BTreeMap::new();
    for target in wanted {
        let strongest = desired.entry(target.address).or_insert(target);
        if rank(target) < rank(strongest) {
            *strongest = target;
        }
    }
    desired
}

/// The smaller one counts. Of equal stands the first pod by name, whatever the order of the list.
fn rank(target: &Wanted) -> (u8, bool, &PodName, Weight) {
    let (stand, take) = match target.stand {
        Stand::In => (0, false),
        Stand::Out(last) => (1, last == Last::Take),
        Stand::Gone(last) => (2, last == Last::Take),
    };
    (stand, take, &target.pod, target.weight)
}
