//! What only IPv6 has: extension headers, and addresses that are worth something on one link only.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::process::Command;
use std::thread;
use std::time::Instant;

use hitless_kernel::SynHold;
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, sendto,
    socket_with, sockopt,
};
use socket2::{Domain, Socket, Type};

use crate::hold::{PATIENCE, REPETITION, held_clients, spec};
use crate::lab::{CLIENT_V6, Lab, POD_V6, eventually};
use crate::ports::DUAL_STACK;
use crate::{answer, ask, open};

const DESTINATION_OPTIONS: u32 = 60;
const TCP: u8 = 6;
const SYN: u8 = 0x02;
const SYN_AND_ACK: u8 = 0x12;

/// A raw socket: what it sends gets an IPv6 header that names `protocol`, and it sees what comes in of that.
fn raw(protocol: u32) -> OwnedFd {
    let protocol = RawProtocol::new(protocol).map(Protocol::from_raw);
    socket_with(AddressFamily::INET6, SocketType::RAW, SocketFlags::CLOEXEC, protocol).unwrap()
}

/// A SYN to the pod as an Ethernet would carry it, without the IPv6 header.
fn syn(from_port: u16) -> Vec<u8> {
    let mut segment = [&from_port.to_be_bytes()[..], &DUAL_STACK.to_be_bytes(), &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
    segment.extend([0x50, SYN, 0xff, 0xff, 0, 0, 0, 0]);
    let length = u8::try_from(segment.len()).unwrap();
    let addressed = [&CLIENT_V6.octets()[..], &POD_V6.octets(), &[0, 0, 0, length, 0, 0, 0, TCP], &segment].concat();
    let mut sum: u32 = addressed.as_chunks::<2>().0.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    segment[16..18].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
    segment
}

/// In the calling thread's namespace.
fn add_address(address: Ipv6Addr) {
    let arguments = ["addr", "add", &format!("{address}/64"), "dev", "eth0", "nodad"];
    assert!(Command::new("ip").args(arguments).status().unwrap().success());
}

/// As networks send them that let pods answer clients directly: the Service's address stands in the option, which the pod ignores.
#[test]
fn a_client_whose_packets_have_extension_headers_is_held_and_its_syn_is_sent_once_more() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    let (options, answers) = lab.in_client(|| (raw(DESTINATION_OPTIONS), raw(TCP.into())));
    sockopt::set_socket_timeout(&answers, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    let port = 40_001_u16;
    // Type 0x1b: who does not know it passes it over.
    let header = [TCP, 2, 0x1b, 18, 0x1f, 0x90, 0xfd, 0, 0, 0x96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
    let packet = [&header[..], &syn(port)].concat();

    hold.begin(spec(&[DUAL_STACK])).unwrap();
    sendto(&options, &packet, SendFlags::empty(), &SocketAddr::from((POD_V6, 0))).unwrap();
    eventually("the client is held", || (held_clients(&mut hold) == 1).then_some(()));
    let released = hold.release().unwrap();
    assert_eq!((released.replayed, released.left), (1, 0), "{released:?}");
    let mut segment = [0; 128];
    loop {
        let (length, _) = recv(&answers, &mut segment[..], RecvFlags::empty()).unwrap();
        let is_to_us = length >= 20 && segment[2..4] == port.to_be_bytes() && segment[..2] == DUAL_STACK.to_be_bytes();
        if is_to_us {
            assert_eq!(segment[13], SYN_AND_ACK);
            return;
        }
    }
}

/// Such an address is answered through the device that the SYN came in by. One that is sent once more comes in over loopback, but
/// with a route of the pod's device.
#[test]
fn a_client_with_a_link_local_address_is_held_and_let_in() {
    const OWN: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x99, 1);
    const OF_POD: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x99, 2);
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    // The kernel's own come a moment later, and the route to them with them.
    lab.in_client(|| add_address(OWN));
    lab.in_pod(|| add_address(OF_POD));
    let client = lab.in_client(|| {
        let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
        let device = netdevice::name_to_index(&socket, "eth0").unwrap();
        socket.bind(&SocketAddrV6::new(OWN, 0, 0, device).into()).unwrap();
        socket
    });
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    let connecting = thread::spawn(move || {
        client.connect_timeout(&SocketAddr::from((POD_V6, DUAL_STACK)).into(), PATIENCE).map(|()| client)
    });
    eventually("the client is held", || (held_clients(&mut hold) == 1).then_some(()));
    let start = Instant::now();
    let released = hold.release().unwrap();
    assert_eq!((released.replayed, released.left), (1, 0), "{released:?}");
    let client = connecting.join().unwrap().unwrap().into();
    ask(&client, "fast");
    assert_eq!(answer(&client), "done\n");
    assert!(start.elapsed() < REPETITION, "by replay, not by repetition");
}
