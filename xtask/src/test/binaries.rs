//! All test binaries of the workspace, built once, and run one by one.
//!
//! One build with the features of the whole workspace: `cargo test -p PACKAGE` compiles whatever depends on a library with
//! other features once more.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use hitless_e2e::build::{as_from_a_shell, cargo, workspace};
use serde::Deserialize;

use super::minutes::{Minutes, Output, idle};

/// The directory of the end-to-end tests.
const E2E: &str = "tests/e2e";
/// Packages of which only the tests of the library run without root.
const PRIVILEGED: [&str; 2] = ["crates/kernel", "tests/cluster"];
/// What keeps processors busy for long, and has a clock of its own or none: it runs beside the end-to-end tests, which mostly wait, and
/// below them. The longest first.
const LONG: [(&str, &str); 7] = [
    ("controller", "simulation"),
    ("crates/workloads", "deployment"),
    ("crates/workloads", "colla_set"),
    ("crates/gate", "ledger_model"),
    ("crates/gate", "cluster_ledger_model"),
    ("crates/gate", "invariants"),
    ("crates/gate", "recount"),
];
/// Parts that the deliberate bugs of the simulation are looked for in.
const PARTS: u64 = 6;
/// Built in a profile of its own, in which two thousand clusters take a minute.
const SIMULATION: &str = "hitless-sim";

/// One test binary.
#[derive(Clone)]
pub(super) struct Binary {
    /// Directory of its package, below the workspace.
    pub(super) package: String,
    /// Its name: of a file below `tests`, or of the library or the program whose own tests it has.
    pub(super) name: String,
    /// A file below `tests`.
    pub(super) integration: bool,
    library: bool,
    executable: PathBuf,
}

/// A line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all of them, or the end-to-end tests alone, then with the same features.
pub(super) fn build(minutes: &Minutes, end_to_end_only: bool) -> anyhow::Result<Vec<Binary>> {
    let directory = workspace().join("target/xtask-test");
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let messages = directory.join("binaries.json");
    let mut cargo = cargo();
    // Not the examples: clippy looks at them, and nobody runs them here.
    cargo.args(["test", "--workspace", "--exclude", SIMULATION, "--locked", "--no-run", "--tests"]);
    cargo.arg("--message-format=json-render-diagnostics");
    cargo.stdout(File::create(&messages)?);
    if end_to_end_only {
        cargo.args(end_to_end_names()?.iter().flat_map(|name| ["--test", name]));
        minutes.step("build the end-to-end tests", Output::Shown, &mut cargo)?;
    } else {
        minutes.step("build all tests", Output::Shown, &mut cargo)?;
    }
    parse(&fs::read_to_string(&messages)?, &workspace())
}

/// Names of the end-to-end tests' binaries: each is a file, or a folder with a `main.rs`.
fn end_to_end_names() -> anyhow::Result<Vec<String>> {
    let directory = workspace().join(E2E).join("tests");
    let entries = fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?;
    let names = entries.map(|entry| Ok(entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()));
    names.collect()
}

fn parse(messages: &str, workspace: &Path) -> anyhow::Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).with_context(|| format!("cargo said {line}"))?;
        let (Some(manifest), Some(target), Some(executable)) =
            (message.manifest_path, message.target, message.executable)
        else {
            continue;
        };
        if message.reason != "compiler-artifact" || !message.profile.is_some_and(|profile| profile.test) {
            continue;
        }
        let package = manifest.parent().and_then(|directory| directory.strip_prefix(workspace).ok());
        let package = package.with_context(|| format!("{} is not in the workspace", manifest.display()))?;
        let is = |kind: &str| target.kind.iter().any(|one| one == kind);
        binaries.push(Binary {
            package: package.to_string_lossy().into_owned(),
            integration: is("test"),
            library: is("lib"),
            name: target.name,
            executable,
        });
    }
    binaries.sort_by(|a, b| (&a.package, a.integration, &a.name).cmp(&(&b.package, b.integration, &b.name)));
    Ok(binaries)
}

impl Binary {
    /// Its name for people.
    pub(super) fn title(&self) -> String {
        let what = if self.integration { "" } else { "unit tests of " };
        format!("{}: {what}{}", self.package, self.name)
    }

    /// Whether it is to run on the cluster of the end-to-end tests.
    pub(super) fn is_end_to_end(&self) -> bool {
        self.package == E2E && self.integration
    }

    /// Whether it can't run without root.
    pub(super) fn is_privileged(&self) -> bool {
        self.is_end_to_end() || PRIVILEGED.contains(&self.package.as_str()) && !self.library
    }

    /// Where it stands among what runs for long, if it does.
    pub(super) fn long(&self) -> Option<usize> {
        LONG.iter().position(|long| self.integration && *long == (self.package.as_str(), self.name.as_str()))
    }

