//! The program with all targets: built with coverage, and run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use hitless_e2e::build::{cargo, workspace};

use super::finding::Finding;
use super::outcome::Outcome;

/// What `cargo fuzz build --sanitizer none` tells rustc: every edge counts how often it is taken, and what is compared is shown to
/// libFuzzer. The profile has the rest: overflows and assertions are checked, and a crate is one unit. A sanitizer of addresses would
/// need nightly, and there is no `unsafe` here.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "--cfg fuzzing",
];
const PROFILE: &str = "fuzz";
/// Seconds for one input: more is a finding.
const LONGEST_INPUT: u32 = 10;
/// Below everything else on the machine.
const NICE: &str = "10";

/// The program.
pub(super) struct Program {
    path: PathBuf,
    /// For all that is written.
    directory: PathBuf,
}

impl Program {
    pub(super) fn build() -> anyhow::Result<Self> {
        let directory = workspace().join("target/fuzz");
        // With a target, the flags are not for build scripts and macros.
        let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = cargo();
        cargo.args(["build", "--locked", "--package", "hitless-fuzz", "--bin", "fuzz", "--features", "libfuzzer"]);
        cargo.args(["--profile", PROFILE, "--target", &machine, "--target-dir"]).arg(directory.join("build"));
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", FLAGS.join(" "));
        let status = cargo.status().context("start cargo")?;
        ensure!(status.success(), "cargo could not build the fuzz targets");
        let path = directory.join("build").join(machine).join(PROFILE).join("fuzz");
        Ok(Self { path, directory })
    }

    /// Runs a target with libFuzzer. All that libFuzzer says is in a log.
    pub(super) fn fuzz(&self, target: &str, minutes: u32) -> anyhow::Result<Outcome> {
        let at = |what: &str| self.directory.join(what).join(target);
        let (corpus, findings, seeds) = (at("corpus"), at("findings"), at("seeds"));
        let (words, log) = (at("words").with_extension("dict"), at("log").with_extension("txt"));
        let parents = [words.parent(), log.parent()].into_iter().flatten();
        for directory in parents.chain([corpus.as_path(), findings.as_path()]) {
            fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        }
        let mut command = Command::new("nice");
        command.args(["-n", NICE]).arg(&self.path).env("HITLESS_FUZZ_TARGET", target);
        command.env("HITLESS_FUZZ_SEEDS", &seeds).env("HITLESS_FUZZ_DICTIONARY", &words);
        command.arg(format!("-max_total_time={}", u64::from(minutes) * 60));
        command.arg(format!("-timeout={LONGEST_INPUT}")).arg("-print_final_stats=1");
        command.arg(format!("-dict={}", words.display())).arg(format!("-artifact_prefix={}/", findings.display()));
        command.args([&corpus, &seeds]).current_dir(&self.directory);
        let file = File::create(&log).with_context(|| format!("write {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        let begin = Instant::now();
        let status = command.status().context("start nice")?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let findings =
            findings_in(&said).map(|path| Finding::read(target, path, &said)).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(
            status.success() || !findings.is_empty(),
            "the fuzzer of {target} ended with {status}; what it said is in {}",
            log.display()
        );
        Outcome::read(target, begin.elapsed(), &said, findings).with_context(|| log.display().to_string())
    }

    /// Runs a target once. Whether it holds.
    pub(super) fn repeat(&self, target: &str, input: &Path) -> anyhow::Result<bool> {
        let mut command = Command::new(&self.path);
        command.env("HITLESS_FUZZ_TARGET", target).env("RUST_BACKTRACE", "1").arg(input);
        command.arg(format!("-timeout={LONGEST_INPUT}"));
        let status = command.current_dir(&self.directory).status().context("start the fuzzer")?;
        Ok(status.success())
    }
}

/// The files with inputs that libFuzzer says it has written, without those that are merely slow.
fn findings_in(said: &str) -> impl Iterator<Item = PathBuf> {
    let paths = said.lines().filter_map(|line| line.split_once("; Test unit written to ").map(|(_, path)| path));
    paths.map(PathBuf::from).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ["crash-", "timeout-", "oom-", "leak-"].iter().any(|kind| name.starts_with(kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_merely_slow_is_no_finding() {
        let line = |name: &str| format!("artifact_prefix='/f/'; Test unit written to /f/{name}\n");
        let said = ["slow-unit-3d", "crash-0a", "timeout-1b", "oom-2c"].map(line).concat();
        let found = ["/f/crash-0a", "/f/timeout-1b", "/f/oom-2c"].map(PathBuf::from);
        assert_eq!(findings_in(&said).collect::<Vec<_>>(), found);
        assert_eq!(findings_in("INFO: Seed: 1\n").count(), 0);
    }
}
