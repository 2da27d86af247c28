//! A SYN as it was captured, made fit to be sent once more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TCP: u8 = 6;
const TCP_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// Extension headers of IPv6 that may stand before TCP's: options for routers, a route that the packet has been, options for the pod.
/// Cilium, for one, sends the last (direct server return).
pub(super) const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Extension headers have whole multiples of this many bytes, and tell how many follow the first.
pub(super) const EXTENSION_UNIT: u8 = 8;
/// Where the checksum stands in the TCP header.
const CHECKSUM: usize = 16;
/// FIN, SYN, RST, ACK.
const FLAGS_MASK: u8 = 0x17;
const SYN_ALONE: u8 = 0x02;

/// Which connection a SYN wants to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// A SYN from its IP header on, with a valid TCP checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Syn {
    pub(crate) flow: Flow,
    pub(crate) packet: Box<[u8]>,
}

impl Syn {
    /// Takes a captured packet, IP header first; `None` for anything but a whole SYN.
    ///
    /// The TCP checksum is computed anew: a packet that has not left the machine carries only half of it, because the
    /// network card would have added the rest. What follows the packet is padding of a short Ethernet frame.
    pub(crate) fn parse(captured: &[u8]) -> Option<Self> {
        let (source, destination, header, total) = match captured.first()? >> 4 {
            4 => parse_v4(captured)?,
            6 => parse_v6(captured)?,
            _ => return None,
        };
        let mut packet: Box<[u8]> = captured.get(..total)?.into();
        let segment = packet.get_mut(header..)?;
        if segment.len() < TCP_HEADER || segment[13] & FLAGS_MASK != SYN_ALONE {
            return None;
        }
        let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        let flow = Flow { client: SocketAddr::new(source, port(0)), server: SocketAddr::new(destination, port(2)) };
        segment[CHECKSUM..CHECKSUM + 2].fill(0);
        let checksum = !fold(sum_of_pseudo_header(source, destination, segment.len()) + sum(segment));
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
        Some(Self { flow, packet })
    }
}

/// Addresses, length of the IP header, length of the packet.
type Header = (IpAddr, IpAddr, usize, usize);

fn parse_v4(packet: &[u8]) -> Option<Header> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(header[0] & 0xf) * 4;
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if length < 20 || header[9] != TCP || is_fragment {
        return None;
    }
    let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into();
    Some((address(12), address(16), length, usize::from(u16::from_be_bytes([header[2], header[3]]))))
}

/// Extension headers are passed over, and stay where they are when the packet is sent once more.
fn parse_v6(packet: &[u8]) -> Option<Header> {
    let header: &[u8; IPV6_HEADER] = packet.first_chunk()?;
    let (mut next, mut length) = (header[6], IPV6_HEADER);
    while EXTENSIONS.contains(&next) {
        let extension: &[u8; 2] = packet.get(length..)?.first_chunk()?;
        length += (usize::from(extension[1]) + 1) * usize::from(EXTENSION_UNIT);
        next = extension[0];
    }
    if next != TCP {
        return None;
    }
    let address = |at: usize| header[at..].first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    Some((address(8)?, address(24)?, length, IPV6_HEADER + payload))
}

fn sum_of_pseudo_header(source: IpAddr, destination: IpAddr, length: usize) -> u64 {
    let address = |address: IpAddr| match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    address(source) + address(destination) + u64::from(TCP) + u64::try_from(length).unwrap_or_default()
}

/// Sum of the 16-bit words, an odd byte at the end counted as the upper half of one.
fn sum(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let odd = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>() + odd
}

