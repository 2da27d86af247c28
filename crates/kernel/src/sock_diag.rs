//! Listing TCP sockets of a network namespace over netlink (`NETLINK_SOCK_DIAG`).
//!
//! One pass over both address families and a port filter inside the kernel, which the netlink crates do not offer, and no
//! work per socket that is not wanted (docs/decisions/0159-sock-diag-messages.md). A dump costs about 0.75 µs for each
//! reported socket and 0.1 µs for each TCP socket of the *whole node*, because all namespaces share one table.

pub(crate) mod reply;
mod request;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, recvfrom, send, socket_with,
};

use crate::connection::listening_ports;
use crate::{Connection, Connections, Listener, TcpState};
use reply::{Message, Messages};
use request::{Request, States};

/// The kernel fits its replies into the room that it was given last, and the first into less than 8 KiB (`NLMSG_GOODSIZE`). There is
/// a buffer for each pod, so it is a small one.
const BUFFER_BYTES: usize = 8 * 1024;

/// The kernel answers a dump out of the receiving call itself; this much silence means a broken socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a dump did not yield all sockets.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// A call on the netlink socket failed.
    #[error("netlink socket: {0}")]
    Socket(#[source] io::Error),
    /// The kernel refused the request or broke the dump off. `ENOENT` means that it has no `inet_diag`.
    #[error("the kernel answered {0} (it needs CONFIG_INET_DIAG and CONFIG_INET_TCP_DIAG)")]
    Refused(#[source] io::Error),
    /// A reply was larger than the buffer.
    #[error("a reply of {0} bytes was cut off")]
    Truncated(usize),
    /// Sockets changed in a way that made the kernel lose its place.
    #[error("the kernel was interrupted while it listed the sockets")]
    Interrupted,
    /// The bytes are not what the kernel's headers say.
    #[error("reply with {0}")]
    Malformed(&'static str),
    /// No reply for five seconds.
    #[error("no reply in time")]
    TimedOut,
}

/// A netlink socket that lists the TCP sockets of the namespace it was opened in, whichever thread uses it.
///
/// After an error throw it away: the rest of a broken dump may still be in it. [`crate::PodNetns`] does so by itself.
pub struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
    /// Empty until the first answer: many sockets are opened for a question that is never asked.
    buffer: Vec<u8>,
}

impl fmt::Debug for SockDiag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SockDiag").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl SockDiag {
    /// Opens the socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, sequence: 0, buffer: Vec::new() })
    }

    /// All listening sockets. Cheap (about 15 µs): listeners have a table of their own.
    pub fn listeners(&mut self) -> Result<Vec<Listener>, DumpError> {
        let mut listeners = Vec::new();
        self.dump(States::LISTEN, &[], |socket| {
            // A listener that was closed while it was listed has another state by now.
            if socket.state == TcpState::Listen {
                let Connection { local: addr, inode, rqueue: queued, wqueue: backlog, .. } = socket;
                listeners.push(Listener { addr, inode, queued, backlog });
            }
        })?;
        Ok(listeners)
    }

    /// Listening sockets and the inbound connections to them.
    pub fn connections(&mut self) -> Result<Connections, DumpError> {
        let listening = self.listeners()?;
        let ports = Vec::from_iter(listening_ports(&listening));
        let mut sockets = Vec::new();
        if !ports.is_empty() {
            self.dump(States::OPEN, &ports, |socket| sockets.push(socket))?;
        }
        Ok(Connections::select(listening, sockets))
    }

    /// Passes each connection to somebody who listens here to `each` as the kernel tells of it, those from the pod itself, too, and
    /// keeps none. One can be passed twice when its neighbours in the kernel's table go meanwhile.
    pub(crate) fn each_accepted(&mut self, mut each: impl FnMut(Connection)) -> Result<(), DumpError> {
        let listening = listening_ports(&self.listeners()?);
        if listening.is_empty() {
            return Ok(());
        }
        let ports: Vec<u16> = listening.iter().copied().collect();
        self.dump(States::OPEN, &ports, |socket| {
            if socket.is_open_to(&listening) {
                each(socket);
            }
        })
    }

    /// How many handshakes to these ports have begun and not ended. Costs a pass over the node's table.
    pub(crate) fn half_open(&mut self, ports: &[u16]) -> Result<u32, DumpError> {
        let mut half_open = 0;
        self.dump(States::OPENING, ports, |socket| half_open += u32::from(ports.contains(&socket.local.port())))?;
        Ok(half_open)
    }

    /// The connection with these addresses, and this identity if one is given; `None` if there is none. About 5 µs,
    /// however many sockets the node has.
    pub fn find(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        cookie: Option<u64>,
    ) -> Result<Option<Connection>, DumpError> {
        let answer = self.ask_one(Request::Show, local, peer, cookie)?;
        // Where there is no connection the kernel goes on and looks for a listener on that port.
        Ok(answer.and_then(|answer| match answer {
            Message::Socket(socket) if socket.state != TcpState::Listen => Some(socket),
            Message::Socket(_) | Message::Done => None,
        }))
    }

    /// Ends a connection at once: both sides see a reset. `false` if it has gone. Needs `CAP_NET_ADMIN`.
    pub(crate) fn destroy(&mut self, connection: &Connection) -> Result<bool, DumpError> {
        let Connection { local, peer, cookie, .. } = *connection;
        Ok(self.ask_one(Request::Destroy, local, peer, Some(cookie))?.is_some())
    }

    /// `None` if there is no such socket, or another one has its addresses now.
    fn ask_one(
        &mut self,
        request: Request,
        local: SocketAddr,
        peer: SocketAddr,
        cookie: Option<u64>,
    ) -> Result<Option<Message>, DumpError> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request::one(self.sequence, request, local, peer, cookie);
        send(&self.socket, &request, SendFlags::empty()).map_err(|errno| DumpError::Socket(errno.into()))?;
        loop {
            let received = self.receive()?;
            match Messages::new(&self.buffer[..received], self.sequence).next() {
                Some(Err(DumpError::Refused(error))) if is_gone(&error) => return Ok(None),
                Some(answer) => return answer.map(Some),
                None => {}
            }
        }
    }

    /// Passes every socket in one of the states to `each`; `ports` is a hint which local ports are of interest.
    fn dump(&mut self, states: States, ports: &[u16], mut each: impl FnMut(Connection)) -> Result<(), DumpError> {
        self.sequence = self.sequence.wrapping_add(1);
        send(&self.socket, &request::dump(self.sequence, states, ports), SendFlags::empty())
            .map_err(|errno| DumpError::Socket(errno.into()))?;
        loop {
            let received = self.receive()?;
            for message in Messages::new(&self.buffer[..received], self.sequence) {
                match message? {
                    Message::Socket(socket) => each(socket),
                    Message::Done => return Ok(()),
                }
            }
        }
    }

    /// One datagram from the kernel. Others may send to a netlink socket too: what is not the kernel's is ignored.
    fn receive(&mut self) -> Result<usize, DumpError> {
        self.buffer.resize(BUFFER_BYTES, 0);
        loop {
            match recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC) {
                Ok((_, length, _)) if length > self.buffer.len() => return Err(DumpError::Truncated(length)),
                Ok((_, length, Some(sender))) if is_kernel(&sender) => return Ok(length),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(DumpError::TimedOut),
                Err(errno) => return Err(DumpError::Socket(errno.into())),
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::STALE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The kernel's own netlink sockets have port 0, which no process can have.
fn is_kernel(sender: &SocketAddrAny) -> bool {
    SocketAddrNetlink::try_from(sender.clone()).is_ok_and(|address| address.pid() == 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    /// Everything in the test's own namespace, where loopback connections are the only ones at hand.
    fn dump_local_ports(sockets: &mut SockDiag, ports: &[u16]) -> Vec<(SocketAddr, SocketAddr)> {
        let mut pairs = Vec::new();
        sockets.dump(States::OPEN, ports, |socket| pairs.push((socket.local, socket.peer))).unwrap();
        pairs
    }

    #[test]
    fn the_kernel_applies_the_port_filter_exactly_in_both_families() {
        let listeners: Vec<_> =
            ["127.0.0.1:0", "[::]:0", "[::1]:0", "127.0.0.1:0"].map(|a| TcpListener::bind(a).unwrap()).into();
        let ports: Vec<u16> = listeners.iter().map(|l| l.local_addr().unwrap().port()).collect();
        let targets = [
            format!("127.0.0.1:{}", ports[0]),
            format!("127.0.0.1:{}", ports[1]),
            format!("[::1]:{}", ports[2]),
            format!("127.0.0.1:{}", ports[3]),
        ];
        let clients: Vec<_> = targets.iter().map(|target| TcpStream::connect(target).unwrap()).collect();

        let mut sockets = SockDiag::open().unwrap();
        for wanted in [&ports[..1], &ports[1..2], &ports[2..3], &ports[..3], &ports[..]] {
            let expected: BTreeSet<_> = clients
                .iter()
                .map(|client| (client.peer_addr().unwrap(), client.local_addr().unwrap()))
                .filter(|(server, _)| wanted.contains(&server.port()))
                .collect();
            let found = dump_local_ports(&mut sockets, wanted);
            assert_eq!(found.len(), expected.len(), "each once: {found:?}");
            assert_eq!(BTreeSet::from_iter(found), expected);
        }
    }

    #[test]
    fn more_ports_than_a_filter_holds_are_listed_unfiltered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let many: Vec<u16> = (1..=5000).collect();
        let found = dump_local_ports(&mut SockDiag::open().unwrap(), &many);
        assert!(found.contains(&(client.local_addr().unwrap(), client.peer_addr().unwrap())));
    }

    #[test]
    fn a_dump_of_several_replies_is_read_to_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..400)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                (client, listener.accept().unwrap())
            })
            .collect();
        let mut sockets = SockDiag::open().unwrap();
        for _ in 0..3 {
            assert_eq!(dump_local_ports(&mut sockets, &[address.port()]).len(), clients.len());
        }
    }

    #[test]
    fn listeners_have_an_identity_and_a_queue() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let address = listener.local_addr().unwrap();
        let find =
            |sockets: &mut SockDiag| sockets.listeners().unwrap().into_iter().find(|l| l.addr.port() == address.port());
        let mut sockets = SockDiag::open().unwrap();
        let before = find(&mut sockets).unwrap();
        assert_eq!(before.addr, address);
        assert!(before.inode > 0 && before.backlog > 0);
        assert_eq!(before.queued, 0);
        let _waiting = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        assert_eq!(find(&mut sockets).unwrap().queued, 1);
        drop(listener);
        assert_eq!(find(&mut sockets), None);
    }

    #[test]
    fn a_refused_request_is_an_error_and_not_an_empty_list() {
        let mut sockets = SockDiag::open().unwrap();
        let mut request = request::dump(1, States::OPEN, &[80]);
        // Make the filter jump into the middle of an instruction.
        let last = request.len() - 6;
        request[last] = 2;
        sockets.sequence = 1;
        send(&sockets.socket, &request, SendFlags::empty()).unwrap();
        let received = sockets.receive().unwrap();
        let first = Messages::new(&sockets.buffer[..received], 1).next().unwrap();
        assert!(matches!(first, Err(DumpError::Refused(_))), "{first:?}");
    }
}
