//! `cargo xtask test`: all tests, from nothing. What CI runs.
//!
//! Two cores are enough if none of them idles: Go and Rust are built side by side, and what needs processors for long runs below
//! the end-to-end tests, which mostly wait.

mod again;
mod binaries;
mod circles;
mod deny;
mod e2e;
mod failures;
mod minutes;
mod pressure;
mod space;

use std::collections::VecDeque;
use std::process::{Command, ExitCode};
use std::thread::ScopedJoinHandle;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use hitless_cluster::missing_requirements;
use hitless_e2e::build::{Programs, workspace};

use crate::options::{Made, arguments};

use binaries::{Binary, Job, cargo_below, long_jobs, run_all};
use minutes::{Minutes, Output, below, idle};

/// Runs all tests.
#[derive(Args)]
pub(crate) struct Test {
    /// Only this part.
    #[arg(value_enum)]
    part: Option<Part>,
    /// Only end-to-end tests of the file with this name, or those whose name contains this.
    filter: Option<String>,
    /// Leave the cluster of the end-to-end tests up.
    #[arg(long)]
    keep: bool,
    /// What the cluster of the end-to-end tests is made of. On Kubernetes without mutating admission policies `refusing` runs alone.
    #[command(flatten)]
    made: Made,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Format, lints, licences.
    Lint,
    /// Unit, property and model tests; tests on network namespaces and of the cluster itself where there is root.
    Unit,
    /// End-to-end tests on a real cluster.
    E2e,
}

/// Test binaries that run at a time if they need nothing but processors: one of them often has a single thread to do.
const LONG_AT_A_TIME: usize = 2;

pub(crate) fn run(options: &Test) -> anyhow::Result<ExitCode> {
    let missing = missing_requirements();
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(|what| format!("  - {}: {}", what.what, what.why)).collect();
        ensure!(
            std::env::var_os("CI").is_none(),
            "CI is set, so no test may be left out, but this machine lacks:\n{}",
            list.join("\n")
        );
        eprintln!("Without the following some tests are left out, see the end:\n{}", list.join("\n"));
    }
    let minutes = Minutes::start();
    let outcome = parts(options, &minutes, missing.is_empty());
    eprintln!("\n{}", minutes.table());
    let left_out = outcome?;
    let failed = minutes.failed();
    if !failed.is_empty() {
        let told: Vec<String> = failed.iter().map(|name| with_words(name)).collect();
        let notes: Vec<String> = minutes.notes().iter().map(|note| format!("\n{note}")).collect();
        bail!("these failed, see their output above:\n  - {}{}", told.join("\n  - "), notes.concat());
    }
    if !left_out.is_empty() {
        eprintln!("\nLeft out, because this machine lacks what is listed above:\n  - {}", left_out.join("\n  - "));
    }
    let set_aside = minutes.set_aside_of_all();
    if !set_aside.is_empty() {
        eprintln!("\nFailed while the machine was busy, and passed alone:\n  - {}", set_aside.join("\n  - "));
    }
    eprintln!("\ncargo xtask test: everything passed");
    Ok(ExitCode::SUCCESS)
}

/// A step that has failed, and the first words of each of its tests that has.
fn with_words(step: &str) -> String {
    let output = minutes::log(step).and_then(|path| Ok(std::fs::read_to_string(path)?)).unwrap_or_default();
    let told = failures::told(&output).into_iter().map(|words| format!("\n      {words}"));
    told.fold(step.to_owned(), |all, words| all + &words)
}

