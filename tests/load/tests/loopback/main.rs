//! Client against server over loopback: what is counted as what.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod outage;
mod ports;
mod retry;
mod script;

use std::net::SocketAddr;
use std::time::Duration;

use hitless_load::{Load, LoadConfig, Report};
use tokio::time::{interval, timeout};

/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Requests on one kept-alive connection only, so that a script knows which comes when.
fn one_connection(target: SocketAddr) -> LoadConfig {
    LoadConfig { fresh_per_second: 0, keepalive_connections: 1, keepalive_per_second: 50, ..LoadConfig::new([target]) }
}

/// Requests on fresh connections only.
fn only_fresh(target: SocketAddr) -> LoadConfig {
    LoadConfig { fresh_per_second: 50, keepalive_connections: 0, keepalive_per_second: 0, ..LoadConfig::new([target]) }
}

/// Runs until the counts are as wanted, then ends properly.
async fn run_until(config: LoadConfig, wanted: impl Fn(&Report) -> bool) -> Report {
    let load = Load::start(config).unwrap();
    until(&load, wanted).await;
    load.finish().await
}

async fn until(load: &Load, wanted: impl Fn(&Report) -> bool) {
    let mut ticks = interval(Duration::from_millis(2));
    let reached = timeout(PATIENCE, async {
        while !wanted(&load.snapshot()) {
            ticks.tick().await;
        }
    });
    assert!(reached.await.is_ok(), "never reached, stuck at {:?}", load.snapshot());
}
