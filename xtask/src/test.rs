//! `cargo xtask test`: all tests, from nothing. What CI runs.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_cluster::{Cluster, Place, UpOptions, missing_requirements};
use hitless_e2e::Stack;
use hitless_e2e::build::{Programs, workspace};
use hitless_e2e::stack::{CLUSTER, TIMES};

/// Runs all tests.
#[derive(Args)]
pub(crate) struct Test {
    /// Only this part.
    #[arg(value_enum)]
    part: Option<Part>,
    /// Only end-to-end tests whose name contains this.
    filter: Option<String>,
    /// Leave the cluster of the end-to-end tests up.
    #[arg(long)]
    keep: bool,
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

/// Version of cargo-deny that is installed into `.cache/tools` when it is not there.
const CARGO_DENY: &str = "0.20.2";
/// Packages with tests that need root, and what they are.
const PRIVILEGED: [(&str, &str); 3] = [
    ("hitless-kernel", "tests on real network namespaces"),
    ("hitless-cluster", "the test that brings a cluster up and down"),
    ("hitless-e2e", "the end-to-end tests on a real cluster"),
];

pub(crate) fn run(options: &Test) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let wanted = |part: Part| options.part.is_none_or(|only| only == part);
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
    if wanted(Part::Lint) {
        lint()?;
    }
    if wanted(Part::Unit) {
        unit(missing.is_empty())?;
    }
    if wanted(Part::E2e) && missing.is_empty() {
        e2e(options)?;
    }
    if !missing.is_empty() {
        eprintln!("\nLeft out, because this machine lacks what is listed above:");
        for (package, what) in PRIVILEGED {
            eprintln!("  - {package}: {what}");
        }
    }
    eprintln!("\ncargo xtask test: everything passed in {:.1} minutes", begin.elapsed().as_secs_f64() / 60.0);
    Ok(ExitCode::SUCCESS)
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    step(Command::new("cargo").args(arguments).current_dir(workspace()), &format!("cargo {}", arguments.join(" ")))
}

/// Runs one step with its own output, and says how long it took.
fn step(command: &mut Command, name: &str) -> anyhow::Result<()> {
    eprintln!("\n== {name}");
    let begin = Instant::now();
    let status = command.status().with_context(|| name.to_owned())?;
    ensure!(status.success(), "{name} failed with {status}");
    eprintln!("== {name}: {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

fn lint() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    let root = workspace().join(".cache/tools");
    let deny = root.join("bin/cargo-deny");
    let version = Command::new(&deny)
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|version| version.contains(CARGO_DENY)) {
        let root = root.to_string_lossy().into_owned();
        cargo(&["install", "--quiet", "--locked", "--root", &root, &format!("cargo-deny@{CARGO_DENY}")])?;
    }
    let mut check = Command::new(&deny);
    check.args(["--log-level", "error", "check", "licenses", "bans", "sources"]).current_dir(workspace());
    step(&mut check, "cargo deny check licenses bans sources")
}

fn unit(privileged: bool) -> anyhow::Result<()> {
    if privileged {
        hitless_cluster::ensure_packages(&|line| eprintln!("{line}"))?;
    }
    let mut arguments = vec!["test", "--workspace", "--locked", "--exclude", "hitless-e2e"];
    if !privileged {
        for (package, _) in &PRIVILEGED[..2] {
            arguments.extend(["--exclude", package]);
        }
    }
    cargo(&arguments)?;
    cargo(&["test", "--locked", "-p", "hitless-e2e", "--lib"])?;
    if !privileged {
        cargo(&["test", "--locked", "-p", "hitless-kernel", "-p", "hitless-cluster", "--lib"])?;
    }
    Ok(())
}

fn e2e(options: &Test) -> anyhow::Result<()> {
    let name = "e2e";
    eprintln!("\n== building hitless as shipped");
    let programs = Programs::build()?;
    cargo(&["test", "--locked", "-p", "hitless-e2e", "--no-run"])?;
    eprintln!("\n== fetching other people's servers");
    hitless_e2e::servers::fetch_all(&|line| eprintln!("{line}"))?;
    eprintln!("\n== bringing up cluster {name}");
    let cluster = Arc::new(Cluster::up(&UpOptions { name: name.to_owned(), nodes: 2 }, &|line| eprintln!("{line}"))?);
    let outcome = install_and_test(options, &cluster, programs);
    if options.keep {
        eprintln!("The cluster {name} is left up: `cargo xtask cluster exec --name {name} -- kubectl get pods -A`");
    } else {
        Cluster::down(name)?;
    }
    outcome
}

fn install_and_test(options: &Test, cluster: &Arc<Cluster>, programs: Programs) -> anyhow::Result<()> {
    eprintln!("\n== installing hitless");
    let stack = Stack::install_on(Arc::clone(cluster), programs)?;
    let times = workspace().join(".cache/e2e-times");
    std::fs::write(&times, "")?;
    // The tests talk to the API server themselves, so they run in the control plane's network namespace. Nothing is
    // downloaded there: everything was built before.
    let mut tests = stack.cluster.command(Place::ControlPlane, "cargo")?;
    tests.args(["test", "--locked", "--offline", "--no-fail-fast", "-p", "hitless-e2e", "--tests", "--"]);
    tests.args(["--test-threads", "3"]).args(&options.filter);
    tests.env(CLUSTER, stack.cluster.name()).env(TIMES, &times).current_dir(workspace());
    let outcome = step(&mut tests, "end-to-end tests");
    let mut rows: Vec<String> = std::fs::read_to_string(&times)?.lines().map(str::to_owned).collect();
    rows.sort();
    eprintln!("\nSeconds of each end-to-end test:\n{}", rows.join("\n"));
    outcome
}
