//! The same work with libraries, as their documentation shows it.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use hitless_kernel::{PodNetns, find_pod_pids};
use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_packet_sock_diag::{SOCK_DIAG_BY_FAMILY, SockDiagMessage};
use procfs::FromRead;
use procfs::net::Snmp;
use procfs::process::{FDTarget, Process};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

pub(crate) fn passive_opens(snmp: &File) -> u64 {
    let mut buffer = [0; 8 * 1024];
    let length = rustix::io::pread(snmp, &mut buffer, 0).unwrap();
    Snmp::from_read(&buffer[..length]).unwrap().tcp_passive_opens
}

pub(crate) fn listeners_of(netns: &PodNetns, uid: &str) -> usize {
    let listeners = netns.listeners().unwrap();
    let mut inodes = std::collections::BTreeSet::new();
    for pid in find_pod_pids(Path::new("/proc"), uid).unwrap() {
        for file in Process::new(pid.as_raw_pid()).unwrap().fd().unwrap() {
            if let FDTarget::Socket(inode) = file.unwrap().target {
                inodes.insert(inode);
            }
        }
    }
    listeners.iter().filter(|listener| inodes.contains(&u64::from(listener.inode))).count()
}

/// Lists sockets with `netlink-packet-sock-diag`.
pub(crate) struct Sockets {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// What of a socket is kept.
pub(crate) struct Connection {
    pub(crate) id: SocketId,
    pub(crate) state: u8,
    pub(crate) inode: u32,
    pub(crate) queues: (u32, u32),
    pub(crate) info: Option<(u32, u32, u32, u64, u64, u32)>,
}

impl Sockets {
    /// In the network namespace of the calling thread.
    pub(crate) fn open() -> Self {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(SOCK_DIAG)).unwrap();
        Self { socket, buffer: vec![0; 8 * 1024] }
    }

    /// Listening sockets and the connections to them.
    pub(crate) fn connections(&mut self) -> (Vec<InetResponse>, Vec<Connection>) {
        let mut listening = Vec::new();
        self.dump(&StateFlags::LISTEN, &[], |response| listening.push(response));
        let mut ports: Vec<u16> = listening.iter().map(|listener| listener.header.socket_id.source_port).collect();
        ports.sort_unstable();
        ports.dedup();
        let open = StateFlags::ESTABLISHED | StateFlags::CLOSE_WAIT | StateFlags::FIN_WAIT1 | StateFlags::FIN_WAIT2;
        let mut sockets = Vec::new();
        self.dump(&open, &ports, |response| sockets.push(kept(response)));
        sockets.sort_unstable_by_key(|socket| socket.id.cookie);
        sockets.dedup_by_key(|socket| socket.id.cookie);
        sockets.retain(|socket| !is_from_pod_itself(&socket.id));
        (listening, sockets)
    }

    /// Once for each family: that is what the library has.
    fn dump(&mut self, states: &StateFlags, ports: &[u16], mut each: impl FnMut(InetResponse)) {
        for family in [AF_INET, AF_INET6] {
            let socket_id = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
            let (extensions, states) = (ExtensionFlags::INFO, states.clone());
            let request = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
            let mut header = NetlinkHeader::default();
            header.flags = NLM_F_REQUEST | NLM_F_DUMP;
            let filter = (!ports.is_empty()).then(|| DefaultNla::new(1, port_filter(ports)));
            let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(Filtered { request, filter }));
            message.finalize();
            let mut bytes = vec![0; message.buffer_len()];
            message.serialize(&mut bytes);
            send(&self.socket, &bytes, SendFlags::empty()).unwrap();
            while self.receive(&mut each) {}
        }
    }

    /// One datagram; whether there will be more.
    fn receive(&mut self, each: &mut impl FnMut(InetResponse)) -> bool {
        let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()).unwrap();
        let mut rest = &self.buffer[..length];
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).unwrap();
            rest = rest.get(message.header.length.next_multiple_of(4) as usize..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => each(*response),
                NetlinkPayload::Done(_) => return false,
                other => panic!("{other:?}"),
            }
        }
        true
    }
}

fn kept(response: InetResponse) -> Connection {
    let header = response.header;
    let info = response.nlas.iter().find_map(|nla| match nla {
        Nla::TcpInfo(info) => Some(seen(info)),
        _ => None,
    });
    let queues = (header.recv_queue, header.send_queue);
    Connection { id: header.socket_id, state: header.state, inode: header.inode, queues, info }
}

fn seen(info: &TcpInfo) -> (u32, u32, u32, u64, u64, u32) {
    let TcpInfo { last_data_sent, last_data_recv, last_ack_recv, bytes_acked, bytes_received, notsent_bytes, .. } =
        *info;
    (last_data_sent, last_data_recv, last_ack_recv, bytes_acked, bytes_received, notsent_bytes)
}

fn is_from_pod_itself(id: &SocketId) -> bool {
    let canonical = |address: IpAddr| address.to_canonical();
    canonical(id.destination_address).is_loopback() || canonical(id.source_address) == canonical(id.destination_address)
}

/// The library has no message with a filter.
struct Filtered {
    request: InetRequest,
    filter: Option<DefaultNla>,
}

impl NetlinkSerializable for Filtered {
    fn message_type(&self) -> u16 {
        SOCK_DIAG_BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        self.request.buffer_len() + self.filter.as_ref().map_or(0, Emitable::buffer_len)
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (request, rest) = buffer.split_at_mut(self.request.buffer_len());
        self.request.emit(request);
        if let Some(filter) = &self.filter {
            filter.emit(rest);
        }
    }
}

/// Nor the program of the filter: see `sock_diag/request.rs`.
fn port_filter(ports: &[u16]) -> Vec<u8> {
    let length = ports.len() * 12 - 4;
    let mut program = Vec::with_capacity(length);
    for port in ports {
        program.extend([11, 8, 12, 0, 0, 0]);
        program.extend(port.to_ne_bytes());
        if program.len() < length {
            let to_end = u16::try_from(length - program.len()).unwrap();
            program.extend([1, 4]);
            program.extend(to_end.to_ne_bytes());
        }
    }
    program
}
