//! Long streams that a pod is drained of: none is cut, the end of the last one is noticed at once, and watching costs little.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_e2e::app::{PATIENCE, Shape, condition, image_of};
use hitless_e2e::{App, Stack, streams};
use hitless_streams::{Cut, Kind, Report};
use jiff::Timestamp;
use serde::Serialize;

use super::process::cpu_time;
use super::spread::Spread;

#[derive(Args)]
pub(super) struct Drain {
    /// How long each download, websocket and gRPC stream lasts, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Streams of each kind at the same time, over three replicas.
    #[arg(long, default_value_t = 6)]
    each: u32,
    /// How often it is measured when the end of the last stream is noticed.
    #[arg(long, default_value_t = 10)]
    runs: u32,
}

/// Longest time until the end of the last connection is noticed, in milliseconds.
const GOAL_NOTICED_MS: f64 = 5.0;
/// Processor time of an agent while it drains, in percent of one core.
const GOAL_CPU_PERCENT: f64 = 0.3;

#[derive(Serialize)]
struct Figures {
    stream_seconds: u32,
    rollout_seconds: f64,
    opened: BTreeMap<Kind, u64>,
    completed: BTreeMap<Kind, u64>,
    cut: Vec<Cut>,
    /// Of the agent on the pod's node, in percent of one core, of each pod while it was out of service and not yet operated.
    cpu_percent: Spread,
    /// From the end of the last stream, as its client saw it, until the image patch arrived at the API server.
    noticed_ms: Spread,
}

pub(super) fn run(options: &Drain, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let (report, rollout_seconds, cpu_percent) = rollout(options, stack)?;
    let mut noticed_ms = Spread::default();
    for run in 1..=options.runs {
        let milliseconds = notice(stack, run)?;
        eprintln!("run {run:2}: the end of the last stream was acted on after {milliseconds:.1} ms");
        noticed_ms.add(milliseconds);
    }
    let Report { opened, completed, cut, .. } = report;
    let figures =
        Figures { stream_seconds: options.seconds, rollout_seconds, opened, completed, cut, cpu_percent, noticed_ms };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        println!(
            "three replicas, streams of {} s: {:?} opened, {} cut, {rollout_seconds:.1} s",
            figures.stream_seconds,
            figures.opened,
            figures.cut.len()
        );
        println!(
            "agent while it drains, % of a core (median, 95 %, most): {} (goal {GOAL_CPU_PERCENT})",
            figures.cpu_percent
        );
        println!(
            "last stream's end to the image patch's arrival, ms:      {} (goal {GOAL_NOTICED_MS} until noticed)",
            figures.noticed_ms
        );
    }
    ensure!(figures.cut.is_empty(), "streams were cut: {:?}", figures.cut);
    Ok(())
}

/// Three replicas, one after the other, while streams are open all the time.
fn rollout(options: &Drain, stack: &Stack) -> anyhow::Result<(Report, f64, Spread)> {
    let app = App::start(&stack.cluster, "bench-drain", &streams::shape(options.seconds * 2))?;
    let client = streams::start(stack, streams::expose(&app)?, options.each, options.seconds * 1000)?;
    client.wait("streams of each kind", PATIENCE, |report| report.opened.len() == Kind::ALL.len())?;
    let begin = Instant::now();
    app.set_version("v2")?;
    let cpu = cpu_while_draining(options, stack, &app)?;
    app.rollout_status()?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok((client.stop()?, seconds, cpu))
}

/// Watches the pods until all have the new image.
fn cpu_while_draining(options: &Drain, stack: &Stack, app: &App) -> anyhow::Result<Spread> {
    let begin = Instant::now();
    let patience = PATIENCE + Duration::from_secs(u64::from(options.seconds) * 3);
    let mut draining: BTreeMap<String, (Instant, u32, Duration)> = BTreeMap::new();
    let mut percent = Spread::default();
    loop {
        let pods = app.pods.objects();
        for (name, pod) in &pods {
            let is_operated = image_of(pod) == app.image("v2");
            let has_left = condition(pod, "hitless.dev/InService") == Some("False");
            match draining.get(name) {
                None if has_left && !is_operated => {
                    let node = pod["spec"]["nodeName"].as_str().context("no node")?;
                    let agent = stack.agent_process(node)?;
                    draining.insert(name.clone(), (Instant::now(), agent, cpu_time(agent)?));
                }
                Some((since, agent, before)) if is_operated => {
                    let used = cpu_time(*agent)?.saturating_sub(*before);
                    percent.add(100.0 * used.as_secs_f64() / since.elapsed().as_secs_f64());
                    draining.remove(name);
                }
                None | Some(_) => {}
            }
        }
        if pods.values().all(|pod| image_of(pod) == app.image("v2")) {
            return Ok(percent);
        }
        ensure!(begin.elapsed() < patience, "the rollout did not end in {patience:?}");
        app.pods.next_change(Duration::from_millis(250));
    }
}

/// One pod with a stream of each kind; milliseconds from the end of the last one to the image patch.
fn notice(stack: &Stack, run: u32) -> anyhow::Result<f64> {
    let app = App::start(&stack.cluster, &format!("bench-notice-{run}"), &Shape { replicas: 1, ..streams::shape(60) })?;
    // Not the same phase of anybody's timer each time.
    let client = streams::start(stack, streams::expose(&app)?, 1, 6000 + 137 * run)?;
    client.wait("streams of each kind", PATIENCE, |report| report.opened.len() == Kind::ALL.len())?;
    let since = Timestamp::now();
    app.set_version("v2")?;
    // No stream is opened after the first of each kind.
    let report = client.stop()?;
    app.rollout_status()?;
    ensure!(report.cut.is_empty(), "streams were cut: {:?}", report.cut);
    let ended = Timestamp::from_microsecond(i64::try_from(report.last_end_unix_us)?)?;
    let writes = stack.cluster.writes(since)?;
    let is_patch = |write: &&hitless_cluster::Write| {
        write.namespace == app.kubectl.namespace() && write.resource == "pods" && write.user.ends_with(":hitless-agent")
    };
    let patch = writes.iter().find(is_patch).context("the agent has not patched the pod")?;
    Ok(patch.received.duration_since(ended).as_secs_f64() * 1000.0)
}
