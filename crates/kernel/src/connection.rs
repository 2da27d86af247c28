//! What a pod's sockets are, and which of them count as inbound connections (docs/contract.md#counted-connections).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A listening TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Bound address; unspecified (`0.0.0.0`, `[::]`) for all addresses.
    pub addr: SocketAddr,
    /// The socket's identity: a process that was replaced listens on the same port with another inode.
    pub inode: u32,
    /// Connections in the accept queue. Closing the listener resets them.
    pub queued: u32,
    /// Length limit of the accept queue.
    pub backlog: u32,
}

impl Listener {
    /// Whether a client of this address reaches the listener. `[::]` is taken to serve IPv4 as well: whether it does not
    /// (`IPV6_V6ONLY`) the list does not say.
    pub(crate) fn accepts(&self, server: SocketAddr) -> bool {
        self.addr.port() == server.port()
            && match self.addr.ip() {
                IpAddr::V6(v6) if v6.is_unspecified() => true,
                IpAddr::V4(v4) if v4.is_unspecified() => server.is_ipv4(),
                bound => bound == server.ip(),
            }
    }
}

/// State of a connection, as far as draining tells states apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpState {
    /// Both directions are open.
    Established,
    /// The client has closed its direction, the pod has not.
    CloseWait,
    /// The pod has closed its direction, and the client has not acknowledged it.
    FinWait1,
    /// The pod has closed its direction, the client has not.
    FinWait2,
    /// A handshake that has begun.
    SynReceived,
    /// A listener.
    Listen,
    /// Any other state, by the kernel's number.
    Other(u8),
}

impl From<u8> for TcpState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Established,
            // Half-open connections are small records of their own since Linux 4.4, with a state of their own.
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            8 => Self::CloseWait,
            10 => Self::Listen,
            other => Self::Other(other),
        }
    }
}

/// The part of the kernel's `struct tcp_info` that tells a busy connection from an idle one.
///
/// Ages count from the moment of the dump. The kernel keeps them in jiffies (1 to 10 ms), so two events shortly after
/// one another have the same age. Before the first event the age is the connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Since the pod last sent data.
    pub last_data_sent: Duration,
    /// Since the pod's kernel last received data.
    pub last_data_recv: Duration,
    /// Since the client last acknowledged anything.
    pub last_ack_recv: Duration,
    /// Bytes sent by the pod and acknowledged by the client.
    pub bytes_acked: u64,
    /// Bytes received from the client, read by the application or not.
    pub bytes_received: u64,
    /// Bytes written by the application and not yet sent.
    pub notsent_bytes: u32,
    /// So many times in a row the client has acknowledged nothing in time, and the pod's kernel has sent again.
    pub timeouts: u8,
}

/// A TCP connection as the pod's side sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The pod's side. IPv4 written as IPv6 (`::ffff:a.b.c.d`) is given as IPv4.
    pub local: SocketAddr,
    /// The client's side, normalised likewise.
    pub peer: SocketAddr,
    /// State when the dump passed by.
    pub state: TcpState,
    /// Number of the socket in the kernel's socket file system; 0 while the connection waits to be accepted.
    pub inode: u32,
    /// The kernel's identity of this socket, never reused while the node runs.
    pub cookie: u64,
    /// Bytes received that the application has not read.
    pub rqueue: u32,
    /// Bytes written by the application that the client has not acknowledged.
    pub wqueue: u32,
    /// The pod's own side was shut down for reading, as [`close_unused`](crate::close_unused) does: its process reads an end of file, and
    /// the client knows nothing of it. Set as well where the client has closed its direction.
    pub shut_for_reading: bool,
    /// Absent on kernels before 4.6.
    pub info: Option<TcpInfo>,
}

impl Connection {
    /// How long no data has passed in either direction; `None` when the kernel does not tell.
    #[must_use]
    pub fn unused_for(&self) -> Option<Duration> {
        self.info.map(|info| info.last_data_sent.min(info.last_data_recv))
    }

    /// How long nothing at all has come or gone, acknowledgements and the client's FIN included; `None` when the kernel
    /// does not tell. For a half-closed connection this is at most the time since it became so.
    #[must_use]
    pub fn silent_for(&self) -> Option<Duration> {
        self.info.map(|info| info.last_data_sent.min(info.last_data_recv).min(info.last_ack_recv))
    }

    /// Whether it counts: see [`Connections`].
    pub(crate) fn is_inbound(&self, listening: &BTreeSet<u16>) -> bool {
        self.is_open_to(listening) && !self.is_from_pod_itself()
    }

    /// Whether somebody is, or may be, connected to one of these ports. A socket with a port that the pod listens on was accepted
    /// there: the kernel does not hand out a bound port for outgoing connections.
    pub(crate) fn is_open_to(&self, listening: &BTreeSet<u16>) -> bool {
        let is_open = match self.state {
            TcpState::Established | TcpState::CloseWait => true,
            TcpState::FinWait1 | TcpState::FinWait2 => self.inode != 0,
            TcpState::SynReceived | TcpState::Listen | TcpState::Other(_) => false,
        };
        is_open && listening.contains(&self.local.port())
    }

    /// Both ends are in the pod: over loopback, or through the pod's own address.
    #[must_use]
    pub fn is_from_pod_itself(&self) -> bool {
        self.peer.ip().is_loopback() || self.peer.ip() == self.local.ip()
    }
}

