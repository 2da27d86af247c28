//! `cargo xtask sim`: the deterministic simulation of tests/sim, built with optimisation.

use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::Args;
use hitless_e2e::build::cargo;

/// Runs the real controller and agent cores in a simulated cluster with faults, and checks what must always hold.
#[derive(Args)]
pub(crate) struct Sim {
    /// Replays one seed, and prints everything that happens in it.
    #[arg(long, conflicts_with_all = ["rollouts", "fleet"])]
    seed: Option<u64>,
    /// Rollouts to run, on all cores.
    #[arg(long, default_value_t = 10_000)]
    rollouts: u64,
    /// The first seed; absent: seeds of all kinds of clusters take turns.
    #[arg(long)]
    from: Option<u64>,
    /// Rolls a fleet of 150,000 pods on 5,000 nodes instead.
    #[arg(long, conflicts_with = "rollouts")]
    fleet: bool,
    #[command(flatten)]
    set: SetOptions,
    /// Looks for all deliberate bugs instead, of which `cargo xtask test` takes a sixth by commit.
    #[arg(long, conflicts_with_all = ["seed", "rollouts", "from", "fleet"])]
    mutants: bool,
}

/// One set of pods instead of a fleet.
#[derive(Args)]
pub(crate) struct SetOptions {
    /// With `--fleet`: one CollaSet of 1,000 pods instead, made, brought to another image, and made anew.
    #[arg(long, requires = "fleet")]
    colla_set: bool,
    /// The same with a CloneSet.
    #[arg(long, requires = "fleet", conflicts_with = "colla_set")]
    clone_set: bool,
}

pub(crate) fn run(options: &Sim) -> anyhow::Result<ExitCode> {
    let mut simulation = cargo();
    if options.mutants {
        simulation.args(["test", "--locked", "--profile", "sim", "-p", "hitless-sim", "--test", "mutants"]);
        return outcome(simulation);
    }
    simulation.args(["run", "--quiet", "--locked", "--profile", "sim", "-p", "hitless-sim", "--"]);
    match options.seed {
        Some(seed) => simulation.args(["--seed", &seed.to_string()]),
        None if options.set.colla_set => simulation.args(["--fleet", "--colla-set"]),
        None if options.set.clone_set => simulation.args(["--fleet", "--clone-set"]),
        None if options.fleet => simulation.arg("--fleet"),
        None => {
            let from = options.from.map(|from| ["--from".to_owned(), from.to_string()]);
            simulation.args(["--rollouts", &options.rollouts.to_string()]).args(from.into_iter().flatten())
        }
    };
    outcome(simulation)
}

fn outcome(mut simulation: Command) -> anyhow::Result<ExitCode> {
    let status = simulation.status().context("cargo, for hitless-sim")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
