//! Ports of the client.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use hitless_load::{FailureKind, Load, LoadConfig};
use tokio::net::TcpSocket;

use super::{only_fresh, until};

/// In `/proc/net/tcp`.
const SYN_SENT: &str = "02";

/// Sockets of this process that have sent a SYN to that port and have no answer.
fn unanswered(port: u16) -> usize {
    let peer = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(2).is_some_and(|to| to.ends_with(&peer)) && fields.get(3) == Some(&SYN_SENT))
        .count()
}

#[tokio::test]
async fn a_port_whose_syn_was_not_answered_is_not_used_again() {
    // Its queue is full at once, and then the kernel drops SYNs.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = socket.listen(0).unwrap();
    let target = listener.local_addr().unwrap();
    let load = Load::start(LoadConfig { timeout: Duration::from_millis(50), ..only_fresh(target) }).unwrap();
    until(&load, |report| report.fresh.failed >= 12).await;
    let report = load.snapshot();
    assert!(report.failures.iter().all(|failure| failure.kind == FailureKind::Timeout), "{:?}", report.failures);
    // Some two are under way at any time.
    let waiting = unanswered(target.port());
    assert!(waiting >= 8, "{waiting} ports are kept");
    drop(load);
}
