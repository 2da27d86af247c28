//! The reference server replaced under load: the naive one must lose requests, or the load proves nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hitless_load::server::{Mode, ServerConfig, serve};
use hitless_load::{FailureKind, Load, LoadConfig, Report};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::until;

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(version: &str, mode: Mode, address: Option<SocketAddr>) -> Server {
    let listener = TcpListener::bind(address.unwrap_or((Ipv4Addr::LOCALHOST, 0).into())).await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = ServerConfig {
        version: version.to_owned(),
        hostname: "web-0".to_owned(),
        start_id: format!("1-{version}"),
        mode,
        ..ServerConfig::read(|_| None).unwrap()
    };
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(listener, config, shutdown.clone()));
    Server { address, shutdown, task }
}

impl Server {
    async fn end(self) -> SocketAddr {
        self.shutdown.cancel();
        self.task.await.unwrap();
        self.address
    }
}

/// v1 is ended under load, stays away until clients have been refused, and v2 takes its place.
async fn replace_under_load(mode: Mode) -> Report {
    let v1 = start("v1", mode, None).await;
    let config = LoadConfig { server_delay: Duration::from_millis(20), ..LoadConfig::new([v1.address]) };
    let load = Load::start(config).unwrap();
    until(&load, |report| report.fresh.answered >= 20 && report.keepalive.answered >= 20).await;
    let address = v1.end().await;
    until(&load, |report| report.fresh.failed_kinds.contains_key(&FailureKind::Refused)).await;
    let v2 = start("v2", mode, Some(address)).await;
    until(&load, |report| report.versions.get("v2").is_some_and(|seen| seen.answers >= 40)).await;
    let report = load.finish().await;
    v2.end().await;
    report
}

fn assert_consistent(report: &Report) {
    assert!(report.finished);
    for class in [&report.fresh, &report.keepalive] {
        assert_eq!(class.outstanding(), 0);
        assert_eq!(class.requests, class.answered + class.failed);
        assert!(class.failed <= class.failed_unretried);
        assert_eq!(class.failed, class.failed_kinds.values().sum::<u64>());
        assert_eq!(class.failed_unretried, class.failed_unretried_kinds.values().sum::<u64>());
    }
    let answered = report.fresh.answered + report.keepalive.answered;
    for names in [&report.versions, &report.pods, &report.instances] {
        assert_eq!(names.values().map(|seen| seen.answers).sum::<u64>(), answered);
    }
}

#[tokio::test]
async fn a_naive_server_loses_requests_and_they_are_seen() {
    let report = replace_under_load(Mode::Naive).await;
    assert_consistent(&report);
    // Two requests of each class were under way in the server when it was cut off, and clients were refused after.
    assert!(report.fresh.failed >= 2, "{report:?}");
    assert!(report.keepalive.failed_unretried >= 1, "{report:?}");
    assert!(report.fresh.failed_kinds.keys().any(|kind| matches!(kind, FailureKind::Reset | FailureKind::Eof)));
    let window = report.fresh.failed_window.unwrap();
    let due = report.fresh.failed_due.unwrap();
    assert!(
        due.first_ms == window.first_ms && due.last_ms <= window.last_ms && due.last_ms > due.first_ms,
        "{due:?} {window:?}"
    );
    let (v1, v2) = (report.versions["v1"], report.versions["v2"]);
    assert!(v1.last_ms <= v2.first_ms, "{v1:?} {v2:?}");
    assert!(window.last_ms >= v1.last_ms && window.first_ms <= v2.first_ms, "{window:?}");
    assert!(report.longest_pause.length_ms >= v2.first_ms - v1.last_ms, "{:?}", report.longest_pause);
    assert_eq!(report.pods.keys().collect::<Vec<_>>(), ["web-0"]);
    assert_eq!(report.instances.keys().collect::<Vec<_>>(), ["web-0/1-v1", "web-0/1-v2"]);
}

#[tokio::test]
async fn a_graceful_server_finishes_what_is_under_way() {
    let report = replace_under_load(Mode::Graceful).await;
    assert_consistent(&report);
    // A request that crosses the FIN on its way is broken once and retried, as on any HTTP/1.1 server.
    let broken = |kind: &FailureKind| matches!(kind, FailureKind::Reset | FailureKind::Eof | FailureKind::Timeout);
    assert!(!report.keepalive.failed_kinds.keys().any(broken), "{report:?}");
    assert!(report.keepalive.reopened >= 1, "{report:?}");
}

#[tokio::test]
async fn a_run_ends_by_itself_and_sends_what_was_due() {
    let server = start("v1", Mode::Naive, None).await;
    let config = LoadConfig { duration: Duration::from_millis(500), ..LoadConfig::new([server.address]) };
    let load = Load::start(config).unwrap();
    load.ended().await;
    let report = load.snapshot();
    assert_consistent(&report);
    assert_eq!((report.fresh.requests, report.keepalive.requests, report.failed_unretried()), (50, 50, 0));
    assert_eq!((report.fresh.opened, report.keepalive.opened), (50, 10), "every kept-alive connection is used");
    assert!(report.fresh.latency.p50_ms > 0.0 && report.fresh.latency.p50_ms <= report.fresh.latency.max_ms);
    server.end().await;
}
