//! Other people's applications, as public reports describe them (servers that stop slowly, configuration that an init container renders,
//! a Service for each pod …), each rolled out with hitless and natively at the same time: what clients lost, and whether what was said
//! to be done was done.

mod by_hand;
mod case;
mod client;
mod databases;
mod further;
mod reports;
mod run;
mod servers;
mod shapes;
mod together;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Args;
use hitless_e2e::Stack;
use serde::Serialize;

use case::Case;
use run::Seen;

#[derive(Args)]
pub(super) struct Applications {
    /// Only cases whose name contains this, or one of these with commas between them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rollouts of each case, one after the other.
    #[arg(long, default_value_t = 3)]
    rollouts: usize,
    /// Seconds after which a rollout that has not ended counts as stuck.
    #[arg(long, default_value_t = 600)]
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
    cases: Vec<Measured>,
    /// Rollouts that lost more than natively.
    worse: usize,
    /// That neither ended nor said why.
    stuck: usize,
    /// That were said to be done and were not.
    wrong_success: usize,
    /// Cases that could not be measured.
    errors: usize,
}

/// A rollout of a case, or why the case could not be measured.
#[derive(Serialize)]
#[serde(untagged)]
enum Measured {
    Seen(Box<Figure>),
    Failed(Failed),
}

#[derive(Serialize)]
struct Failed {
    case: &'static str,
    kind: String,
    replicas: u32,
    error: String,
}

impl Measured {
    /// The rollouts of a case; one entry with the error if it could not be measured. That costs no other case.
    fn of(case: &Case, measured: anyhow::Result<Vec<Figure>>) -> Vec<Self> {
        match measured {
            Ok(figures) => figures.into_iter().map(|figure| Self::Seen(Box::new(figure))).collect(),
            Err(error) => vec![Self::Failed(Failed {
                case: case.name,
                kind: format!("{:?}", case.kind),
                replicas: case.replicas,
                error: format!("{error:#}"),
            })],
        }
    }

    const fn seen(&self) -> Option<&Figure> {
        match self {
            Self::Seen(figure) => Some(figure),
            Self::Failed(_) => None,
        }
    }

    fn place(&self) -> (&'static str, usize) {
        match self {
            Self::Seen(figure) => (figure.case, figure.rollout),
            Self::Failed(failed) => (failed.case, 0),
        }
    }

    fn print(&self) {
        match self {
            Self::Seen(figure) => println!("{}\n    {}", line(&columns(figure)), figure.seen.words),
            Self::Failed(failed) => println!("{}\n    {}", line(&[failed.case, "-", "-", "ERROR"]), failed.error),
        }
    }
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
    all.extend(shapes::cases());
    all.extend(together::cases());
    all.extend(databases::cases());
    all
}

fn wanted(options: &Applications) -> anyhow::Result<Vec<Case>> {
    ensure!((1..=20).contains(&options.rollouts), "--rollouts: use 1 to 20");
    ensure!((1..=8).contains(&options.at_once), "--at-once: use 1 to 8");
    let mut cases = all();
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let names = names.join(", ");
    let is_named = |case: &Case| options.only.iter().any(|only| case.name.contains(only.as_str()));
    cases.retain(|case| options.only.is_empty() || is_named(case));
    ensure!(!cases.is_empty(), "--only: there are {names}");
    Ok(cases)
}

/// The names of all that are wanted, if that is all somebody asks for.
pub(super) fn list(options: &Applications) -> anyhow::Result<Option<String>> {
    let names = || -> anyhow::Result<String> {
        let names: Vec<&str> = wanted(options)?.iter().map(|case| case.name).collect();
        Ok(names.join("\n"))
    };
    options.list.then(names).transpose()
}

/// Before a cluster is made: fetching takes the network, and may fail. A case whose server is not there fails when its turn comes.
pub(super) fn prepare(options: &Applications) -> anyhow::Result<()> {
    for case in wanted(options)? {
        if let Err(error) = case.servers().try_for_each(|server| server.fetch(&|line| eprintln!("{line}"))) {
            eprintln!("{}: its servers can't be fetched: {error:#}", case.name);
        }
    }
    Ok(())
}

