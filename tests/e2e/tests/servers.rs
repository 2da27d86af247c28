//! Servers that nobody here wrote lose no request: each alone in a Hold, and three that leave one after the other.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::ensure;
use hitless_e2e::Stack;
use hitless_e2e::servers::{Outcome, Server, Way, upgrade};

/// One server at a time: what is measured is not how many of them a machine can start at once.
static MACHINE: Mutex<()> = Mutex::new(());

const BOTH: [Way; 2] = [Way::Hold, Way::Leave];

/// All ways at the same time, and what clients that follow HTTP/1.1 must have seen.
fn loses_nothing(name: &str, ways: &[Way]) -> anyhow::Result<()> {
    let _turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let stack = Stack::attach()?;
    let server = Server::named(name)?;
    server.push(&stack.cluster)?;
    let outcomes = thread::scope(|scope| {
        let upgrades: Vec<_> = ways.iter().map(|way| scope.spawn(|| upgrade(&stack, server, *way))).collect();
        upgrades.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for outcome in outcomes {
        let outcome = outcome.map_err(|_panicked| anyhow::anyhow!("a thread panicked, see above"))??;
        println!("{}", serde_json::to_string(&outcome)?);
        let Outcome { way, seen, .. } = &outcome;
        ensure!(seen.failed_fresh == 0, "{way}: requests on fresh connections failed: {:?}", seen.failures);
        ensure!(seen.failed_keepalive == 0, "{way}: requests on kept-alive connections failed: {:?}", seen.failures);
        ensure!(seen.pods_recreated == 0, "{way}: {} pods were made anew", seen.pods_recreated);
        ensure!(seen.versions == ["v1", "v2"], "{way}: answers came from {:?}", seen.versions);
    }
    Ok(())
}

#[test]
fn nginx_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("nginx", &BOTH)
}

#[test]
fn haproxy_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("haproxy", &BOTH)
}

#[test]
fn caddy_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("caddy", &BOTH)
}

#[test]
fn node_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("node", &BOTH)
}

#[test]
fn gunicorn_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("gunicorn", &BOTH)
}

#[test]
fn uvicorn_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("uvicorn", &BOTH)
}

/// How long a Java process takes to start depends on the machine, so it is not held here; the benchmark does it.
#[test]
fn jetty_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("jetty", &[Way::Leave])
}
