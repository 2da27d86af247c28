//! `cargo xtask soak`: rollouts one after another over all kinds of workloads under load, while parts of hitless and of the cluster are
//! killed or stopped at random moments.

mod fault;
mod footprint;
mod state;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_cluster::{Cluster, Options, UpOptions, missing_requirements};
use hitless_e2e::app::{Shape, Workload, patience_for};
use hitless_e2e::build::Programs;
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Traffic, measure};
use hitless_load::Failure;
use serde::Serialize;

use fault::Fault;
use footprint::Footprint;

/// The arguments of `cargo xtask soak`.
#[derive(Args)]
pub(crate) struct Soak {
    /// So long, but every rollout that has begun comes to its end.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Which faults come when. The same seed asks for the same ones; the machine's own times differ.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Leave the cluster up.
    #[arg(long)]
    keep: bool,
}

const CLUSTER: &str = "soak";
const NODES: u8 = 2;
const VERSIONS: [&str; 4] = ["v1", "v2", "v3", "v4"];
/// On each workload.
const RATE: Rate = Rate { fresh: 50, keepalive: 50, connections: 10, delay_ms: 0 };

/// The workloads, as their users have them: name, kind, pods.
const WORKLOADS: [(&str, Workload, u32); 5] = [
    ("deployment", Workload::Deployment, 3),
    ("single", Workload::Deployment, 1),
    ("statefulset", Workload::StatefulSet, 3),
    ("daemonset", Workload::DaemonSet, NODES as u32),
    ("collaset", Workload::CollaSet, 3),
];

/// A workload under load.
struct Subject {
    name: &'static str,
    app: App,
    pods: usize,
    version: usize,
    traffic: Traffic,
}

/// One rollout.
#[derive(Serialize)]
struct Rollout {
    workload: &'static str,
    version: &'static str,
    seconds: f64,
    fault: Fault,
    /// Requests that failed while it went on, of all workloads.
    failed: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Figures {
    minutes: f64,
    seed: u64,
    requests: u64,
    failed: u64,
    /// Of these those during a rollout with a fault.
    explained: u64,
    rollouts: usize,
    faults: BTreeMap<String, usize>,
    /// The rollouts during which a request failed.
    failing: Vec<Rollout>,
    /// The first failures of each workload.
    failures: BTreeMap<&'static str, Vec<Failure>>,
    seconds: BTreeMap<&'static str, Seconds>,
    at_start: Vec<Footprint>,
    at_end: Vec<Footprint>,
}

/// Of the rollouts of a workload without a fault.
#[derive(Serialize)]
struct Seconds {
    median: f64,
    longest: f64,
}

pub(crate) fn run(options: &Soak) -> anyhow::Result<ExitCode> {
    let missing = missing_requirements();
    ensure!(missing.is_empty(), "a soak needs a real cluster, and this machine lacks: {missing:?}");
    let programs = Programs::build()?;
    let up = UpOptions { name: CLUSTER.to_owned(), nodes: NODES, options: Options::default() };
    let cluster = Arc::new(Cluster::up(&up, &|line| eprintln!("{line}"))?);
    let outcome = Stack::install_on(cluster, programs).and_then(|stack| soak(options, &stack));
    if !options.keep {
        Cluster::down(CLUSTER)?;
    }
    let figures = outcome?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", figures.text());
    }
    Ok(if figures.failed == figures.explained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn soak(options: &Soak, stack: &Stack) -> anyhow::Result<Figures> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut subjects = Vec::new();
    for (name, workload, replicas) in WORKLOADS {
        let shape = Shape { workload, replicas, mode: None, ..Shape::default() };
        let app = App::start(&stack.cluster, &format!("soak-{name}"), &shape)?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, RATE)?;
        subjects.push(Subject { name, app, pods: replicas as usize, version: 0, traffic });
    }
    let (begin, at_start) = (Instant::now(), footprint::of(stack)?);
    let end = begin + Duration::from_secs(options.minutes * 60);
    let mut rollouts = Vec::new();
    while Instant::now() < end {
        let rollout = rollout(stack, &mut subjects, &mut random).inspect_err(|_| state::print(stack))?;
        let so_far = begin.elapsed().as_secs() / 60;
        eprintln!("[{so_far} min] {}", rollout.line());
        rollouts.push(rollout);
    }
    let at_end = footprint::of(stack)?;
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    let mut figures = Figures::of(options.seed, minutes, rollouts, at_start, at_end);
    for subject in subjects {
        let report = subject.traffic.stop()?;
        figures.requests += report.requests();
        figures.failed += report.failed();
        figures.failures.insert(subject.name, report.failures.into_iter().take(20).collect());
    }
    Ok(figures)
}