/// A pod's listeners and the connections that clients have opened to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// All listening sockets, those bound to loopback included.
    pub listening: Vec<Listener>,
    /// ESTABLISHED connections from outside the pod to a listening port, each once, those that still wait to be accepted
    /// included. The kubelet's probes are among them: whether a peer is the kubelet or a masqueraded client cannot be
    /// told from inside the pod's namespace.
    pub inbound: Vec<Connection>,
    /// The same, but one side has closed its direction: the client (CLOSE_WAIT), or the pod, whose application still
    /// holds the socket (FIN_WAIT1, FIN_WAIT2). They must age out by [`Connection::silent_for`]: with an application that
    /// forgets them the pod would never be drained. Sockets that the application has closed are not among them: the
    /// kernel ends those by itself, whatever happens to the process.
    pub half_closed: Vec<Connection>,
}

impl Connections {
    /// Sorts the sockets of a dump.
    pub(crate) fn select(listening: Vec<Listener>, mut sockets: Vec<Connection>) -> Self {
        let ports = listening_ports(&listening);
        // A dump that spans several replies can pass the same socket twice when its neighbours in the kernel's table go.
        sockets.sort_unstable_by_key(|socket| socket.cookie);
        sockets.dedup_by_key(|socket| socket.cookie);
        sockets.retain(|socket| socket.is_inbound(&ports));
        let (inbound, half_closed) = sockets.into_iter().partition(|socket| socket.state == TcpState::Established);
        Self { listening, inbound, half_closed }
    }
}

/// The ports somebody listens on, ascending.
pub(crate) fn listening_ports(listening: &[Listener]) -> BTreeSet<u16> {
    listening.iter().map(|listener| listener.addr.port()).collect()
}

/// A v4 client of a `[::]` listener has an IPv6 socket with mapped addresses; to people it is an IPv4 connection.
pub(crate) fn normalised(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip.to_canonical(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(addr: &str) -> Listener {
        Listener { addr: addr.parse().unwrap(), inode: 1, queued: 0, backlog: 128 }
    }

    fn socket(cookie: u64, local: &str, peer: &str, state: u8) -> Connection {
        let (local, peer): (SocketAddr, SocketAddr) = (local.parse().unwrap(), peer.parse().unwrap());
        Connection {
            local: normalised(local.ip(), local.port()),
            peer: normalised(peer.ip(), peer.port()),
            state: state.into(),
            inode: 5,
            cookie,
            rqueue: 0,
            wqueue: 0,
            shut_for_reading: false,
            info: None,
        }
    }

    #[test]
    fn only_connections_from_outside_to_a_listening_port_count() {
        let selected = Connections::select(
            vec![listener("[::]:8080"), listener("0.0.0.0:9090")],
            vec![
                socket(1, "[::ffff:10.0.0.2]:8080", "[::ffff:10.0.0.1]:50001", 1),
                socket(2, "10.0.0.2:9090", "10.0.0.1:50002", 1),
                socket(3, "[fd00::2]:8080", "[fd00::1]:50003", 1),
                socket(4, "10.0.0.2:8080", "10.0.0.1:50004", 8),
                // outgoing, loopback in both spellings, through the own address, closing
                socket(5, "10.0.0.2:43210", "10.0.0.9:8080", 1),
                socket(6, "127.0.0.1:8080", "127.0.0.1:50006", 1),
                socket(7, "[::ffff:127.0.0.1]:8080", "[::ffff:127.0.0.1]:50007", 1),
                socket(8, "[::1]:8080", "[::1]:50008", 1),
                socket(9, "10.0.0.2:8080", "10.0.0.2:50009", 1),
                socket(10, "10.0.0.2:8080", "10.0.0.1:50010", 9),
                // closed by the pod: held by the application, and not any more
                socket(11, "10.0.0.2:8080", "10.0.0.1:50011", 5),
                Connection { inode: 0, ..socket(12, "10.0.0.2:8080", "10.0.0.1:50012", 5) },
                // the first again, as a dump in several replies can list it
                socket(1, "[::ffff:10.0.0.2]:8080", "[::ffff:10.0.0.1]:50001", 1),
            ],
        );
        let cookies = |sockets: &[Connection]| sockets.iter().map(|socket| socket.cookie).collect::<Vec<_>>();
        assert_eq!(cookies(&selected.inbound), [1, 2, 3]);
        assert_eq!(cookies(&selected.half_closed), [4, 11]);
        assert_eq!(selected.inbound[0].peer, "10.0.0.1:50001".parse().unwrap());
        assert_eq!(selected.listening.len(), 2);
    }

    #[test]
    fn unused_lasts_since_the_later_of_both_directions() {
        let mut connection = socket(1, "10.0.0.2:8080", "10.0.0.1:50001", 1);
        assert_eq!(connection.unused_for(), None);
        connection.info = Some(TcpInfo {
            last_data_sent: Duration::from_millis(30),
            last_data_recv: Duration::from_millis(40),
            last_ack_recv: Duration::ZERO,
            bytes_acked: 1,
            bytes_received: 1,
            notsent_bytes: 0,
            timeouts: 0,
        });
        assert_eq!(connection.unused_for(), Some(Duration::from_millis(30)));
        assert_eq!(connection.silent_for(), Some(Duration::ZERO));
    }
}
