//! The bytes of requests.
//!
//! Of dumps the older form (`TCPDIAG_GETSOCK`) is the one that covers both address families in one pass; the library does
//! not have it, nor the filter. Questions about one socket have the newer form, which can also end it.

use std::net::SocketAddr;

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_packet_sock_diag::{SockDiagDestroy, SockDiagMessage};

/// `linux/inet_diag.h`.
pub(super) const TCPDIAG_GETSOCK: u16 = 18;
const INET_DIAG_REQ_BYTECODE: u16 = 1;
/// `INET_DIAG_NOCOOKIE`: whichever socket has the addresses.
const NO_COOKIE: u64 = u64::MAX;
/// `struct inet_diag_req`: family, two prefix lengths, extensions, 48 bytes of socket identity, states, tables.
const DIAG_REQUEST: usize = 60;
const EXTENSIONS: usize = 3;
const STATES: usize = 52;

const BC_JMP: u8 = 1;
const BC_S_EQ: u8 = 11;
/// Comparison (two words) and jump (one word).
const PER_PORT: usize = 12;
/// Jump distances are 16 bits wide; this many ports are far below that and still cheaper to test than to copy.
const MAX_FILTERED_PORTS: usize = 256;

/// What is wanted of one socket.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    Show,
    Destroy,
}

/// A set of TCP states to list.
#[derive(Debug, Clone, Copy)]
pub(super) struct States(u32);

impl States {
    pub(super) const LISTEN: Self = Self(StateFlags::LISTEN.bits());
    /// At least one direction is open.
    pub(super) const OPEN: Self = Self(
        StateFlags::ESTABLISHED.bits()
            | StateFlags::CLOSE_WAIT.bits()
            | StateFlags::FIN_WAIT1.bits()
            | StateFlags::FIN_WAIT2.bits(),
    );
    /// SYN_RECV, under its old and its new number.
    pub(super) const OPENING: Self = Self(StateFlags::SYN_RECV.bits() | 1 << 12);
}

/// A request for all TCP sockets in one of `states`. The kernel leaves out those with a local port not among `ports`,
/// unless there are none or too many: then all come.
pub(super) fn dump(sequence: u32, states: States, ports: &[u16]) -> Vec<u8> {
    let is_filtered = (1..=MAX_FILTERED_PORTS).contains(&ports.len());
    let filter = is_filtered.then(|| DefaultNla::new(INET_DIAG_REQ_BYTECODE, port_filter(ports)));
    message(sequence, NLM_F_DUMP, Dump { states, filter })
}

/// A request about the one socket with these addresses, and this identity if one is given.
pub(super) fn one(
    sequence: u32,
    request: Request,
    local: SocketAddr,
    peer: SocketAddr,
    cookie: Option<u64>,
) -> Vec<u8> {
    let socket_id = SocketId {
        source_port: local.port(),
        destination_port: peer.port(),
        source_address: local.ip(),
        destination_address: peer.ip(),
        interface_id: 0,
        cookie: cookie_bytes(cookie.unwrap_or(NO_COOKIE)),
    };
    let socket = SockDiagMessage::InetRequest(InetRequest {
        family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::all(),
        socket_id,
    });
    match request {
        Request::Show => message(sequence, 0, socket),
        // The kernel says nothing but the acknowledgement.
        Request::Destroy => message(sequence, NLM_F_ACK, SockDiagDestroy::new(socket)),
    }
}

/// The cookie as the kernel writes it: lower half first.
fn cookie_bytes(cookie: u64) -> [u8; 8] {
    let half = |bits| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX).to_ne_bytes();
    let (low, high) = (half(cookie), half(cookie >> 32));
    [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
}

