//! Who listens: the end of a restart, told by the identity of the new listeners.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::close::{each_socket, each_socket_of};
use crate::{KernelError, Listener, PodNetns, find_container_pids};

/// Between two looks; a look costs some 15 µs, and the kernel has no event for a new listener.
const GLANCE: Duration = Duration::from_millis(1);

/// Waits for new listeners in the place of those noted before.
///
/// "Gone, and then back" would be the wrong question: who asks it late sees only the new listener and waits for ever.
/// An inode that was not there before is the right one whenever it is asked (docs/contract.md#learned-gap).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenWatch {
    /// Inodes of every listener on these ports, as it was.
    old: BTreeSet<u32>,
    /// Where there must be a new one.
    wanted: Vec<SocketAddr>,
    ports: BTreeSet<u16>,
}

impl ListenWatch {
    /// Notes who listens on these ports now. Ask before anything is done to the process.
    pub fn note(netns: &PodNetns, ports: &[u16]) -> Result<Self, KernelError> {
        Ok(Self::of(&netns.listeners()?, ports))
    }

    /// Listeners on loopback do not matter if there are others on their port: no client waits for them.
    fn of(listeners: &[Listener], ports: &[u16]) -> Self {
        let ports: BTreeSet<u16> = ports.iter().copied().collect();
        let (mut old, mut wanted) = (BTreeSet::new(), Vec::new());
        for port in &ports {
            let of_port = || listeners.iter().filter(|listener| listener.addr.port() == *port);
            old.extend(of_port().map(|listener| listener.inode));
            let is_public = |listener: &&Listener| !listener.addr.ip().is_loopback();
            let has_public = of_port().any(|listener| is_public(&listener));
            wanted.extend(of_port().filter(|listener| !has_public || is_public(listener)).map(|l| l.addr));
        }
        Self { old, wanted, ports }
    }

    /// Ports without a new listener: for a port that was listened on, one for each address it was listened on; for any
    /// other port, one at all. Empty when the restart is over.
    pub fn missing(&self, netns: &PodNetns) -> Result<BTreeSet<u16>, KernelError> {
        Ok(self.missing_among(&netns.listeners()?))
    }

    fn missing_among(&self, listeners: &[Listener]) -> BTreeSet<u16> {
        let new = || listeners.iter().filter(|listener| !self.old.contains(&listener.inode));
        let is_served = |port: u16| {
            new().any(|listener| listener.addr.port() == port)
                && self
                    .wanted
                    .iter()
                    .filter(|addr| addr.port() == port)
                    .all(|addr| new().any(|listener| listener.accepts(*addr)))
        };
        self.ports.iter().copied().filter(|port| !is_served(*port)).collect()
    }

    /// Looks every millisecond until no port is missing or the time is over; what is missing then.
    pub fn wait(&self, netns: &PodNetns, at_most: Duration) -> Result<BTreeSet<u16>, KernelError> {
        let deadline = Instant::now() + at_most;
        loop {
            let missing = self.missing(netns)?;
            if missing.is_empty() || Instant::now() >= deadline {
                return Ok(missing);
            }
            thread::sleep(GLANCE);
        }
    }
}

/// What stands in the accept queues, before an application has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Connections that wait to be accepted. Closing the listener resets them.
    pub queued: u32,
    /// Handshakes that will be in the queue soon; looked for only when the queue is empty, because it costs a pass over
    /// the node's table.
    pub half_open: Option<u32>,
}

impl Pending {
    /// Nothing will come any more, provided that new connections are held.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.queued == 0 && self.half_open == Some(0)
    }
}

impl PodNetns {
    /// What stands in the accept queues of these ports.
    pub fn pending(&self, ports: &[u16]) -> Result<Pending, KernelError> {
        self.ask(|sockets| {
            let listeners = sockets.listeners()?;
            let of_ports = listeners.iter().filter(|listener| ports.contains(&listener.addr.port()));
            let queued = of_ports.map(|listener| listener.queued).sum();
            let half_open = if queued == 0 { Some(sockets.half_open(ports)?) } else { None };
            Ok(Pending { queued, half_open })
        })
    }