/// The Internet checksum's sum: carries are added back in.
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The loop has ended: nothing is left above the lower 16 bits.
    u16::try_from(sum).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A SYN of `curl` on an Ethernet, with the checksum as the receiver saw it.
    const V4: [u8; 60] = [
        0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0x00, 0x00, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0xc3, 0x51, 0x1f, 0x90, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0xff, 0xff, 0,
        0, // TCP
        0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 1, 2, 3, 4, 0, 0, 0, 0, 0x01, 0x03, 0x03, 0x07, // options
    ];

    fn v6() -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 40, TCP, 64];
        packet.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend(&V4[20..]);
        packet
    }

    /// What a receiver computes over pseudo header and segment: all ones when the checksum is right.
    fn receiver_sum(syn: &Syn, header: usize) -> u16 {
        let segment = &syn.packet[header..];
        fold(sum_of_pseudo_header(syn.flow.client.ip(), syn.flow.server.ip(), segment.len()) + sum(segment))
    }

    #[test]
    fn a_syn_gets_the_checksum_that_a_receiver_accepts() {
        let (v4, v6) = (Syn::parse(&V4).unwrap(), Syn::parse(&v6()).unwrap());
        assert_eq!((receiver_sum(&v4, 20), receiver_sum(&v6, 40)), (0xffff, 0xffff));
        assert_eq!(v4.flow.client, "10.0.0.1:50001".parse().unwrap());
        assert_eq!(v4.flow.server, "10.0.0.2:8080".parse().unwrap());
        assert_eq!(v6.flow.server, "[fd00::2]:8080".parse().unwrap());
        assert_eq!(v4.packet[..36], V4[..36], "all else is as it was");
        assert_eq!(v4.packet[38..], V4[38..]);
    }

    /// Options for routers, then options for the pod, eight bytes and sixteen.
    fn v6_with_options() -> Vec<u8> {
        let mut packet = v6();
        (packet[5], packet[6]) = (40 + 24, 0);
        let options = [[60, 0, 1, 4, 0, 0, 0, 0], [TCP, 1, 1, 12, 0, 0, 0, 0], [0; 8]].concat();
        packet.splice(IPV6_HEADER..IPV6_HEADER, options);
        packet
    }

    #[test]
    fn extension_headers_are_passed_over_and_kept() {
        let (plain, packet) = (Syn::parse(&v6()).unwrap(), v6_with_options());
        let with_options = Syn::parse(&packet).unwrap();
        assert_eq!(with_options.flow, plain.flow);
        assert_eq!(with_options.packet[..64], packet[..64]);
        assert_eq!(with_options.packet[64..], plain.packet[40..], "the checksum does not count them");
        let changed = |at: usize, to: u8| {
            let mut packet = packet.clone();
            packet[at] = to;
            Syn::parse(&packet)
        };
        assert_eq!(changed(40, 44), None, "a fragment");
        assert_eq!(changed(48, 17), None, "UDP behind options");
        assert_eq!(changed(49, 255), None, "longer than the packet");
    }

    #[test]
    fn padding_of_the_frame_is_cut_off() {
        let padded = [&V4[..], &[0xaa; 6]].concat();
        assert_eq!(Syn::parse(&padded), Syn::parse(&V4));
    }

    #[test]
    fn whatever_is_not_a_whole_syn_is_left_alone() {
        let changed = |at: usize, to: u8| {
            let mut packet = V4;
            packet[at] = to;
            Syn::parse(&packet)
        };
        assert_eq!(changed(33, 0x12), None, "SYN and ACK");
        assert_eq!(changed(33, 0x10), None, "ACK");
        assert_eq!(changed(9, 17), None, "UDP");
        assert_eq!(changed(6, 0x20), None, "a fragment");
        assert_eq!(changed(0, 0x44), None, "a header too short to be one");
        assert_eq!(changed(3, 61), None, "cut off");
        assert_eq!(changed(3, 30), None, "shorter than its headers");
        assert_eq!(changed(33, 0xc2).map(|syn| syn.flow), Syn::parse(&V4).map(|syn| syn.flow), "SYN with ECN");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            Syn::parse(&bytes);
        }

        #[test]
        fn a_damaged_syn_never_panics(at in 0..60_usize, to in any::<u8>(), cut in 0..=60_usize) {
            for mut packet in [V4.to_vec(), v6_with_options()] {
                packet[at] = to;
                Syn::parse(&packet[..cut]);
            }
        }
    }
}
