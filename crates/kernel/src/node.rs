//! The node's own side of connections to its pods.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use crate::netns::run_inside;
use crate::{Capability, Connection, DumpError, KernelError, SockDiag};

/// Where a connection to a pod comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A process in the node's network namespace has the other end: the kubelet with a probe, another health check of the
    /// node, or a hostNetwork pod that knows the pod's own address.
    Node,
    /// The node has only passed it on. Its address may be the node's all the same (masquerade).
    Forwarded,
}

/// The TCP sockets of the node's own network namespace.
#[derive(Debug)]
pub struct NodeSockets(SockDiag);

impl NodeSockets {
    /// Opens a netlink socket in the namespace of the node's first process.
    pub fn open(proc_root: &Path) -> Result<Self, KernelError> {
        let path = proc_root.join("1/ns/net");
        let namespace = File::open(&path).map_err(|error| {
            KernelError::of_call(format!("open {}", path.display()), error, &[Capability::SysPtrace])
        })?;
        let open = || SockDiag::open().map_err(|error| DumpError::Socket(error).into());
        run_inside(namespace.as_fd(), "open a netlink socket in the node's namespace", open).map(Self)
    }

    /// Looks for the other end of a pod's inbound connection; about 5 µs. Exact, where the address is not: clients whose
    /// packets the node translates come from its address as well.
    ///
    /// After an error open another one.
    pub fn origin(&mut self, connection: &Connection) -> Result<Origin, KernelError> {
        let found = self.0.find(connection.peer, connection.local, None)?;
        Ok(if found.is_some() { Origin::Node } else { Origin::Forwarded })
    }
}
