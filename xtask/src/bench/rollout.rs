//! Seconds and failed requests of a new image under load, for each kind of workload and in three ways: hitless, an image patch a pod,
//! the native rolling update.

use std::collections::BTreeMap;

use anyhow::ensure;
use clap::Args;
use hitless_e2e::app::{Shape, Workload};
use hitless_e2e::measure::{self, Rollout as Measured};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack};
use serde::Serialize;
use serde_json::{Value, json};

use super::spread::Spread;

#[derive(Args)]
pub(super) struct Rollout {
    /// How often each workload is measured.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Rollouts of one workload after each other with hitless. The first one learns how long the container takes to listen again.
    #[arg(long, default_value_t = 3)]
    rollouts: usize,
    /// Only workloads whose name contains this, e.g. `statefulset-20` or `by-5`.
    #[arg(long)]
    only: Option<String>,
    /// Each rollout brings an image that no node has.
    #[arg(long)]
    unseen: bool,
    /// The pods' annotation `hitless.dev/mode`: `Leave` or `Hold`. Without it hitless chooses.
    #[arg(long)]
    mode: Option<Mode>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Mode {
    Leave,
    Hold,
}

/// A workload, and how many of its pods may be away at a time, in all three ways.
#[derive(Clone, Copy)]
struct Setup {
    kind: Workload,
    replicas: u32,
    at_a_time: u32,
}

const fn setup(kind: Workload, replicas: u32, at_a_time: u32) -> Setup {
    Setup { kind, replicas, at_a_time }
}

/// What is measured: each kind as its users have it.
const SETUPS: [Setup; 9] = [
    setup(Workload::Deployment, 1, 1),
    setup(Workload::Deployment, 3, 1),
    setup(Workload::Deployment, 20, 1),
    setup(Workload::Deployment, 20, 5),
    setup(Workload::StatefulSet, 3, 1),
    setup(Workload::StatefulSet, 20, 1),
    // One pod on each of the cluster's nodes.
    setup(Workload::DaemonSet, 2, 1),
    setup(Workload::CloneSet, 3, 1),
    setup(Workload::CloneSet, 20, 5),
];

impl Setup {
    /// Such as `deployment-20-by-5`.
    fn name(self) -> String {
        let name = format!("{:?}-{}", self.kind, self.replicas).to_lowercase();
        if self.at_a_time == 1 { name } else { format!("{name}-by-{}", self.at_a_time) }
    }

    /// What a StatefulSet and a DaemonSet do by default. A Deployment of many would start another pod first and take away a
    /// quarter of them. A Deployment of one pod keeps the defaults: its users have no other way to keep it served.
    fn strategy(self) -> Value {
        match self.kind {
            Workload::Deployment if self.replicas > 1 => {
                json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": self.at_a_time, "maxSurge": 0}}}})
            }
            Workload::CloneSet => {
                let strategy = json!({"type": "InPlaceIfPossible", "maxUnavailable": self.at_a_time, "maxSurge": 0});
                json!({"spec": {"updateStrategy": strategy}})
            }
            Workload::Deployment | Workload::StatefulSet | Workload::DaemonSet | Workload::CollaSet => Value::Null,
        }
    }
}

impl Setup {
    /// What stands beside it: of a kind that nobody else looks after a Deployment of the same size.
    fn elsewhere(self) -> Self {
        if self.kind.is_of_kubernetes() { self } else { Self { kind: Workload::Deployment, ..self } }
    }

