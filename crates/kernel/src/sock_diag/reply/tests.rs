//! Against two dumps captured on Linux 6.18 (x86_64): listeners on `[::]:8080` and `10.0.0.2:9090`; a v4 client of
//! `[::]` that was answered, one with an unread request, a v6 client in the accept queue, one half closed.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::{Activity, TcpState, classify};

const LISTEN: &[u8] = include_bytes!("../../../tests/fixtures/listen.bin");
const OPEN: &[u8] = include_bytes!("../../../tests/fixtures/open.bin");
const SEQUENCE: u32 = 1;

fn sockets(datagram: &[u8]) -> Vec<Connection> {
    let mut messages: Vec<_> = Messages::new(datagram, SEQUENCE).collect::<Result<_, _>>().unwrap();
    assert_eq!(messages.pop(), Some(Message::Done));
    messages
        .into_iter()
        .map(|message| match message {
            Message::Socket(socket) => socket,
            Message::Done => panic!("more after the end"),
        })
        .collect()
}

fn client(sockets: &[Connection], port: u16) -> &Connection {
    sockets.iter().find(|socket| socket.peer.port() == port).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn listeners_are_read_with_address_and_backlog() {
    let listeners = sockets(LISTEN);
    let by_port = |port| listeners.iter().find(|listener| listener.local.port() == port).unwrap();
    let (v6, v4) = (by_port(8080), by_port(9090));
    assert_eq!(listeners.len(), 2);
    assert_eq!((v6.local, v6.state, v6.rqueue, v6.wqueue), (address("[::]:8080"), TcpState::Listen, 1, 16));
    assert_eq!((v4.local, v4.state, v4.rqueue, v4.wqueue), (address("10.0.0.2:9090"), TcpState::Listen, 0, 32));
    assert!(v4.inode != v6.inode && v4.cookie != v6.cookie);
}

#[test]
fn connections_are_read_with_queues_and_tcp_info() {
    let sockets = sockets(OPEN);
    let answered = client(&sockets, 50001);
    assert_eq!((answered.local, answered.peer), (address("10.0.0.2:8080"), address("10.0.0.1:50001")));
    let info = answered.info.unwrap();
    assert_eq!((info.bytes_received, info.bytes_acked, info.notsent_bytes), (100, 200, 0));
    assert!(info.last_data_sent < info.last_data_recv && info.last_data_recv < Duration::from_secs(1), "{info:?}");
    assert_eq!(classify(answered), Activity::Idle);

    let unread = client(&sockets, 50002);
    assert_eq!((unread.rqueue, unread.info.unwrap().bytes_received), (40, 40));
    assert_eq!(classify(unread), Activity::Busy);

    let queued = client(&sockets, 50003);
    assert_eq!((queued.local, queued.inode), (address("[fd00::2]:8080"), 0));
    assert_eq!(classify(queued), Activity::Fresh);

    assert_eq!(client(&sockets, 50004).state, TcpState::CloseWait);
}

#[test]
fn a_cut_off_dump_never_reaches_its_end() {
    for length in 0..OPEN.len() {
        let whole = Messages::new(&OPEN[..length], SEQUENCE).any(|message| matches!(message, Ok(Message::Done)));
        assert!(!whole, "at {length} of {}", OPEN.len());
    }
}

#[test]
fn answers_to_another_request_are_skipped() {
    assert_eq!(Messages::new(OPEN, SEQUENCE + 1).count(), 0);
}

const NETLINK_HEADER: usize = 16;
const DIAG_MESSAGE: usize = size_of::<InetResponseBuffer>();

/// A message without any attribute.
fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(NETLINK_HEADER + payload.len()).unwrap();
    let header =
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &SEQUENCE.to_ne_bytes(), &[0; 4]];
    [&header.concat(), payload].concat()
}

fn first(datagram: &[u8]) -> Result<Message, DumpError> {
    Messages::new(datagram, SEQUENCE).next().unwrap()
}

#[test]
fn every_way_to_fail_is_an_error() {
    let enoent = (-2_i32).to_ne_bytes();
    assert!(
        matches!(first(&message(NLMSG_ERROR, 0, &enoent)), Err(DumpError::Refused(e)) if e.raw_os_error() == Some(2))
    );
    assert!(matches!(first(&message(NLMSG_DONE, 2, &enoent)), Err(DumpError::Refused(_))));
    assert!(matches!(first(&message(NLMSG_OVERRUN, 0, &[])), Err(DumpError::Interrupted)));
    assert!(matches!(first(&message(NLMSG_DONE, NLM_F_DUMP_INTR, &[0; 4])), Err(DumpError::Interrupted)));
    assert!(matches!(first(&message(TCPDIAG_GETSOCK, 2, &[2; 71])), Err(DumpError::Malformed(_))));
    assert!(matches!(first(&message(TCPDIAG_GETSOCK, 2, &[99; 72])), Err(DumpError::Malformed(_))));
    assert!(matches!(first(&[1, 0, 0]), Err(DumpError::Malformed(_))));
    assert_eq!(first(&message(NLMSG_DONE, 2, &[])).unwrap(), Message::Done);
}

#[test]
fn tcp_info_of_an_old_kernel_is_none_and_a_broken_attribute_an_error() {
    let socket = [2; DIAG_MESSAGE];
    let attribute =
        |length: u16, body: usize| [&length.to_ne_bytes()[..], &INET_DIAG_INFO.to_ne_bytes(), &vec![0; body]].concat();
    let parse = |attribute: &[u8]| first(&message(TCPDIAG_GETSOCK, 2, &[&socket[..], attribute].concat()));
    let info = |attribute: &[u8]| match parse(attribute) {
        Ok(Message::Socket(socket)) => socket.info,
        other => panic!("{other:?}"),
    };
    assert!(info(&attribute(4 + 148, 148)).is_some());
    assert_eq!(info(&attribute(4 + 147, 147)), None);
    for broken in [&attribute(3, 100)[..], &attribute(200, 100), &[4]] {
        assert!(matches!(parse(broken), Err(DumpError::Malformed(_))), "{broken:?}");
    }
}

#[test]
fn who_was_shut_down_for_reading_is_told() {
    let socket = [2; DIAG_MESSAGE];
    let is_shut = |bits: &[u8]| {
        let length = u16::try_from(4 + bits.len()).unwrap();
        let padding = &[0; 3][..3 * bits.len()];
        let attribute = [&length.to_ne_bytes()[..], &INET_DIAG_SHUTDOWN.to_ne_bytes(), bits, padding].concat();
        match first(&message(TCPDIAG_GETSOCK, 2, &[&socket[..], &attribute].concat())) {
            Ok(Message::Socket(socket)) => socket.shut_for_reading,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([&[0][..], &[1], &[2], &[3]].map(is_shut), [false, true, false, true]);
    assert!(!is_shut(&[]), "a kernel that says nothing");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        Messages::new(&bytes, SEQUENCE).for_each(drop);
    }

    /// Random bytes seldom get past the header; a real dump with a few bytes changed does.
    #[test]
    fn a_damaged_dump_never_panics(damage in proptest::collection::vec((0..OPEN.len(), any::<u8>()), 1..8), cut in 0..=OPEN.len()) {
        let mut bytes = OPEN.to_vec();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        Messages::new(&bytes[..cut], SEQUENCE).for_each(drop);
    }
}
