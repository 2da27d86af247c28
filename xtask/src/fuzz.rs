//! `cargo xtask fuzz`: the targets of tests/fuzz, one after the other, guided by the edges of the program that they reach (libFuzzer).

mod finding;
mod outcome;
mod program;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use hitless_e2e::build::workspace;
use serde::Serialize;

use outcome::Outcome;
use program::Program;

/// Fuzzes what reads the kernel's messages, texts of /proc, annotations, rules, approvers' and load balancers' answers. New inputs are
/// kept in target/fuzz/corpus, findings in target/fuzz/findings. The first finding of a target ends it.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// Minutes for each target.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Only this target: the name of a file in tests/fuzz/src/targets.
    #[arg(long)]
    target: Option<String>,
    /// Runs the target once, with this file as its input: repeats a finding.
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with_all = ["minutes", "json"])]
    input: Option<PathBuf>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// All that one run has found.
#[derive(Serialize)]
struct Report {
    minutes: u32,
    targets: Vec<Outcome>,
}

pub(crate) fn run(options: &Fuzz) -> anyhow::Result<ExitCode> {
    let wanted = chosen(targets()?, options.target.as_deref())?;
    let input = options.input.as_ref().map(|path| path.canonicalize().with_context(|| path.display().to_string()));
    let input = input.transpose()?;
    hitless_cluster::ensure_for_fuzzing(&|line| eprintln!("{line}"))?;
    let program = Program::build()?;
    if let (Some(input), Some(target)) = (input, wanted.first()) {
        let is_fine = program.repeat(target, &input)?;
        eprintln!("{}", if is_fine { "no finding: it is mended, or this is another input" } else { "it is a finding" });
        return Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut targets = Vec::new();
    for target in &wanted {
        eprintln!("fuzzing {target} for {} min", options.minutes);
        let outcome = program.fuzz(target, options.minutes)?;
        outcome.findings.iter().for_each(|finding| eprintln!("\n{finding}\n"));
        targets.push(outcome);
    }
    let has_findings = targets.iter().any(|outcome| !outcome.findings.is_empty());
    let report = Report { minutes: options.minutes, targets };
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", outcome::table(&report.targets));
    }
    Ok(if has_findings { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Names of all targets. A test of tests/fuzz compares them with the list that is built.
fn targets() -> anyhow::Result<Vec<String>> {
    let directory = workspace().join("tests/fuzz/src/targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
        let path = entry?.path();
        if path.is_file() {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    ensure!(!names.is_empty(), "{} has no target", directory.display());
    Ok(names)
}

fn chosen(all: Vec<String>, wanted: Option<&str>) -> anyhow::Result<Vec<String>> {
    match wanted {
        None => Ok(all),
        Some(name) if all.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!("there is no target {name:?}; there are {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_chosen_by_its_name_and_another_name_is_refused() {
        let all = targets().unwrap();
        assert!(all.len() > 5, "{all:?}");
        assert_eq!(chosen(all.clone(), None).unwrap(), all);
        assert_eq!(chosen(all.clone(), Some("frames")).unwrap(), ["frames"]);
        let error = chosen(all, Some("frame")).unwrap_err().to_string();
        assert!(error.starts_with("there is no target \"frame\"; there are alibaba, annotations, "), "{error}");
    }
}
