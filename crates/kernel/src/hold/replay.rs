//! Sending the held SYNs once more, to the pod itself, no faster than its listeners can take them.
//!
//! A raw socket inside the namespace sends them to the pod's own address: they come in over the loopback device with
//! their route attached, so that the reverse path filter does not ask where they come from.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with,
};

use super::frame::Syn;
use crate::{KernelError, Listener, SockDiag, TcpCounters};

/// `IPPROTO_RAW`: the packet brings its own IP header, and nothing is ever received.
const RAW: u32 = 255;

/// Raw sockets of the pod's namespace.
#[derive(Debug)]
pub(super) struct Replay {
    v4: OwnedFd,
    /// Absent where the kernel has no IPv6.
    v6: Option<OwnedFd>,
}

impl Replay {
    /// Opens the sockets in the network namespace of the calling thread.
    pub(super) fn open() -> io::Result<Self> {
        let open = |family| {
            let protocol = RawProtocol::new(RAW).map(Protocol::from_raw);
            socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
        };
        let v6 = match open(AddressFamily::INET6) {
            Ok(socket) => Some(socket),
            Err(Errno::AFNOSUPPORT) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self { v4: open(AddressFamily::INET)?, v6 })
    }

    fn socket(&self, address: IpAddr) -> Option<&OwnedFd> {
        if address.is_ipv4() { Some(&self.v4) } else { self.v6.as_ref() }
    }

    /// Whether an address is the pod's. A pod that forwards for others sees their SYNs, too: those were not held.
    fn is_own(&self, address: IpAddr) -> bool {
        self.socket(address).is_some_and(|socket| bind(socket, &SocketAddr::new(address, 0)).is_ok())
    }

    fn send(&self, syn: &Syn) -> io::Result<()> {
        let server = syn.flow.server.ip();
        let Some(socket) = self.socket(server) else { return Err(Errno::AFNOSUPPORT.into()) };
        sendto(socket, &syn.packet, SendFlags::empty(), &SocketAddr::new(server, 0))?;
        Ok(())
    }
}

/// What became of the SYNs that were to be replayed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) replayed: usize,
    pub(super) left: usize,
}

/// Replays the SYNs in the given order. Those to a port that nobody listens on are left to their clients, whose next try
/// may be luckier; now they would be refused.
pub(super) fn replay(
    replay: &Replay,
    syns: &[Syn],
    sockets: &mut SockDiag,
    snmp: &File,
) -> Result<Replayed, KernelError> {
    let mut own = HashMap::new();
    let mut pace = Pace::new(sockets, snmp)?;
    let mut result = Replayed::default();
    for syn in syns {
        let server = syn.flow.server;
        let is_own = *own.entry(server.ip()).or_insert_with(|| replay.is_own(server.ip()));
        // A full buffer or a missing route concerns this client alone.
        if is_own && pace.wait_for_room(server)? && replay.send(syn).is_ok() {
            pace.sent += 1;
            result.replayed += 1;
        } else {
            result.left += 1;
        }
    }
    Ok(result)
}

/// Sent between two looks at the queue: clients who come meanwhile fill it, too.
const AT_ONCE: usize = 16;
/// Between two looks at a full accept queue: the kernel has no event for it.
const GLANCE: Duration = Duration::from_micros(200);
/// Handshakes without any progress for so long belong to clients that have given up.
const STALLED_GLANCES: u32 = 50;
/// All waiting together. Afterwards the rest is sent at once: what the queue does not take is repeated by its client.
const MOST_GLANCES: u32 = 2500;

/// Keeps the replay from overflowing the accept queues: a SYN to a full queue is lost, and its client waits a second.
struct Pace<'a> {
    sockets: &'a mut SockDiag,
    snmp: &'a File,
    listeners: Vec<Listener>,
    /// SYNs that each port's queue can take before the next look.
    room: HashMap<u16, usize>,
    /// Sent since `opened` was read.
    sent: usize,
    /// Handshakes of the namespace that had ended when we began to count.
    opened: u64,
    glances_left: u32,
}

impl<'a> Pace<'a> {
    fn new(sockets: &'a mut SockDiag, snmp: &'a File) -> Result<Self, KernelError> {
        let listeners = sockets.listeners()?;
        let opened = TcpCounters::read(snmp)?.passive_opens;
        Ok(Self { sockets, snmp, listeners, room: HashMap::new(), sent: 0, opened, glances_left: MOST_GLANCES })
    }

    /// Waits until the queue can take one more; `false` if nobody listens there.
    fn wait_for_room(&mut self, server: SocketAddr) -> Result<bool, KernelError> {
        let mut stalled = 0;
        let mut before = None;
        loop {
            if !self.listeners.iter().any(|listener| listener.accepts(server)) {
                return Ok(false);
            }
            if let Some(room) = self.room.get_mut(&server.port()).filter(|room| **room > 0) {
                *room -= 1;
                return Ok(true);
            }
            let progress = self.look(server)?;
            if self.room.get(&server.port()).is_some_and(|room| *room > 0) {
                continue;
            }
            if self.glances_left == 0 {
                return Ok(true);
            }
            self.glances_left -= 1;
            stalled = if before == Some(progress) { stalled + 1 } else { 0 };
            before = Some(progress);
            if stalled >= STALLED_GLANCES {
                // Handshakes under way are not waited for any longer; a queue that is really full still is.
                (self.sent, self.opened) = (0, progress.1);
            }
            thread::sleep(GLANCE);
        }
    }

    /// Reads the port's room anew. Answers with what changes while things go on: queue and handshakes that have ended.
    fn look(&mut self, server: SocketAddr) -> Result<(usize, u64), KernelError> {
        self.listeners = self.sockets.listeners()?;
        let opened = TcpCounters::read(self.snmp)?.passive_opens;
        let arrived = usize::try_from(opened.saturating_sub(self.opened)).unwrap_or(usize::MAX);
        let under_way = self.sent.saturating_sub(arrived);
        let (mut free, mut queued) = (0, 0);
        for listener in self.listeners.iter().filter(|listener| listener.accepts(server)) {
            free += size(share_of(listener.backlog).saturating_sub(listener.queued));
            queued += size(listener.queued);
        }
        self.room.insert(server.port(), free.saturating_sub(under_way).min(AT_ONCE));
        Ok((queued, opened))
    }
}

/// How much of a queue of this length may be filled by the replay. The other half is for the clients who come meanwhile;
/// a queue of length n takes one more than n.
fn share_of(backlog: u32) -> u32 {
    backlog / 2 + 1
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
