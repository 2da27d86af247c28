//! Netlink: the sockets of a network namespace, as sock_diag lists them.

use std::collections::BTreeSet;

use hitless_kernel::fuzz::{select, sockets};
use hitless_kernel::{Connection, Listener, TcpState, classify};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "sock_diag", run, seeds, words: &[] };

/// Number of the request that both dumps answer.
const SEQUENCE: u32 = 1;
/// No message is shorter than its header.
const HEADER: usize = 16;

fn seeds() -> Vec<Vec<u8>> {
    let (listen, open) = (
        &include_bytes!("../../../../crates/kernel/tests/fixtures/listen.bin")[..],
        &include_bytes!("../../../../crates/kernel/tests/fixtures/open.bin")[..],
    );
    vec![listen.to_vec(), open.to_vec(), [listen, open].concat(), open[..open.len() / 2].to_vec()]
}

/// What is listed up to the first fault.
fn listed(datagram: &[u8]) -> Vec<Option<Connection>> {
    sockets(datagram, SEQUENCE).map_while(Result::ok).collect()
}

fn run(data: &[u8]) {
    let messages: Vec<_> = sockets(data, SEQUENCE).take(data.len() + 2).collect();
    assert!(messages.len() <= data.len() / HEADER + 1, "{} messages in {} bytes", messages.len(), data.len());
    let fault = messages.iter().position(Result::is_err);
    assert!(fault.is_none_or(|at| at + 1 == messages.len()), "something follows a fault");

    let all = listed(data);
    for cut in [data.len() / 2, data.len().saturating_sub(1)] {
        let some = listed(&data[..cut]);
        assert!(all.starts_with(&some), "cut off after {cut} bytes it says {some:?}, and the whole {all:?}");
    }
    check(all.into_iter().flatten().collect());
}

/// Sorted as production does: only connections from outside to somebody who listens, each once.
fn check(sockets: Vec<Connection>) {
    let (listening, open): (Vec<_>, Vec<_>) = sockets.into_iter().partition(|socket| socket.state == TcpState::Listen);
    let listener = |socket: Connection| Listener {
        addr: socket.local,
        inode: socket.inode,
        queued: socket.rqueue,
        backlog: socket.wqueue,
    };
    let listening: Vec<Listener> = listening.into_iter().map(listener).collect();
    let ports: BTreeSet<u16> = listening.iter().map(|listener| listener.addr.port()).collect();
    let selected = select(listening, open);
    let mut cookies = BTreeSet::new();
    for connection in selected.inbound.iter().chain(&selected.half_closed) {
        assert!(ports.contains(&connection.local.port()), "nobody listens there: {connection:?}");
        assert!(!connection.peer.ip().is_loopback() && connection.peer.ip() != connection.local.ip(), "{connection:?}");
        assert!(cookies.insert(connection.cookie), "twice: {connection:?}");
        for address in [connection.local, connection.peer] {
            assert_eq!(address.ip().to_canonical(), address.ip(), "an IPv4 address that is written as IPv6");
        }
        let _ = (classify(connection), connection.silent_for(), connection.unused_for());
    }
}
