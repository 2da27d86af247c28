//! Failed requests by server and way of upgrading it, for servers that nobody here wrote. What it prints is the table in
//! docs/draining.md.

use anyhow::ensure;
use clap::Args;
use hitless_e2e::Stack;
use hitless_e2e::servers::{Outcome, SERVERS, Server, Way, upgrade};
use serde::Serialize;

#[derive(Args)]
pub(super) struct Servers {
    /// How often each server is upgraded in each way.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Only this server.
    #[arg(long)]
    only: Option<String>,
}

#[derive(Serialize)]
struct Figures {
    outcomes: Vec<Outcome>,
}

/// Before a cluster is made: fetching takes the network, and may fail.
pub(super) fn prepare(options: &Servers) -> anyhow::Result<()> {
    ensure!(options.runs > 0, "--runs is 0: at least one is needed");
    servers(options)?.into_iter().try_for_each(|server| server.fetch(&|line| eprintln!("{line}")))
}

pub(super) fn run(options: &Servers, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    for server in servers(options)? {
        server.push(&stack.cluster)?;
        for way in [Way::Hold, Way::Leave, Way::NativeOne, Way::NativeThree] {
            for _ in 0..options.runs {
                let outcome = upgrade(stack, server, way)?;
                eprintln!("{}", row(&[&outcome]));
                for failure in &outcome.seen.failures {
                    eprintln!("  {failure:?}");
                }
                outcomes.push(outcome);
            }
        }
    }
    if json {
        println!("{}", serde_json::to_string(&Figures { outcomes })?);
        return Ok(());
    }
    println!("{HEAD}");
    for runs in outcomes.chunk_by(|one, other| (one.server, one.way) == (other.server, other.way)) {
        println!("{}", row(&runs.iter().collect::<Vec<_>>()));
    }
    Ok(())
}

fn servers(options: &Servers) -> anyhow::Result<Vec<&'static Server>> {
    match &options.only {
        Some(name) => Ok(vec![Server::named(name)?]),
        None => Ok(SERVERS.iter().collect()),
    }
}

const HEAD: &str = "| server | on SIGTERM | way | requests | failed, fresh | failed, kept alive | kept alive, not retried \
                    | longest pause, ms | gap, ms |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |";

/// One row of the table: sums of the failures, the longest of the times.
fn row(runs: &[&Outcome]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let sum = |of: fn(&Outcome) -> u64| runs.iter().map(|outcome| of(outcome)).sum::<u64>();
    let gap = runs.iter().filter_map(|outcome| outcome.gap_ms).max().map_or_else(String::new, |gap| gap.to_string());
    format!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} | {gap} |",
        first.server,
        upstream(&first.version),
        first.on_sigterm,
        first.way,
        sum(|outcome| outcome.seen.requests),
        sum(|outcome| outcome.seen.failed_fresh),
        sum(|outcome| outcome.seen.failed_keepalive),
        sum(|outcome| outcome.seen.failed_keepalive_unretried),
        runs.iter().map(|outcome| outcome.seen.longest_pause_ms).max().unwrap_or_default(),
    )
}

/// The upstream version in Debian's: `1:2.6.12-1+deb12u4` is 2.6.12.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_epoch, rest)| rest);
    let version = version.rsplit_once('-').map_or(version, |(upstream, _revision)| upstream);
    version.split('+').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::upstream;

    #[test]
    fn the_upstream_version_is_without_epoch_and_revision() {
        assert_eq!(upstream("1:2.6.12-1+deb12u4"), "2.6.12");
        assert_eq!(upstream("18.20.4+dfsg-1~deb12u3"), "18.20.4");
        assert_eq!(upstream("1.22"), "1.22");
    }
}
