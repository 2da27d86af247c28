//! Runs simulations; see `cargo xtask sim`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Args, Parser};
use hitless_sim::{Counts, Fleet, HoldCounts, Outcome, PodSet, run};

/// The real controller and agent cores in a simulated cluster.
#[derive(Parser)]
struct Options {
    /// Replays one seed, with everything that happens in it.
    #[arg(long)]
    seed: Option<u64>,
    /// Rollouts to run.
    #[arg(long, default_value_t = 10_000)]
    rollouts: u64,
    /// The first seed; absent: seeds of all kinds of clusters take turns.
    #[arg(long)]
    from: Option<u64>,
    /// Rolls 150,000 pods on 5,000 nodes instead.
    #[arg(long)]
    fleet: bool,
    #[command(flatten)]
    set: SetOptions,
    /// Stop at the first broken invariant.
    #[arg(long)]
    first: bool,
}

/// One set of pods instead of a fleet.
#[derive(Args)]
struct SetOptions {
    /// With `--fleet`: one CollaSet of 1,000 pods instead, made, brought to another image, and made anew.
    #[arg(long, requires = "fleet")]
    colla_set: bool,
    /// The same with a CloneSet.
    #[arg(long, requires = "fleet", conflicts_with = "colla_set")]
    clone_set: bool,
}

#[derive(Default)]
struct Total {
    seeds: u64,
    rollouts: u64,
    rounds: u64,
    faults: Counts,
    holds: HoldCounts,
    obstacles: BTreeMap<String, u64>,
    writes: BTreeMap<&'static str, u64>,
    broken: Vec<(u64, String)>,
}

impl Total {
    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.rollouts += outcome.rollouts;
        self.rounds += outcome.rounds;
        self.faults.merge(&outcome.faults);
        self.holds.merge(&outcome.holds);
        outcome.obstacles.into_iter().for_each(|(name, count)| *self.obstacles.entry(name).or_default() += count);
        outcome.writes.into_iter().for_each(|(kind, count)| *self.writes.entry(kind).or_default() += count);
        self.broken.extend(outcome.broken.map(|what| (outcome.seed, what)));
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.rollouts += other.rollouts;
        self.rounds += other.rounds;
        self.faults.merge(&other.faults);
        self.holds.merge(&other.holds);
        other.obstacles.into_iter().for_each(|(name, count)| *self.obstacles.entry(name).or_default() += count);
        other.writes.into_iter().for_each(|(kind, count)| *self.writes.entry(kind).or_default() += count);
        self.broken.extend(other.broken);
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        let outcome = run(seed, true);
        outcome.trace.iter().for_each(|line| println!("{line}"));
        return match outcome.broken {
            None => ExitCode::SUCCESS,
            Some(what) => {
                eprintln!("seed {seed} breaks: {what}");
                ExitCode::FAILURE
            }
        };
    }
    let set = [(options.set.colla_set, PodSet::CollaSet), (options.set.clone_set, PodSet::CloneSet)];
    if let Some((_, kind)) = set.into_iter().find(|(is_wanted, _)| *is_wanted) {
        return pod_set(kind);
    }
    if options.fleet {
        return fleet();
    }
    let begin = Instant::now();
    let seed = |number: u64| options.from.map_or_else(|| hitless_sim::seed_of_all(number), |from| from + number);
    let total = many(seed, options.rollouts, if options.first { 1 } else { 50 });
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} rollouts of {} seeds in {seconds:.1} s: {:.3} ms each; {} decisions",
        total.rollouts,
        total.seeds,
        seconds * 1000.0 / f64::from(u32::try_from(total.rollouts.max(1)).unwrap_or(u32::MAX)),
        total.rounds
    );
    println!("\nfaults that were injected:\n{}", total.faults);
    println!("what happened around Holds:\n{}", total.holds);
    println!("obstacles that were named by rollouts that did not reach their target: {:?}", total.obstacles);
    println!("our writes: {:?}", total.writes);
    for (seed, what) in total.broken.iter().take(20) {
        println!("BROKEN seed {seed}: {what}");
    }
    if total.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fleet() -> ExitCode {
    let fleet = Fleet::default();
    println!(
        "{} Deployments of {} pods in {} namespaces on {} nodes, all to get another image; {} % of each namespace's pods may be\n\
         unavailable. The controller's decisions are the real ones, one every {} s whatever it took. Agents are stand-ins that\n\
         follow the protocol and take {} s for an operation; nothing fails.\n",
        fleet.deployments * fleet.namespaces,
        fleet.replicas,
        fleet.namespaces,
        fleet.nodes,
        fleet.percent,
        fleet.decision_seconds,
        fleet.operation_seconds,
    );
    let report = fleet.roll();
    print!("{report}");
    if report.stuck { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn pod_set(kind: PodSet) -> ExitCode {
    let (nodes, replicas) = (100, 1_000);
    println!(
        "A {kind:?} of {replicas} pods on {nodes} nodes; 10 % of them may be unavailable, an operation takes 20 s. The controller's\n\
         decisions and writes are the real ones, one decision every second; kubelets and agents are stand-ins, and nothing fails."
    );
    let mut stuck = false;
    for (what, report) in Fleet::pod_set(kind, nodes, replicas) {
        print!("\n{what}:\n{report}");
        stuck |= report.stuck;
    }
    if stuck { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs seeds on all cores until so many rollouts were run, or so many seeds have broken something.
fn many(seed: impl Fn(u64) -> u64 + Sync, rollouts: u64, most: u64) -> Total {
    let (next, done, broken) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut total = Total::default();
        while done.load(Ordering::Relaxed) < rollouts && broken.load(Ordering::Relaxed) < most {
            let outcome = run(seed(next.fetch_add(1, Ordering::Relaxed)), false);
            done.fetch_add(outcome.rollouts, Ordering::Relaxed);
            broken.fetch_add(u64::from(outcome.broken.is_some()), Ordering::Relaxed);
            total.add(outcome);
        }
        total
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut total = Total::default();
        for thread in running {
            if let Ok(part) = thread.join() {
                total.merge(part);
            }
        }
        total
    })
}