    /// The command, as `cargo test` makes it, from one that runs a program.
    pub(super) fn command(&self, runs: impl FnOnce(&str) -> anyhow::Result<Command>) -> anyhow::Result<Command> {
        let directory = workspace().join(&self.package);
        let mut command = runs(&self.executable.to_string_lossy())?;
        command.current_dir(&directory).env("CARGO_MANIFEST_DIR", &directory);
        Ok(command)
    }
}

/// A step that is to run beside others: its name and its command.
pub(super) type Job = (String, Command);

/// What runs for long, and whatever cargo still has to do: below everything else, the longest first.
pub(super) fn long_jobs(binaries: &[Binary]) -> anyhow::Result<VecDeque<Job>> {
    let mut long: Vec<&Binary> = binaries.iter().filter(|binary| binary.long().is_some()).collect();
    long.sort_by_key(|binary| binary.long());
    let job = |binary: &&Binary| Ok((binary.title(), binary.command(|program| Ok(idle(program)))?));
    let mut jobs: VecDeque<Job> = long.iter().map(job).collect::<anyhow::Result<_>>()?;
    let mut simulation = cargo_below(&["test", "--locked", "--profile", "sim", "-p", SIMULATION]);
    if let Some(part) = part_of_the_bugs() {
        simulation.env("HITLESS_SIM_MUTANTS", part);
    }
    jobs.push_front(("the simulation and its deliberate bugs".to_owned(), simulation));
    jobs.push_back((
        "doc tests".to_owned(),
        cargo_below(&["test", "--workspace", "--exclude", SIMULATION, "--locked", "--doc"]),
    ));
    Ok(jobs)
}

/// Deliberate bugs of the simulation take turns, a part for each commit: all of them take a third of the processors' time of all tests.
/// Without a commit all are looked for.
fn part_of_the_bugs() -> Option<String> {
    Some(format!("{}/{PARTS}", commit()? % PARTS + 1))
}

/// The commit as a number, for what takes turns; none without one.
fn commit() -> Option<u64> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(workspace()).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    u64::from_str_radix(commit.get(..8)?, 16).ok()
}

/// cargo, below everything else.
pub(super) fn cargo_below(arguments: &[&str]) -> Command {
    let mut command = idle("cargo");
    command.args(arguments).current_dir(workspace());
    as_from_a_shell(command)
}

/// Runs jobs, the first one first and so many at a time. What fails stands in the table and stops nothing.
pub(super) fn run_all(minutes: &Minutes, jobs: VecDeque<Job>, at_a_time: usize) {
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        while let Some((name, mut command)) = next() {
            let _ = minutes.step(&name, Output::Kept, &mut command);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(work);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_what_cargo_says_and_told_apart() {
        let line = |package: &str, kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/{package}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/w/target/{name}"}}"#
            )
        };
        let messages = [
            r#"{"reason":"compiler-artifact","manifest_path":"/elsewhere/Cargo.toml","target":{"kind":["lib"],"name":"serde"},"profile":{"test":false},"executable":null}"#.to_owned(),
            line("crates/gate", "test", "recount", true),
            line("tests/load", "bin", "load", false),
            line("crates/kernel", "test", "pods", true),
            line("crates/kernel", "lib", "hitless_kernel", true),
            line("tests/e2e", "lib", "hitless_e2e", true),
            line("tests/e2e", "test", "faults", true),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let binaries = parse(&messages.join("\n"), Path::new("/w")).unwrap();
        let titles: Vec<String> = binaries.iter().map(Binary::title).collect();
        assert_eq!(
            titles,
            [
                "crates/gate: recount",
                "crates/kernel: unit tests of hitless_kernel",
                "crates/kernel: pods",
                "tests/e2e: unit tests of hitless_e2e",
                "tests/e2e: faults",
            ]
        );
        let which = |is: fn(&Binary) -> bool| binaries.iter().map(is).collect::<Vec<bool>>();
        assert_eq!(which(Binary::is_privileged), [false, false, true, false, true]);
        assert_eq!(which(Binary::is_end_to_end), [false, false, false, false, true]);
        assert_eq!(which(|binary| binary.long().is_some()), [true, false, false, false, false]);
    }

    #[test]
    fn what_is_said_to_run_for_long_is_there() {
        for (package, name) in LONG {
            let tests = workspace().join(package).join("tests");
            assert!(tests.join(format!("{name}.rs")).is_file() || tests.join(name).is_dir(), "{package} {name}");
        }
    }

    #[test]
    fn all_jobs_run_though_one_fails() {
        let minutes = Minutes::start();
        let job = |name: &str, program: &str| (format!("a self-test of jobs: {name}"), Command::new(program));
        run_all(&minutes, VecDeque::from([job("one", "true"), job("two", "false"), job("three", "true")]), 2);
        assert_eq!(minutes.failed(), ["a self-test of jobs: two"]);
        assert_eq!(minutes.table().matches("self-test of jobs").count(), 3);
    }
}
