//! `cargo xtask bench`: figures, always beside a baseline of the same run. Machines are noisy: compare ratios, not seconds.

mod applications;
mod drain;
mod footprint;
mod gate;
mod hold;
mod images;
mod process;
mod restarts;
mod rollout;
mod round;
mod servers;
mod sidecars;
mod spread;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::ensure;
use clap::{Args, Subcommand};
use hitless_cluster::{Cluster, missing_requirements};
use hitless_e2e::Stack;
use hitless_e2e::build::Programs;

use crate::options::Made;

/// Measures.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
    /// Print one JSON object as the last line.
    #[arg(long, global = true)]
    json: bool,
    /// Leave the cluster up.
    #[arg(long, global = true)]
    keep: bool,
    /// The name of the cluster; one that is up already is used as it is.
    #[arg(long, global = true, default_value = "bench")]
    cluster: String,
    #[command(flatten)]
    made: Made,
}

#[derive(Subcommand)]
enum What {
    /// Three replicas one at a time under load: hitless, raw image patches, native rolling update.
    Rollout(rollout::Rollout),
    /// Single replicas that are held while their container is replaced, on a quiet machine and on a busy one, beside image
    /// patches by hand.
    Hold(hold::Hold),
    /// Downloads, websockets and gRPC streams that pods are drained of.
    Drain(drain::Drain),
    /// One pod restarted again and again: none waits for the kubelet's back-off.
    Restarts(restarts::Restarts),
    /// New images that cannot be pulled, come slowly, crash, never get ready or start slowly: pods that leave service, failed
    /// requests, seconds until the reason is on the workload; beside the native rolling update.
    Images(images::Images),
    /// Memory and CPU of agent and controller when nothing happens, and sizes of the binaries.
    Footprint(footprint::Footprint),
    /// Other people's applications, each beside its native rollout in the same run: failed requests, longest time without service,
    /// seconds, rollouts that got stuck and successes that were none.
    Applications(applications::Applications),
    /// nginx, HAProxy and others: failed requests by server and way of upgrading it.
    Servers(servers::Servers),
    /// Time of the API server for a pod with none, 1, 50 and 200 SidecarSets, of which one selects it.
    Sidecars(sidecars::Sidecars),
    /// Memory and time of the gate with 150,000 pods, and memory for what is known of them; needs no cluster.
    Gate,
    /// Time of a decision beside a namespace with thousands of policies; needs no cluster.
    Round,
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match &bench.what {
        What::Rollout(options) => on_cluster(bench, |stack| rollout::run(options, stack, bench.json)),
        What::Hold(options) => on_cluster(bench, |stack| hold::run(options, stack, bench.json)),
        What::Drain(options) => on_cluster(bench, |stack| drain::run(options, stack, bench.json)),
        What::Restarts(options) => on_cluster(bench, |stack| restarts::run(options, stack, bench.json)),
        What::Images(options) => on_cluster(bench, |stack| images::run(options, stack, bench.json)),
        What::Footprint(options) => on_cluster(bench, |stack| footprint::run(options, stack, bench.json)),
        What::Applications(options) => {
            if let Some(names) = applications::list(options)? {
                println!("{names}");
                return Ok(ExitCode::SUCCESS);
            }
            applications::prepare(options)?;
            on_cluster(bench, |stack| applications::run(options, stack, bench.json))
        }
        What::Servers(options) => {
            servers::prepare(options)?;
            on_cluster(bench, |stack| servers::run(options, stack, bench.json))
        }
        What::Sidecars(options) => on_cluster(bench, |stack| sidecars::run(options, stack, bench.json)),
        What::Gate => gate::run(bench.json),
        What::Round => round::run(bench.json),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn on_cluster(bench: &Bench, measure: impl FnOnce(&Stack) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let missing = missing_requirements();
    ensure!(missing.is_empty(), "a benchmark needs a real cluster, and this machine lacks: {missing:?}");
    let programs = Programs::build()?;
    let cluster = Arc::new(Cluster::up(&bench.made.named(&bench.cluster), &|line| eprintln!("{line}"))?);
    let outcome = Stack::install_on(cluster, programs).and_then(|stack| measure(&stack));
    if !bench.keep {
        Cluster::down(&bench.cluster)?;
    }
    outcome
}