fn rollout(stack: &Stack, subjects: &mut [Subject], random: &mut fastrand::Rng) -> anyhow::Result<Rollout> {
    let index = random.usize(..subjects.len());
    let before: Vec<u64> = subjects.iter().map(|subject| subject.traffic.report().failed()).collect();
    let subject = &mut subjects[index];
    subject.version = (subject.version + random.usize(1..VERSIONS.len())) % VERSIONS.len();
    let (name, version, begin) = (subject.name, VERSIONS[subject.version], Instant::now());
    let fault = Fault::choose(random, &stack.cluster.node_names());
    subject.app.set_version(version)?;
    // The moment of the fault is what is random here.
    thread::sleep(Duration::from_millis(random.u64(0..4000)));
    fault.happen(stack)?;
    let patience = patience_for(subject.pods) * 3;
    while !measure::finished(&subject.app, version, subject.pods) {
        subject.app.pods.next_change(Duration::from_millis(250));
        ensure!(begin.elapsed() < patience, "{name} did not get to {version} in {patience:?} after {fault}");
    }
    if subject.app.workload != Workload::CollaSet {
        subject.app.wait_unheld().with_context(|| format!("{name} to {version}, {fault}"))?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    fault.mend(stack)?;
    // What was due before the end has been answered, or has failed, some requests later.
    for subject in subjects.iter() {
        subject.traffic.wait_for_more(RATE.per_second(), patience)?;
    }
    let after = subjects.iter().map(|subject| (subject.name, subject.traffic.report().failed()));
    let failed = after.zip(before).map(|((name, after), before)| (name, after - before));
    Ok(Rollout { workload: name, version, seconds, fault, failed: failed.filter(|(_, count)| *count > 0).collect() })
}

impl Rollout {
    fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    fn line(&self) -> String {
        let Self { workload, version, seconds, fault, .. } = self;
        format!("{workload} to {version} in {seconds:.1} s, {fault}: {} failed", self.failures())
    }
}

impl Figures {
    fn of(seed: u64, minutes: f64, rollouts: Vec<Rollout>, at_start: Vec<Footprint>, at_end: Vec<Footprint>) -> Self {
        let mut faults: BTreeMap<String, usize> = BTreeMap::new();
        let mut calm: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for rollout in &rollouts {
            *faults.entry(rollout.fault.kind().to_owned()).or_default() += 1;
            if rollout.fault == Fault::None {
                calm.entry(rollout.workload).or_default().push(rollout.seconds);
            }
        }
        let seconds = calm.into_iter().map(|(name, mut all)| {
            all.sort_by(f64::total_cmp);
            (name, Seconds { median: all[all.len() / 2], longest: all[all.len() - 1] })
        });
        let explained = rollouts.iter().filter(|each| each.fault != Fault::None).map(Rollout::failures).sum();
        let (count, seconds) = (rollouts.len(), seconds.collect());
        let failing = rollouts.into_iter().filter(|each| each.failures() > 0).collect();
        Self {
            minutes,
            seed,
            requests: 0,
            failed: 0,
            explained,
            rollouts: count,
            faults,
            failing,
            failures: BTreeMap::new(),
            seconds,
            at_start,
            at_end,
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![format!(
            "{:.0} minutes, seed {}: {} of {} requests failed, {} of them during a rollout with a fault; {} rollouts",
            self.minutes, self.seed, self.failed, self.requests, self.explained, self.rollouts
        )];
        lines.extend(self.faults.iter().map(|(fault, count)| format!("  {count:5} {fault}")));
        lines.extend(self.seconds.iter().map(|(name, Seconds { median, longest })| {
            format!("  {name}: {median:.1} s without a fault, at most {longest:.1} s")
        }));
        lines.extend(self.failing.iter().map(|rollout| format!("  failed: {}", rollout.line())));
        let footprints =
            |when: &str, all: &[Footprint]| all.iter().map(|each| format!("  {when} {each}")).collect::<Vec<_>>();
        lines.extend(footprints("at the start:", &self.at_start));
        lines.extend(footprints("at the end:", &self.at_end));
        lines.join("\n") + "\n"
    }
}