    fn shape(self, like: &Shape) -> Shape {
        Shape { workload: self.kind, replicas: self.replicas, patch: self.strategy(), ..like.clone() }
    }
}

#[derive(Serialize)]
struct Figures {
    workloads: Vec<Figure>,
}

/// One workload in one run.
#[derive(Serialize)]
struct Figure {
    #[serde(skip)]
    name: String,
    kind: String,
    replicas: u32,
    at_a_time: u32,
    run: u32,
    rollouts: Vec<Ours>,
    raw_seconds: f64,
    native: Native,
}

/// One rollout with hitless.
#[derive(Serialize)]
struct Ours {
    seconds: f64,
    /// Requests without an answer, after the retry that HTTP/1.1 allows on a kept-alive connection.
    failed: u64,
    /// The same without any retry.
    failed_unretried: u64,
    requests: u64,
    longest_pause_ms: u64,
    pods_recreated: usize,
    /// API writes of agent and controller per pod, Events apart.
    own_writes_per_pod: f64,
    /// The same by component, verb and resource.
    own_writes: BTreeMap<String, f64>,
    /// API writes of everybody per pod, by component.
    writes_per_pod: BTreeMap<String, f64>,
}

#[derive(Serialize)]
struct Native {
    seconds: f64,
    failed: u64,
    requests: u64,
    pods_recreated: usize,
}

pub(super) fn run(options: &Rollout, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let wanted = |setup: &Setup| options.only.as_ref().is_none_or(|only| setup.name().contains(&only.to_lowercase()));
    let setups: Vec<Setup> = SETUPS.into_iter().filter(wanted).collect();
    ensure!(!setups.is_empty(), "--only: there are {:?}", SETUPS.map(Setup::name));
    let mut workloads = Vec::new();
    for run in 1..=options.runs {
        for setup in &setups {
            let figure = measure(options, stack, *setup, run)?;
            eprintln!("{}", table(&[&figure], options.rollouts));
            workloads.push(figure);
        }
    }
    if json {
        println!("{}", serde_json::to_string(&Figures { workloads })?);
        return Ok(());
    }
    println!("medians of {} runs, 100 fresh + 100 keep-alive requests/s", options.runs);
    for setup in &setups {
        let same: Vec<&Figure> = workloads.iter().filter(|one| one.name == setup.name()).collect();
        println!("{}", table(&same, options.rollouts));
    }
    Ok(())
}

/// A namespace of its own for each way: none inherits the kubelet's back-off of another.
fn measure(options: &Rollout, stack: &Stack, setup: Setup, run: u32) -> anyhow::Result<Figure> {
    let (name, Setup { kind, replicas, at_a_time }) = (setup.name(), setup);
    let mode = options.mode.map(|mode| match mode {
        Mode::Leave => "Leave",
        Mode::Hold => "Hold",
    });
    let ours = setup.shape(&Shape { mode, ..Shape::default() });
    let theirs = Shape { update: None, gate: false, mode: None, ..setup.elsewhere().shape(&ours) };
    let app = App::start(&stack.cluster, &format!("bench-{name}-hitless-{run}"), &ours)?;
    let mut rollouts = Vec::new();
    for (number, known) in ["v2", "v1"].into_iter().cycle().take(options.rollouts).enumerate() {
        let version = version(options, stack, known)?;
        let measured = measure::rollout(stack, &app, &version, Rate::default(), 0, &mut |_, _| {})?;
        for failure in &measured.failures {
            let at = jiff::Timestamp::from_millisecond(i64::try_from(measured.started_unix_ms + failure.due_ms)?)?;
            eprintln!("{name}, run {run}, rollout {}: failed: due {at}, {failure:?}", number + 1);
        }
        rollouts.push(measured.into());
    }
    drop(app);
    let app = App::start(&stack.cluster, &format!("bench-{name}-raw-{run}"), &theirs)?;
    let raw_seconds = measure::raw_patches(&app, &version(options, stack, "v2")?, at_a_time)?;
    drop(app);
    let app = App::start(&stack.cluster, &format!("bench-{name}-native-{run}"), &theirs)?;
    let new = version(options, stack, "v2")?;
    let native = measure::rollout(stack, &app, &new, Rate::default(), 0, &mut |_, _| {})?.into();
    Ok(Figure { name, kind: format!("{kind:?}"), replicas, at_a_time, run, rollouts, raw_seconds, native })
}

/// That version, or with `--unseen` one that is pushed now.
fn version(options: &Rollout, stack: &Stack, known: &str) -> anyhow::Result<String> {
    if !options.unseen {
        return Ok(known.to_owned());
    }
    let version = format!("unseen-{}", jiff::Timestamp::now().as_millisecond());
    stack.push_echo("echo", &version, &[("UNSEEN", &version)], None)?;
    Ok(version)
}

impl From<Measured> for Ours {
    fn from(measured: Measured) -> Self {
        Self {
            seconds: measured.seconds,
            failed: measured.failed,
            failed_unretried: measured.failed_fresh + measured.failed_keepalive_unretried,
            requests: measured.requests,
            longest_pause_ms: measured.longest_pause_ms,
            pods_recreated: measured.pods_recreated,
            own_writes_per_pod: measured.own_writes_per_pod().unwrap_or_default(),
            own_writes: measured.own_writes,
            writes_per_pod: measured.writes_per_pod,
        }
    }
}

impl From<Measured> for Native {
    fn from(measured: Measured) -> Self {
        Self {
            seconds: measured.seconds,
            failed: measured.failed,
            requests: measured.requests,
            pods_recreated: measured.pods_recreated,
        }
    }
}

/// The medians of one workload's runs, failed requests summed up.
fn table(runs: &[&Figure], rollouts: usize) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let median = |of: &dyn Fn(&Figure) -> f64| runs.iter().map(|run| of(run)).collect::<Spread>().median();
    let mut lines = vec![format!("{} of {}, {} at a time", first.kind, first.replicas, first.at_a_time)];
    for number in 0..rollouts {
        let failed: u64 = runs.iter().map(|run| run.rollouts[number].failed).sum();
        let requests: u64 = runs.iter().map(|run| run.rollouts[number].requests).sum();
        lines.push(format!(
            "  hitless, rollout {}  {:6.2} s, {failed} of {requests} requests failed, {:.1} own writes a pod",
            number + 1,
            median(&|run| run.rollouts[number].seconds),
            median(&|run| run.rollouts[number].own_writes_per_pod),
        ));
    }
    let failed: u64 = runs.iter().map(|run| run.native.failed).sum();
    let requests: u64 = runs.iter().map(|run| run.native.requests).sum();
    lines.push(format!("  raw image patches   {:6.2} s", median(&|run| run.raw_seconds)));
    lines.push(format!(
        "  native              {:6.2} s, {failed} of {requests} requests failed",
        median(&|run| run.native.seconds)
    ));
    lines.join("\n")
}