    /// Waits until the application has accepted all that is there; hold new connections before. Answers with what is
    /// left when it is empty or the time is over.
    pub fn empty_accept_queue(&self, ports: &[u16], at_most: Duration) -> Result<Pending, KernelError> {
        let deadline = Instant::now() + at_most;
        loop {
            let pending = self.pending(ports)?;
            if pending.is_none() || Instant::now() >= deadline {
                return Ok(pending);
            }
            thread::sleep(GLANCE);
        }
    }

    /// Listeners in the namespace that belong to this process.
    pub fn own_listeners(&self) -> Result<Vec<Listener>, KernelError> {
        let mut listeners = self.listeners()?;
        let mut inodes = BTreeSet::new();
        if !listeners.is_empty() {
            let own = Path::new("/proc/self/fd");
            each_socket(own, |_, inode| {
                inodes.insert(inode);
            })
            .map_err(|error| KernelError::of_call("list the agent's own open files", error, &[]))?;
        }
        listeners.retain(|listener| inodes.contains(&listener.inode));
        Ok(listeners)
    }

    /// Listeners that belong to a container of the pod: those that go with its processes. A sidecar that is not restarted
    /// keeps its own.
    pub fn listeners_of(&self, container_id: &str) -> Result<Vec<Listener>, KernelError> {
        let mut listeners = self.listeners()?;
        let mut inodes = BTreeSet::new();
        for pid in find_container_pids(&self.proc_root, &self.pod_uid, container_id)? {
            each_socket_of(&self.proc_root, pid, |_, inode| {
                inodes.insert(inode);
            })?;
        }
        listeners.retain(|listener| inodes.contains(&listener.inode));
        Ok(listeners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(addr: &str, inode: u32) -> Listener {
        Listener { addr: addr.parse().unwrap(), inode, queued: 0, backlog: 128 }
    }

    fn missing(before: &[Listener], ports: &[u16], now: &[Listener]) -> Vec<u16> {
        ListenWatch::of(before, ports).missing_among(now).into_iter().collect()
    }

    #[test]
    fn only_a_listener_with_another_inode_ends_the_wait() {
        let before = [listener("[::]:80", 1), listener("[::]:90", 2)];
        assert_eq!(missing(&before, &[80, 90], &before), [80, 90]);
        assert_eq!(missing(&before, &[80, 90], &[]), [80, 90]);
        assert_eq!(missing(&before, &[80, 90], &[listener("[::]:80", 3), before[1]]), [90]);
        assert_eq!(missing(&before, &[80], &[listener("[::]:80", 3), before[1]]), [0; 0]);
        // The old one may still be there, as with SO_REUSEPORT.
        assert_eq!(missing(&before, &[80], &[before[0], listener("[::]:80", 3)]), [0; 0]);
    }

    #[test]
    fn each_address_wants_its_listener_back() {
        let before = [listener("0.0.0.0:80", 1), listener("[::]:80", 2)];
        assert_eq!(missing(&before, &[80], &[listener("0.0.0.0:80", 3)]), [80]);
        assert_eq!(missing(&before, &[80], &[listener("0.0.0.0:80", 3), listener("[::]:80", 4)]), [0; 0]);
        // One for all addresses serves every one of them.
        let specific = [listener("0.0.0.0:80", 1), listener("10.0.0.2:80", 2)];
        assert_eq!(missing(&specific, &[80], &[listener("[::]:80", 3)]), [0; 0]);
    }

    #[test]
    fn loopback_is_waited_for_only_where_nothing_else_is() {
        let before = [listener("127.0.0.1:80", 1), listener("10.0.0.2:80", 2), listener("127.0.0.1:90", 3)];
        assert_eq!(missing(&before, &[80, 90], &[listener("10.0.0.2:80", 4)]), [90]);
        assert_eq!(missing(&before, &[90], &[listener("127.0.0.1:90", 5)]), [0; 0]);
    }

    #[test]
    fn a_port_that_nobody_listened_on_wants_any_listener() {
        assert_eq!(missing(&[], &[80], &[]), [80]);
        assert_eq!(missing(&[], &[80], &[listener("127.0.0.1:80", 9)]), [0; 0]);
    }
}
