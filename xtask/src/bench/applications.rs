//! Other people's applications, as public reports describe them (servers that stop slowly, configuration that an init container renders,
//! a Service for each pod …), each rolled out with hitless and natively at the same time: what clients lost, and whether what was said
//! to be done was done.

mod case;
mod further;
mod reports;
mod run;
mod servers;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use hitless_e2e::Stack;
use serde::Serialize;

use case::Case;
use run::Seen;

#[derive(Args)]
pub(super) struct Applications {
    /// Only cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Rollouts of each case, one after the other.
    #[arg(long, default_value_t = 3)]
    rollouts: usize,
    /// Seconds after which a rollout that has not ended counts as stuck.
    #[arg(long, default_value_t = 240)]
    seconds: u64,
    /// Cases that run at the same time: most of a case's time it waits.
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Print the names of all cases, and end.
    #[arg(long)]
    list: bool,
}

#[derive(Serialize)]
struct Figures {
    cases: Vec<Figure>,
    /// Rollouts that lost more than natively.
    worse: usize,
    /// That neither ended nor said why.
    stuck: usize,
    /// That were said to be done and were not.
    wrong_success: usize,
}

#[derive(Serialize)]
struct Figure {
    case: &'static str,
    kind: String,
    replicas: u32,
    rollout: usize,
    #[serde(flatten)]
    seen: Seen,
    native: Seen,
}

impl Figure {
    /// More requests were lost than natively.
    fn is_worse(&self) -> bool {
        self.seen.failed > self.native.failed
    }
}

/// All cases.
fn all() -> Vec<Case> {
    let mut all = reports::cases();
    all.extend(further::cases());
    all.extend(servers::cases());
    all
}

fn wanted(options: &Applications) -> anyhow::Result<Vec<Case>> {
    ensure!((1..=20).contains(&options.rollouts), "--rollouts: use 1 to 20");
    ensure!((1..=8).contains(&options.at_once), "--at-once: use 1 to 8");
    let mut cases = all();
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let names = names.join(", ");
    cases.retain(|case| options.only.as_ref().is_none_or(|only| case.name.contains(only.as_str())));
    ensure!(!cases.is_empty(), "--only: there are {names}");
    Ok(cases)
}

/// Before a cluster is made: fetching takes the network, and may fail.
pub(super) fn prepare(options: &Applications) -> anyhow::Result<()> {
    wanted(options)?.iter().filter_map(Case::server).try_for_each(|server| server.fetch(&|line| eprintln!("{line}")))
}

pub(super) fn run(options: &Applications, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let cases = wanted(options)?;
    if options.list {
        for case in &cases {
            println!("{}", case.name);
        }
        return Ok(());
    }
    println!("{}", line(&HEAD));
    let all = measure_all(options, stack, cases)?;
    let count = |is: fn(&Figure) -> bool| all.iter().filter(|figure| is(figure)).count();
    let figures = Figures {
        worse: count(Figure::is_worse),
        stuck: count(|figure| figure.seen.is_stuck),
        wrong_success: count(|figure| figure.seen.is_wrong),
        cases: all,
    };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    println!(
        "{} lost more than natively, {} stuck, {} wrong successes",
        figures.worse, figures.stuck, figures.wrong_success
    );
    Ok(())
}

/// Several cases at once, each printed when it has ended. The first one that fails ends the others before their next case.
fn measure_all(options: &Applications, stack: &Stack, cases: Vec<Case>) -> anyhow::Result<Vec<Figure>> {
    let left = Mutex::new(VecDeque::from(cases));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let printing = Mutex::new(());
    let worker = || {
        let mut figures = Vec::new();
        while let Some(case) = next() {
            let pushed = case.server().map_or(Ok(()), |server| server.push(&stack.cluster));
            let measured = pushed.and_then(|()| measure(options, stack, &case)).inspect_err(|_failed| {
                left.lock().unwrap_or_else(PoisonError::into_inner).clear();
            })?;
            let _one_at_a_time = printing.lock().unwrap_or_else(PoisonError::into_inner);
            for figure in &measured {
                println!("{}", line(&columns(figure)));
                println!("    {}", figure.seen.words);
            }
            figures.extend(measured);
        }
        Ok(figures)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.at_once).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            let measured: anyhow::Result<Vec<Figure>> =
                worker.join().map_err(|_panicked| anyhow::anyhow!("a thread panicked, see above"))?;
            all.extend(measured?);
        }
        all.sort_by_key(|figure| (figure.case, figure.rollout));
        Ok(all)
    })
}

/// Both at the same time, so that both have the same machine.
fn measure(options: &Applications, stack: &Stack, case: &Case) -> anyhow::Result<Vec<Figure>> {
    let longest = Duration::from_secs(options.seconds);
    let (ours, native) = std::thread::scope(|scope| {
        let native = scope.spawn(|| run::rollouts(stack, case, run::Way::Native, options.rollouts, longest));
        let ours = run::rollouts(stack, case, run::Way::Hitless, options.rollouts, longest);
        (ours, native.join())
    });
    let native = native.map_err(|_panicked| anyhow::anyhow!("a thread panicked, see above"))?;
    let both = ours?.into_iter().zip(native?).zip(1..);
    let figure = |((seen, native), rollout)| Figure {
        case: case.name,
        kind: format!("{:?}", case.kind),
        replicas: case.replicas,
        rollout,
        seen,
        native,
    };
    Ok(both.map(figure).collect())
}

const HEAD: [&str; 9] =
    ["case", "rollout", "way", "end", "failed", "longest ms", "s", "natively failed", "longest ms, s"];
const WIDTHS: [usize; 9] = [34, 7, 9, 8, 13, 10, 6, 15, 14];

fn columns(figure: &Figure) -> [String; 9] {
    let (ours, native) = (&figure.seen, &figure.native);
    [
        figure.case.to_owned(),
        figure.rollout.to_string(),
        ours.way.to_owned(),
        ours.end(),
        format!("{} of {}", ours.failed, ours.requests),
        ours.longest_ms.to_string(),
        format!("{:.1}", ours.seconds),
        format!("{} of {}", native.failed, native.requests),
        format!("{}, {:.1}", native.longest_ms, native.seconds),
    ]
}

/// The columns below their heads.
fn line(columns: &[impl AsRef<str>]) -> String {
    let cells = columns.iter().zip(WIDTHS).map(|(column, width)| format!("{:<width$}", column.as_ref()));
    cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own_that_can_be_a_namespaces() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all.len());
        let is_fine =
            |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        assert!(names.iter().all(is_fine) && names.iter().all(|name| name.len() < 40), "{names:?}");
    }
}