/// What [`cookie_bytes`] has written.
pub(super) fn cookie_from(bytes: [u8; 8]) -> u64 {
    let half = |at: usize| u64::from(u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    half(4) << 32 | half(0)
}

fn message(sequence: u32, flags: u16, request: impl NetlinkSerializable) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

struct Dump {
    states: States,
    filter: Option<DefaultNla>,
}

impl NetlinkSerializable for Dump {
    fn message_type(&self) -> u16 {
        TCPDIAG_GETSOCK
    }

    fn buffer_len(&self) -> usize {
        DIAG_REQUEST + self.filter.as_ref().map_or(0, Emitable::buffer_len)
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (request, filter) = buffer.split_at_mut(DIAG_REQUEST);
        request[EXTENSIONS] = ExtensionFlags::INFO.bits();
        request[STATES..STATES + 4].copy_from_slice(&self.states.0.to_ne_bytes());
        if let Some(attribute) = &self.filter {
            attribute.emit(filter);
        }
    }
}

/// A program that accepts a socket when its local port is one of `ports`.
///
/// The kernel accepts when a jump lands exactly at the end and rejects when it lands one word behind it. For each port:
/// "equal: go on with the next word, else: skip the jump", then "jump to the end". The last port has no jump, so skipping
/// it lands behind the end.
fn port_filter(ports: &[u16]) -> Vec<u8> {
    let length = (ports.len() * PER_PORT).saturating_sub(4);
    let mut program = Vec::with_capacity(length);
    for port in ports {
        program.extend([BC_S_EQ, 8]);
        program.extend(half(PER_PORT));
        program.extend([0, 0]);
        program.extend(port.to_ne_bytes());
        if program.len() < length {
            let to_end = length - program.len();
            program.extend([BC_JMP, 4]);
            program.extend(half(to_end));
        }
    }
    program
}

/// Lengths here are bounded by [`MAX_FILTERED_PORTS`]; saturation would only make the kernel refuse the request.
fn half(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel does with the program (`inet_diag_bc_run`), for the two instructions in use.
    fn accepts(program: &[u8], port: u16) -> bool {
        let mut at = 0;
        while at < program.len() {
            let no = usize::from(u16::from_ne_bytes([program[at + 2], program[at + 3]]));
            let yes = usize::from(program[at + 1]);
            let holds = match program[at] {
                BC_S_EQ => u16::from_ne_bytes([program[at + 6], program[at + 7]]) == port,
                BC_JMP => false,
                other => panic!("instruction {other}"),
            };
            at += if holds { yes } else { no };
        }
        at == program.len()
    }

    proptest! {
        #[test]
        fn the_filter_accepts_its_ports_and_no_other(
            ports in proptest::collection::btree_set(any::<u16>(), 1..=MAX_FILTERED_PORTS),
            other in any::<u16>(),
        ) {
            let program = port_filter(&Vec::from_iter(ports.clone()));
            for port in &ports {
                prop_assert!(accepts(&program, *port));
            }
            prop_assert_eq!(accepts(&program, other), ports.contains(&other));
        }
    }

    #[test]
    fn a_request_says_its_own_length() {
        for ports in [vec![], vec![80], vec![80, 443, 8080], (1..=300).collect()] {
            let request = dump(7, States::OPEN, &ports);
            let said = u32::from_ne_bytes([request[0], request[1], request[2], request[3]]);
            assert_eq!(usize::try_from(said).unwrap(), request.len(), "{} ports", ports.len());
        }
        let (v4, v6) = ("10.0.0.1:80".parse().unwrap(), "[fd00::1]:80".parse().unwrap());
        assert_eq!(one(7, Request::Show, v4, v4, None).len(), 72);
        assert_eq!(one(7, Request::Destroy, v6, v6, Some(1)).len(), 72);
        assert_eq!(cookie_bytes(0x1_0000_0002), [2_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat()[..]);
        assert_eq!(cookie_from(cookie_bytes(0x1_0000_0002)), 0x1_0000_0002);
        assert_eq!(dump(7, States::LISTEN, &[]).len(), 76);
        assert_eq!(dump(7, States::OPEN, &[80]).len(), 76 + 4 + 8);
    }
}
