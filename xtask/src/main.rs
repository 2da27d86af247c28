//! The repository's own commands: `cargo xtask <verb>`. One file a verb.

mod bench;
mod chart;
mod cluster;
mod demo;
mod features;
mod fuzz;
mod generate;
mod options;
#[cfg(test)]
mod pages;
mod sim;
mod soak;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The repository's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Figures, beside a baseline of the same run.
    Bench(bench::Bench),
    /// A real Kubernetes of several nodes on this machine.
    Cluster(cluster::Cluster),
    /// Upgrades a Deployment in place under load, for a person to watch.
    Demo(demo::Demo),
    /// Inputs that a fuzzer makes up, for all that reads what others have written.
    Fuzz(fuzz::Fuzz),
    /// Writes the files that are made from code.
    Generate,
    /// The real controller and agent cores in a simulated cluster with faults.
    Sim(sim::Sim),
    /// Rollouts one after another under load, with faults at random.
    Soak(soak::Soak),
    /// All tests, from nothing.
    Test(test::Test),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Bench(options) => bench::run(&options),
        Verb::Cluster(verb) => cluster::run(verb),
        Verb::Demo(options) => demo::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Generate => generate::run(),
        Verb::Sim(options) => sim::run(&options),
        Verb::Soak(options) => soak::run(&options),
        Verb::Test(options) => test::run(&options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
