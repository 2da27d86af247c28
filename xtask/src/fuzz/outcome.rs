//! What became of one target, by what libFuzzer says: a line for each step, such as `#2 INITED cov: 7 ft: 8 corp: 1/1b …`, and figures at
//! its end, such as `stat::number_of_executed_units: 100`.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::finding::Finding;

/// What became of it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    target: String,
    seconds: f64,
    /// Inputs that were run.
    runs: u64,
    runs_per_second: u64,
    /// Edges of the program that the seeds, and inputs that were kept before, had reached.
    edges_at_the_start: u64,
    edges_at_the_end: u64,
    /// Inputs that reach something that no other one does.
    corpus: u64,
    pub(super) findings: Vec<Finding>,
}

impl Outcome {
    pub(super) fn read(target: &str, took: Duration, said: &str, findings: Vec<Finding>) -> anyhow::Result<Self> {
        let steps: Vec<Step> = said.lines().filter_map(Step::read).collect();
        // Where a seed is a finding no step was completed.
        let at = |step: Option<&Step>| step.map_or((0, 0), |step| (step.edges, step.corpus));
        let first = steps.iter().find(|step| step.event == "INITED");
        let ((start, _), (end, corpus)) = (at(first), at(steps.last()));
        let runs = figure(said, "number_of_executed_units").context("libFuzzer does not say how often it ran")?;
        Ok(Self {
            target: target.to_owned(),
            seconds: took.as_secs_f64(),
            runs,
            runs_per_second: figure(said, "average_exec_per_sec").unwrap_or_default(),
            edges_at_the_start: start,
            edges_at_the_end: end,
            corpus,
            findings,
        })
    }
}

/// A line of libFuzzer's.
struct Step {
    event: String,
    edges: u64,
    corpus: u64,
}

impl Step {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix('#')?.split_whitespace().skip(1);
        let event = words.next()?.to_owned();
        let words: Vec<&str> = words.collect();
        let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
        let edges = after("cov:")?.parse().ok()?;
        // Its number of inputs, and their size together.
        let corpus = after("corp:")?.split('/').next()?.parse().ok()?;
        Some(Self { event, edges, corpus })
    }
}

fn figure(said: &str, name: &str) -> Option<u64> {
    let rest =
        said.lines().rev().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':'))?;
    rest.trim().parse().ok()
}

/// As the pages have tables.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let mut table = "| target | runs | runs/s | edges: seeds, end | inputs kept | findings |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    for outcome in outcomes {
        let Outcome { target, runs, runs_per_second, edges_at_the_start, edges_at_the_end, corpus, findings, .. } =
            outcome;
        let (runs, findings) = (with_commas(*runs), findings.len());
        let per_second = with_commas(*runs_per_second);
        _ = writeln!(
            table,
            "| {target} | {runs} | {per_second} | {edges_at_the_start}, {edges_at_the_end} | {corpus} | {findings} |"
        );
    }
    table
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
INFO: Running with entropic power schedule (0xFF, 100).
INFO: seed corpus: files: 4 min: 12b max: 1064b total: 1844b rss: 50Mb
#5\tINITED cov: 210 ft: 300 corp: 4/1844b exec/s: 0 rss: 51Mb
#312\tNEW    cov: 215 ft: 310 corp: 5/1900b lim: 1064 exec/s: 0 rss: 51Mb L: 56/1064 MS: 1 EraseBytes-
#1048576\tpulse  cov: 240 ft: 400 corp: 41/22Kb lim: 4096 exec/s: 349525 rss: 400Mb
#1203004\tDONE   cov: 241 ft: 401 corp: 42/22Kb lim: 4096 exec/s: 400001 rss: 410Mb
Done 1203004 runs in 4 second(s)
stat::number_of_executed_units: 1203004
stat::average_exec_per_sec:     240600
stat::new_units_added:          38
";

    #[test]
    fn figures_are_read_where_libfuzzer_says_them() {
        let outcome = Outcome::read("frames", Duration::from_secs(5), SAID, Vec::new()).unwrap();
        assert_eq!((outcome.runs, outcome.runs_per_second), (1_203_004, 240_600));
        assert_eq!((outcome.edges_at_the_start, outcome.edges_at_the_end, outcome.corpus), (210, 241, 42));
        let row = "| frames | 1,203,004 | 240,600 | 210, 241 | 42 | 0 |";
        assert_eq!(table(&[outcome]).lines().last(), Some(row));
    }

    #[test]
    fn a_seed_that_is_a_finding_leaves_no_edges_and_what_never_ran_is_an_error() {
        let said = "stat::number_of_executed_units: 2\nstat::average_exec_per_sec: 0\n";
        let outcome = Outcome::read("frames", Duration::ZERO, said, Vec::new()).unwrap();
        assert_eq!((outcome.runs, outcome.edges_at_the_end), (2, 0));
        assert!(Outcome::read("frames", Duration::ZERO, "", Vec::new()).is_err());
    }

    #[test]
    fn thousands_are_parted() {
        let written = [0, 999, 1000, 1_234_567].map(with_commas);
        assert_eq!(written, ["0", "999", "1,000", "1,234,567"]);
    }
}