/// Runs the parts that are wanted; returns what was left out. An error ends everything; a test that fails stands in the table,
/// and the others go on.
fn parts(options: &Test, minutes: &Minutes, privileged: bool) -> anyhow::Result<Vec<String>> {
    let wanted = |part: Part| options.part.is_none_or(|only| only == part);
    if wanted(Part::Lint) {
        quick_lints(minutes)?;
    }
    let cluster = privileged && (wanted(Part::Unit) || wanted(Part::E2e));
    if cluster {
        minutes.work("system packages", || Ok(hitless_cluster::ensure_packages(&|line| minutes.say(line))?))?;
    }
    // From here on the processors are busy until the last test has ended.
    std::thread::scope(|scope| {
        let kubernetes = cluster.then(|| scope.spawn(|| prepare_cluster(minutes, options, wanted(Part::E2e))));
        let binaries = if wanted(Part::Unit) || wanted(Part::E2e) {
            binaries::build(minutes, options.part == Some(Part::E2e))?
        } else {
            Vec::new()
        };
        // Before anything that has the directory of the tests' build to itself for long.
        if privileged && wanted(Part::E2e) {
            minutes.step("build the plugin", Output::Shown, &mut hitless_e2e::build::plugin())?;
        }
        let mut long = if wanted(Part::Unit) { long_jobs(&binaries)? } else { VecDeque::new() };
        if wanted(Part::Lint) {
            long.push_front(clippy());
        }
        if privileged && wanted(Part::E2e) && options.filter.as_deref().is_none_or(|filter| filter == e2e::HELM) {
            long.push_back(build_helm()?);
        }
        // From here to the end, on what the others leave: a program is linked on one processor, and most tests wait.
        let mut long = Some(scope.spawn(move || run_all(minutes, long, LONG_AT_A_TIME)));
        let programs = if privileged && wanted(Part::E2e) { Some(build_programs(minutes)?) } else { None };
        let short = binaries.iter().filter(|binary| binary.long().is_none() && !binary.is_end_to_end());
        let (short, left_out): (Vec<&Binary>, Vec<&Binary>) =
            short.partition(|binary| privileged || !binary.is_privileged());
        let mut left_out: Vec<String> = left_out.into_iter().map(Binary::title).collect();
        // The test of the cluster itself comes last: it takes longest.
        let (of_cluster, others): (Vec<&Binary>, Vec<&Binary>) =
            short.into_iter().partition(|binary| binary.is_privileged() && binary.package == "tests/cluster");
        // Some of the short ones watch real time, so they run one by one.
        if wanted(Part::Unit) {
            run_all(minutes, jobs(&others)?, 1);
        }
        if let Some(kubernetes) = kubernetes {
            kubernetes.join().map_err(|_panicked| anyhow::anyhow!("a thread panicked, see above"))??;
        }
        if wanted(Part::Unit) {
            run_all(minutes, jobs(&of_cluster)?, 1);
        }
        let mut alone = || match long.take().map(ScopedJoinHandle::join) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(_panicked)) => bail!("a thread panicked, see above"),
        };
        match programs {
            Some(programs) => e2e::run(options, minutes, programs, &binaries, &mut alone)?,
            None if wanted(Part::E2e) => left_out.push("the end-to-end tests on a real cluster".to_owned()),
            None => {}
        }
        if wanted(Part::Unit) {
            let short: Vec<&Binary> = others.into_iter().chain(of_cluster).collect();
            again::run(minutes, &short, &mut alone, job)?;
        }
        Ok(left_out)
    })
}

/// What is known within seconds ends everything.
fn quick_lints(minutes: &Minutes) -> anyhow::Result<()> {
    let mut format = Command::new("cargo");
    format.args(["fmt", "--all", "--check"]).current_dir(workspace());
    minutes.step("cargo fmt", Output::Shown, &mut format)?;
    let allowed = minutes.work("licences, bans and sources", deny::check)?;
    minutes.say(&allowed);
    let largest = minutes.work("circles of imports", circles::check)?;
    minutes.say(&largest);
    Ok(())
}

fn clippy() -> Job {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    ("cargo clippy".to_owned(), cargo_below(&arguments))
}

/// Below all others, because the tests of the chart come last.
fn build_helm() -> anyhow::Result<Job> {
    let own = std::env::current_exe().context("the path of this program")?;
    let mut build = idle(&own.to_string_lossy());
    build.args(["cluster", "build-helm"]);
    Ok(("build Helm".to_owned(), build))
}

/// Everything that a cluster is made of, and what the end-to-end tests put on it, beside the builds of Rust.
fn prepare_cluster(minutes: &Minutes, options: &Test, servers: bool) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("the path of this program")?;
    // Below Rust's builds and the short tests, above what runs for long: the end-to-end tests wait for it.
    let mut build = below(10, &own.to_string_lossy());
    build.args(["cluster", "build"]).args(arguments(options.made.options()));
    minutes.step("build Kubernetes", Output::Kept, &mut build)?;
    if servers {
        let fetch = || hitless_e2e::servers::fetch_all(&|line| minutes.say(line));
        minutes.work("fetch other people's servers", fetch)?;
    }
    Ok(())
}

/// hitless as it is shipped, and what the end-to-end tests run beside it.
fn build_programs(minutes: &Minutes) -> anyhow::Result<Programs> {
    for (name, mut command) in Programs::commands() {
        minutes.step(&format!("build {name}"), Output::Shown, &mut command)?;
    }
    Programs::existing()
}

fn jobs(binaries: &[&Binary]) -> anyhow::Result<VecDeque<Job>> {
    binaries.iter().map(|binary| job(binary)).collect()
}

fn job(binary: &Binary) -> anyhow::Result<Job> {
    Ok((binary.title(), binary.command(|program| Ok(Command::new(program)))?))
}
