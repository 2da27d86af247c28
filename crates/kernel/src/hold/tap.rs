//! Seeing the SYNs that the packet filter drops: packet sockets get a copy of what comes in, before it.

use std::io;

use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{AddressFamily, Protocol, RawProtocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use socket2::{SockFilter, SockRef};

use super::frame::{EXTENSION_UNIT, EXTENSIONS, Syn};

/// Longer than any SYN; with TCP Fast Open it carries data.
const MOST_BYTES: usize = 2048;

/// What waits in the kernel between two looks: the kernel doubles it, and counts about 1 KiB for a SYN, so that some two
/// thousand fit for each address family.
const BUFFER_BYTES: usize = 1 << 20;

/// The filter holds at most 4096 instructions, and two a port.
pub(super) const MOST_PORTS: usize = 1024;

/// Extension headers of IPv6 that a SYN may have. The filter has no loops; the packet filter that drops SYNs would take any number.
const MOST_EXTENSIONS: u8 = 4;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Two packet sockets, one a family, so that only incoming packets are looked at and none of another protocol.
#[derive(Debug)]
pub(super) struct Tap {
    sockets: [(u16, OwnedFd); 2],
    ready: OwnedFd,
}

impl Tap {
    /// Opens the sockets in the network namespace of the calling thread; they see nothing yet.
    pub(super) fn open() -> io::Result<Self> {
        let tap = Self { sockets: [open(IPV4)?, open(IPV6)?], ready: epoll::create(epoll::CreateFlags::CLOEXEC)? };
        for (_, socket) in &tap.sockets {
            epoll::add(&tap.ready, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        tap.mute()?;
        Ok(tap)
    }

    /// Begins to collect SYNs to these ports.
    pub(super) fn listen(&self, ports: &[u16]) -> io::Result<()> {
        for (family, socket) in &self.sockets {
            SockRef::from(socket).attach_filter(&syn_filter(*family, ports))?;
        }
        Ok(())
    }

    /// Sees nothing more, and forgets what it has seen and nobody has collected.
    pub(super) fn mute(&self) -> io::Result<()> {
        self.close()?;
        self.collect(drop)
    }

    /// Sees nothing more; what it has seen can still be collected.
    pub(super) fn close(&self) -> io::Result<()> {
        for (_, socket) in &self.sockets {
            SockRef::from(socket).attach_filter(&[RETURN_NOTHING])?;
        }
        Ok(())
    }

    /// Passes on everything seen since the last time. Does not wait.
    pub(super) fn collect(&self, mut each: impl FnMut(Syn)) -> io::Result<()> {
        let mut buffer = [0; MOST_BYTES];
        for (_, socket) in &self.sockets {
            loop {
                match recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
                    Ok((length, _)) => Syn::parse(&buffer[..length]).into_iter().for_each(&mut each),
                    Err(Errno::AGAIN) => break,
                    // An interface went down; the socket goes on.
                    Err(Errno::INTR | Errno::NETDOWN) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }
}

/// Readable while there is something to collect.
impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

/// The socket is born with its protocol and so sees everything until it has a filter; [`Tap::open`] throws that away.
/// (To make it blind first and `bind` it later, as manuals advise, needs an address type that no safe crate offers.)
fn open(family: u16) -> io::Result<(u16, OwnedFd)> {
    let protocol = RawProtocol::new(u32::from(family.to_be())).map(Protocol::from_raw);
    // Without the Ethernet header, which not every device has.
    let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
    Ok((family, socket))
}

// Classic BPF.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
/// Four times the lower half of a byte, into the index: the length of an IPv4 header.
const INDEX_BY_HEADER: u16 = 0xb1;
const INDEX: u16 = 0x01;
const LOAD_BYTE_INDEXED: u16 = 0x50;
const LOAD_HALF_INDEXED: u16 = 0x48;
/// Into one of the filter's own variables, and back.
const STORE: u16 = 0x02;
const LOAD_STORED: u16 = 0x60;
const ADD: u16 = 0x04;
const ADD_INDEX: u16 = 0x0c;
const SHIFT_LEFT: u16 = 0x64;
const TO_INDEX: u16 = 0x07;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const RETURN_NOTHING: SockFilter = SockFilter::new(RETURN, 0, 0, 0);
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`: 0 for packets to this host.
const PACKET_TYPE: u32 = 0xffff_f004;

/// Accepts SYNs to one of the ports that are addressed to this host.
fn syn_filter(family: u16, ports: &[u16]) -> Vec<SockFilter> {
    let step = |code, value| SockFilter::new(code, 0, 0, value);
    // Goes on behind the "return nothing" if the value is this one.
    let require = |value| [SockFilter::new(JUMP_IF_EQUAL, 1, 0, value), RETURN_NOTHING];
    let mut filter = vec![step(LOAD_WORD, PACKET_TYPE)];
    filter.extend(require(0));
    if family == IPV4 {
        filter.push(step(LOAD_BYTE, 9));
        filter.extend(require(6));
        filter.push(step(LOAD_HALF, 6));
        filter.extend([SockFilter::new(JUMP_IF_ANY_BIT, 0, 1, 0x3fff), RETURN_NOTHING]);
        filter.push(step(INDEX_BY_HEADER, 0));
    } else {
        filter.push(step(LOAD_BYTE, 6));
        filter.push(step(INDEX, 40));
        for _ in 0..MOST_EXTENSIONS {
            filter.extend(pass_over_extension());
        }
        filter.extend(require(6));
    }
    filter.push(step(LOAD_BYTE_INDEXED, 13));
    filter.push(step(AND, 0x17));
    filter.extend(require(0x02));
    filter.push(step(LOAD_HALF_INDEXED, 2));
    for port in ports {
        filter.push(SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(*port)));
        filter.push(step(RETURN, 0xffff));
    }
    filter.push(RETURN_NOTHING);
    filter
}

/// If the accumulator names an extension header, which stands at the index then: moves the index behind it, and loads what stands
/// there. Nothing changes otherwise.
fn pass_over_extension() -> Vec<SockFilter> {
    let step = |code, value| SockFilter::new(code, 0, 0, value);
    let [of_routers, route, of_pod] = EXTENSIONS.map(u32::from);
    vec![
        SockFilter::new(JUMP_IF_EQUAL, 2, 0, of_routers),
        SockFilter::new(JUMP_IF_EQUAL, 1, 0, route),
        // Past the rest, which has eight steps.
        SockFilter::new(JUMP_IF_EQUAL, 0, 8, of_pod),
        step(LOAD_BYTE_INDEXED, 0),
        step(STORE, 0),
        step(LOAD_BYTE_INDEXED, 1),
        step(ADD, 1),
        step(SHIFT_LEFT, EXTENSION_UNIT.ilog2()),
        step(ADD_INDEX, 0),
        step(TO_INDEX, 0),
        step(LOAD_STORED, 0),
    ]
}
