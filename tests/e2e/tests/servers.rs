//! Servers that nobody here wrote lose no request: each alone in a Hold, and three that leave one after the other.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::ensure;
use hitless_e2e::Stack;
use hitless_e2e::servers::{Outcome, Server, Way, upgrade};

/// One server at a time: what is measured is not how many of them a machine can start at once.
static MACHINE: Mutex<()> = Mutex::new(());

/// Both ways at the same time, and what clients that follow HTTP/1.1 must have seen.
fn loses_nothing(name: &str) -> anyhow::Result<()> {
    let _turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let stack = Stack::attach()?;
    let server = Server::named(name)?;
    server.push(&stack.cluster)?;
    let upgraded = |way| {
        let stack = &stack;
        move || -> anyhow::Result<Outcome> { upgrade(stack, server, way) }
    };
    let (held, left) = thread::scope(|scope| {
        let held = scope.spawn(upgraded(Way::Hold));
        let left = scope.spawn(upgraded(Way::Leave));
        (held.join(), left.join())
    });
    for outcome in [held, left] {
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
    loses_nothing("nginx")
}

#[test]
fn haproxy_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("haproxy")
}

#[test]
fn caddy_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("caddy")
}

#[test]
fn node_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("node")
}

#[test]
fn gunicorn_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("gunicorn")
}

#[test]
fn uvicorn_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("uvicorn")
}

#[test]
fn jetty_loses_no_request() -> anyhow::Result<()> {
    loses_nothing("jetty")
}
