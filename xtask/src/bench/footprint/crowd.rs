//! What an agent needs for very many connections of one pod. The measuring program is `agent/tests/crowd`: the observer, in a process of
//! its own, looks at a pod in network namespaces, and closes all of its connections. No process may open as many files as a server in
//! the cluster would have to.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use hitless_e2e::build::cargo;
use serde::{Deserialize, Serialize};

/// What the measuring program prints.
#[derive(Deserialize, Serialize)]
pub(super) struct Crowd {
    pub(super) connections: u32,
    /// Resident memory before.
    pub(super) before_kib: u64,
    /// The most beyond that, while they were counted and closed.
    pub(super) grown_kib: u64,
    /// From the first look for idle ones to the last one's end.
    pub(super) closing_seconds: f64,
}

pub(super) fn measure(connections: u32) -> anyhow::Result<Crowd> {
    let mut cargo = cargo();
    // Without optimisation it is the compiler that is measured.
    cargo.args(["test", "--profile", "bench", "-p", "hitless-agent", "--test", "crowd", "--", "measure"]);
    cargo.arg(connections.to_string());
    let output = cargo.stderr(Stdio::inherit()).output().context("cargo test")?;
    ensure!(output.status.success(), "the measuring program failed");
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("the measuring program printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("unexpected: {line}"))
}
