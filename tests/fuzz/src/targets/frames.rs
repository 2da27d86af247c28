//! Frames that packet sockets see while new connections are held: which of them are SYNs, and what is sent once more.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hitless_kernel::fuzz::{Frame, frame, replayed};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "frames", run, seeds, words: &[] };

const TCP: u8 = 6;
/// Where the checksum stands in the TCP header.
const CHECKSUM: usize = 16;

/// A SYN of `curl`, and the same over IPv6.
const V4: [u8; 60] = [
    0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0x00, 0x00, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x51, 0x1f,
    0x90, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0xff, 0xff, 0, 0, 0x02, 0x04, 0x05, 0xb4, 0x04,
    0x02, 0x08, 0x0a, 1, 2, 3, 4, 0, 0, 0, 0, 0x01, 0x03, 0x03, 0x07,
];

/// `extensions` stand before TCP's header; the first is of the kind `first`.
fn v6(first: u8, extensions: &[u8]) -> Vec<u8> {
    let length = u8::try_from(40 + extensions.len()).expect("short");
    let mut packet = vec![0x60, 0, 0, 0, 0, length, first, 64];
    packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
    packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
    packet.extend(extensions);
    packet.extend(&V4[20..]);
    packet
}

/// Each frame has its length before it.
fn input(frames: &[&[u8]]) -> Vec<u8> {
    let with_length = |frame: &&[u8]| [&[u8::try_from(frame.len()).expect("short")], *frame].concat();
    frames.iter().flat_map(with_length).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let plain = v6(TCP, &[]);
    let options = [[60, 0, 1, 4, 0, 0, 0, 0], [TCP, 1, 1, 12, 0, 0, 0, 0], [0; 8]].concat();
    let (with_options, mut again) = (v6(0, &options), V4);
    again[24] = 0x99;
    let padded = [&V4[..], &[0xaa; 6]].concat();
    vec![input(&[&V4, &plain, &again]), input(&[&with_options]), input(&[&padded, &with_options, &plain])]
}

fn frames(mut data: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (frame, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        frames.push(frame);
        data = rest;
    }
    frames
}

fn run(data: &[u8]) {
    let captured = frames(data);
    let mut newest: BTreeMap<(SocketAddr, SocketAddr), Frame> = BTreeMap::new();
    for captured in &captured {
        if let Some(held) = frame(captured) {
            check(captured, &held);
            newest.insert((held.client, held.server), held);
        }
    }
    let (sent, overflow) = replayed(captured.into_iter());
    assert_eq!((sent.len(), overflow), (newest.len(), 0), "one frame of each client");
    for frame in sent {
        assert_eq!(newest.get(&(frame.client, frame.server)), Some(&frame), "only what was held is sent, the newest");
    }
}

/// What is sent is what was captured but for the checksum, which is right, and it is a SYN between the addresses that it names.
fn check(captured: &[u8], held: &Frame) {
    let packet = &held.packet;
    let tcp = tcp_header(packet).expect("what is held is TCP");
    let sum_at = tcp + CHECKSUM;
    assert_eq!(packet[..sum_at], captured[..sum_at]);
    assert_eq!(packet[sum_at + 2..], captured[sum_at + 2..packet.len()]);
    assert_eq!(packet[tcp + 13] & 0x17, 0x02, "FIN, SYN, RST, ACK");
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    assert_eq!((held.client.port(), held.server.port()), (port(tcp), port(tcp + 2)));
    assert_eq!(sum(held, &packet[tcp..]), 0xffff, "the checksum as a receiver adds it up");
    assert_eq!(frame(packet).as_ref(), Some(held), "it is read the same once more");
    let padded = [packet, &[0xaa; 7][..]].concat();
    assert_eq!(frame(&padded).as_ref(), Some(held), "padding counts for nothing");
}

fn tcp_header(packet: &[u8]) -> Option<usize> {
    if packet.first()? >> 4 == 4 {
        return (packet[9] == TCP).then_some(usize::from(packet[0] & 15) * 4);
    }
    let (mut next, mut at) = (*packet.get(6)?, 40);
    while next != TCP {
        next = *packet.get(at)?;
        at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
    }
    Some(at)
}

fn sum(held: &Frame, segment: &[u8]) -> u32 {
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let length = u16::try_from(segment.len()).expect("a packet's length has sixteen bits").to_be_bytes();
    let mut bytes =
        [octets(held.client), octets(held.server), vec![0, TCP], length.to_vec(), segment.to_vec()].concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    words.fold(0, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}