pub(super) fn run(options: &Applications, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let cases = wanted(options)?;
    println!("{}", line(&HEAD));
    let measure = |case: &Case| {
        case.servers().try_for_each(|server| server.push(&stack.cluster))?;
        measure(options, stack, case)
    };
    let (alone, others) = cases.into_iter().partition(|case| case.is_alone);
    let mut all = measure_all(options.at_once, others, &measure)?;
    all.extend(measure_all(1, alone, &measure)?);
    all.sort_by_key(Measured::place);
    let count = |is: fn(&Figure) -> bool| all.iter().filter_map(Measured::seen).filter(|figure| is(figure)).count();
    let figures = Figures {
        worse: count(Figure::is_worse),
        stuck: count(|figure| figure.seen.is_stuck),
        wrong_success: count(|figure| figure.seen.is_wrong),
        errors: all.iter().filter(|measured| measured.seen().is_none()).count(),
        cases: all,
    };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        println!(
            "{} lost more than natively, {} stuck, {} wrong successes",
            figures.worse, figures.stuck, figures.wrong_success
        );
    }
    match figures.errors {
        0 => Ok(()),
        errors => bail!("{errors} of the cases could not be measured, see ERROR above"),
    }
}

/// `at_once` cases at a time, each printed when it has ended. One that fails costs no other one.
fn measure_all(
    at_once: usize,
    cases: Vec<Case>,
    measure: &(dyn Fn(&Case) -> anyhow::Result<Vec<Figure>> + Sync),
) -> anyhow::Result<Vec<Measured>> {
    let left = Mutex::new(VecDeque::from(cases));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let printing = Mutex::new(());
    let worker = || {
        let mut all = Vec::new();
        while let Some(case) = next() {
            let measured = Measured::of(&case, measure(&case));
            let _one_at_a_time = printing.lock().unwrap_or_else(PoisonError::into_inner);
            measured.iter().for_each(Measured::print);
            all.extend(measured);
        }
        all
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_panicked| anyhow::anyhow!("a thread panicked, see above"))?);
        }
        Ok(all)
    })
}

/// Both at the same time, so that both have the same machine; one after the other where both want the same ports of the nodes, or what is
/// done by hand for one of them is felt by the other.
fn measure(options: &Applications, stack: &Stack, case: &Case) -> anyhow::Result<Vec<Figure>> {
    let longest = Duration::from_secs(options.seconds);
    let rollouts = |way| run::rollouts(stack, case, way, options.rollouts, longest);
    let (ours, native) = std::thread::scope(|scope| {
        let ours = scope.spawn(|| rollouts(run::Way::Hitless));
        if case.takes_ports_of_nodes() || case.is_alone {
            return (ours.join(), scope.spawn(|| rollouts(run::Way::Native)).join());
        }
        let native = scope.spawn(|| rollouts(run::Way::Native));
        (ours.join(), native.join())
    });
    let of = |result: std::thread::Result<anyhow::Result<Vec<Seen>>>| {
        result.map_err(|_panicked| anyhow::anyhow!("a thread panicked, see above")).flatten()
    };
    let both = of(ours)?.into_iter().zip(of(native)?).zip(1..);
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

    /// Two pods can't have the same port of a node, and the second one would be Pending for ever.
    #[test]
    fn cases_that_take_ports_of_nodes_do_not_run_beside_their_native_twins() {
        let takes: Vec<&str> = all().iter().filter(|case| case.takes_ports_of_nodes()).map(|case| case.name).collect();
        assert_eq!(takes, ["o23-host-port", "host-network", "daemons-host-port"]);
    }

    #[test]
    fn a_case_that_can_not_be_measured_costs_no_other_case() {
        let cases = vec![Case::echo("a"), Case::echo("b"), Case::echo("c")];
        let measure = |case: &Case| {
            let seen = || Seen { requests: 9, way: "in place", code: Some(0), ..Seen::default() };
            if case.name == "a" {
                bail!("waited 140s for 2 ready pods");
            }
            let kind = "Deployment".to_owned();
            let (seen, native) = (seen(), seen());
            Ok(vec![Figure { case: case.name, kind, replicas: 3, rollout: 1, seen, native }])
        };
        let mut all = measure_all(2, cases, &measure).unwrap();
        all.sort_by_key(Measured::place);
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!((&json[0]["case"], &json[0]["error"]), (&"a".into(), &"waited 140s for 2 ready pods".into()));
        assert_eq!((&json[1]["case"], &json[1]["requests"]), (&"b".into(), &9.into()));
        assert_eq!((&json[2]["case"], &json[2]["native"]["requests"]), (&"c".into(), &9.into()));
    }
}
