//! Connections from within a pod: those that its other containers have to the ones that are replaced, as the proxy of a mesh has.
//!
//! A container's connections to itself end with it, and nobody waits for an answer. Those of other containers carry requests of clients
//! (docs/contract.md#counted-connections).

use std::collections::{BTreeSet, HashSet};

use rustix::process::Pid;

use crate::close::each_socket_of;
use crate::{Connection, KernelError, PodNetns, find_container_pids, find_pod_pids};

/// More connections from within are not looked at one by one: each counts.
const MOST: usize = 4096;

/// Which connections from within count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// The containers that are replaced.
    containers: Vec<String>,
    /// Where they listen.
    ports: BTreeSet<u16>,
    /// Sockets of the pod's other containers, and of nobody's there, as far as they have been asked for, by inode.
    siblings: BTreeSet<u32>,
    strangers: BTreeSet<u32>,
}

impl Within {
    /// Those that other containers have to these, on these ports.
    #[must_use]
    pub fn new(containers: &[String], ports: &[u16]) -> Self {
        Self {
            containers: containers.to_vec(),
            ports: ports.iter().copied().collect(),
            siblings: BTreeSet::new(),
            strangers: BTreeSet::new(),
        }
    }

    /// Whether the connection, which is from the pod itself, is to be asked about.
    pub(crate) fn concerns(&self, connection: &Connection) -> bool {
        self.ports.contains(&connection.local.port())
    }

    /// Whether no more than these are asked about.
    pub(crate) fn is_full(asked: &[Connection]) -> bool {
        asked.len() >= MOST
    }

    /// Those of `asked` whose other end a sibling holds.
    pub(crate) fn of_siblings(
        &mut self,
        netns: &PodNetns,
        asked: Vec<Connection>,
    ) -> Result<Vec<Connection>, KernelError> {
        if asked.is_empty() {
            return Ok(asked);
        }
        // What has been closed has no inode, and nobody waits there.
        let ends: Vec<u32> = netns.ask(|sockets| {
            let end = |connection: &Connection| sockets.find(connection.peer, connection.local, None);
            asked.iter().map(end).map(|end| Ok(end?.map_or(0, |end| end.inode))).collect()
        })?;
        let is_known = |end: &u32| *end == 0 || self.siblings.contains(end) || self.strangers.contains(end);
        if !ends.iter().all(is_known) {
            self.siblings = self.sockets_of_siblings(netns)?;
        }
        self.strangers = ends.iter().copied().filter(|end| *end != 0 && !self.siblings.contains(end)).collect();
        let with_ends = asked.into_iter().zip(ends);
        Ok(with_ends.filter(|(_, end)| self.siblings.contains(end)).map(|(connection, _)| connection).collect())
    }

    fn sockets_of_siblings(&self, netns: &PodNetns) -> Result<BTreeSet<u32>, KernelError> {
        let mut replaced: HashSet<Pid> = HashSet::new();
        for container in &self.containers {
            replaced.extend(find_container_pids(&netns.proc_root, &netns.pod_uid, container)?);
        }
        let mut inodes = BTreeSet::new();
        for pid in find_pod_pids(&netns.proc_root, &netns.pod_uid)? {
            if !replaced.contains(&pid) {
                each_socket_of(&netns.proc_root, pid, |_, inode| {
                    inodes.insert(inode);
                })?;
            }
        }
        Ok(inodes)
    }
}
