//! The bytes of requests.
//!
//! Of dumps the older form (`TCPDIAG_GETSOCK`) is the one that covers both address families in one pass. Questions about
//! one socket have the newer form, which can also end it.

use std::net::{IpAddr, SocketAddr};

/// `TCPDIAG_GETSOCK` of `linux/inet_diag.h`.
const TCPDIAG_GETSOCK: u16 = 18;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`.
const DUMP_FLAGS: u16 = 0x301;
/// `INET_DIAG_INFO`, as the bit asked for: adds `struct tcp_info`.
const WITH_TCP_INFO: u8 = 1 << (2 - 1);
/// What is wanted of one socket: `SOCK_DIAG_BY_FAMILY` or `SOCK_DESTROY`, and the flags that go with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    Show,
    /// With `NLM_F_ACK`: the kernel says nothing else.
    Destroy,
}

impl Request {
    fn kind_and_flags(self) -> (u16, u16) {
        match self {
            Self::Show => (20, 1),
            Self::Destroy => (21, 5),
        }
    }
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// `INET_DIAG_NOCOOKIE`: whichever socket has the addresses.
const NO_COOKIE: u64 = u64::MAX;
/// `struct inet_diag_req_v2`.
const DIAG_REQUEST_V2: usize = 56;

const INET_DIAG_REQ_BYTECODE: u16 = 1;

const NETLINK_HEADER: usize = 16;
/// `struct inet_diag_req`: family, two prefix lengths, extensions, 48 bytes of socket identity, states, tables.
const DIAG_REQUEST: usize = 60;
const ATTRIBUTE_HEADER: usize = 4;

const BC_JMP: u8 = 1;
const BC_S_EQ: u8 = 11;
/// Comparison (two words) and jump (one word).
const PER_PORT: usize = 12;
/// Jump distances are 16 bits wide; this many ports are far below that and still cheaper to test than to copy.
const MAX_FILTERED_PORTS: usize = 256;

/// A set of TCP states to list.
#[derive(Debug, Clone, Copy)]
pub(super) struct States(u32);

impl States {
    pub(super) const LISTEN: Self = Self(1 << 10);
    /// ESTABLISHED, CLOSE_WAIT, FIN_WAIT1 and FIN_WAIT2: at least one direction is open.
    pub(super) const OPEN: Self = Self(1 << 1 | 1 << 8 | 1 << 4 | 1 << 5);
    /// SYN_RECV, under its old and its new number.
    pub(super) const OPENING: Self = Self(1 << 3 | 1 << 12);
}

/// A request for all TCP sockets in one of `states`. The kernel leaves out those with a local port not among `ports`,
/// unless there are none or too many: then all come.
pub(super) fn dump(sequence: u32, states: States, ports: &[u16]) -> Vec<u8> {
    let filter = if ports.len() <= MAX_FILTERED_PORTS { port_filter(ports) } else { Vec::new() };
    let filter_attribute = if filter.is_empty() { 0 } else { ATTRIBUTE_HEADER + filter.len() };
    let length = NETLINK_HEADER + DIAG_REQUEST + filter_attribute;
    let mut request = header(length, TCPDIAG_GETSOCK, DUMP_FLAGS, sequence);
    request.extend([0, 0, 0, WITH_TCP_INFO]);
    request.extend([0; 48]);
    request.extend(states.0.to_ne_bytes());
    request.extend([0; 4]);

    if !filter.is_empty() {
        request.extend(half(filter_attribute));
        request.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        request.extend(filter);
    }
    request
}

/// A request about the one socket with these addresses, and this identity if one is given.
pub(super) fn one(
    sequence: u32,
    request: Request,
    local: SocketAddr,
    peer: SocketAddr,
    cookie: Option<u64>,
) -> Vec<u8> {
    let (kind, flags) = request.kind_and_flags();
    let mut request = header(NETLINK_HEADER + DIAG_REQUEST_V2, kind, flags, sequence);
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    request.extend([family, IPPROTO_TCP, WITH_TCP_INFO, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(local.port().to_be_bytes());
    request.extend(peer.port().to_be_bytes());
    for address in [local.ip(), peer.ip()] {
        match address {
            IpAddr::V4(v4) => {
                request.extend(v4.octets());
                request.extend([0; 12]);
            }
            IpAddr::V6(v6) => request.extend(v6.octets()),
        }
    }
    request.extend([0; 4]); // any interface
    let [low, high] = halves(cookie.unwrap_or(NO_COOKIE));
    request.extend(low.to_ne_bytes());
    request.extend(high.to_ne_bytes());
    request
}

/// The cookie as the kernel writes it: lower half first.
fn halves(cookie: u64) -> [u32; 2] {
    [cookie, cookie >> 32].map(|half| u32::try_from(half & u64::from(u32::MAX)).unwrap_or(u32::MAX))
}

fn header(length: usize, kind: u16, flags: u16, sequence: u32) -> Vec<u8> {
    let mut request = Vec::with_capacity(length);
    request.extend(word(length));
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend([0; 4]); // port id: the kernel fills it in
    request
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

fn word(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes()
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
        assert_eq!(halves(0x1_0000_0002), [2, 1]);
        assert_eq!(dump(7, States::LISTEN, &[]).len(), 76);
        assert_eq!(dump(7, States::OPEN, &[80]).len(), 76 + 4 + 8);
    }
}
