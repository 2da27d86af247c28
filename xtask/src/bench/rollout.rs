//! Seconds and failures of an upgrade of three replicas, one at a time, in three ways.

use std::collections::BTreeMap;

use clap::Args;
use hitless_e2e::app::Shape;
use hitless_e2e::measure::{self, Rollout as Measured};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack};
use serde::Serialize;

use super::spread::Spread;

#[derive(Args)]
pub(super) struct Rollout {
    /// How often each way is measured.
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Replicas.
    #[arg(long, default_value_t = 3)]
    replicas: u32,
}

#[derive(Default, Serialize)]
struct Figures {
    replicas: u32,
    hitless: Vec<Measured>,
    raw_seconds: Vec<f64>,
    native: Vec<Measured>,
    hitless_median_seconds: f64,
    raw_median_seconds: f64,
    native_median_seconds: f64,
    hitless_per_pod_over_raw_per_pod: f64,
    hitless_writes_per_pod: BTreeMap<String, f64>,
}

pub(super) fn run(options: &Rollout, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let mut figures = Figures { replicas: options.replicas, ..Figures::default() };
    let shape = Shape { replicas: options.replicas, ..Shape::default() };
    // One at a time, as in the table of peers.
    let native = serde_json::json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}});
    let native = Shape { update: None, gate: false, patch: native, ..shape.clone() };
    // A namespace of its own for each run: no run inherits the kubelet's back-off of an earlier one.
    for run in 1..=options.runs {
        let app = App::start(&stack.cluster, &format!("bench-hitless-{run}"), &shape)?;
        figures.hitless.push(measure::rollout(stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})?);
        drop(app);
        let app = App::start(&stack.cluster, &format!("bench-raw-{run}"), &native)?;
        figures.raw_seconds.push(measure::raw_patches(&app, "v2")?);
        drop(app);
        let app = App::start(&stack.cluster, &format!("bench-native-{run}"), &native)?;
        figures.native.push(measure::rollout(stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})?);
        if let (Some(ours), Some(raw), Some(theirs)) =
            (figures.hitless.last(), figures.raw_seconds.last(), figures.native.last())
        {
            eprintln!("{}", row(&format!("run {run} hitless"), ours));
            for failure in &ours.failures {
                let at = jiff::Timestamp::from_millisecond(i64::try_from(ours.started_unix_ms + failure.due_ms)?)?;
                eprintln!("  failed: due {at}, {failure:?}");
            }
            eprintln!("run {run} raw       {raw:6.2} s");
            eprintln!("{}", row(&format!("run {run} native "), theirs));
        }
    }
    let median = |all: &[Measured]| all.iter().map(|one| one.seconds).collect::<Spread>().median();
    figures.hitless_median_seconds = median(&figures.hitless);
    figures.raw_median_seconds = figures.raw_seconds.iter().copied().collect::<Spread>().median();
    figures.native_median_seconds = median(&figures.native);
    figures.hitless_per_pod_over_raw_per_pod = figures.hitless_median_seconds / figures.raw_median_seconds;
    for component in figures.hitless.iter().flat_map(|one| one.writes_per_pod.keys()) {
        let of = |one: &Measured| one.writes_per_pod.get(component).copied().unwrap_or_default();
        let median = figures.hitless.iter().map(of).collect::<Spread>().median();
        figures.hitless_writes_per_pod.insert(component.clone(), median);
    }
    if json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    let pods = f64::from(options.replicas);
    println!(
        "medians of {} runs, {} replicas one at a time, 100 fresh + 100 keep-alive requests/s",
        options.runs, options.replicas
    );
    for (name, seconds) in [
        ("hitless", figures.hitless_median_seconds),
        ("raw patches", figures.raw_median_seconds),
        ("native", figures.native_median_seconds),
    ] {
        println!("{name:<12} {seconds:6.2} s, {:5.2} s per pod", seconds / pods);
    }
    println!("hitless over raw patches, per pod: {:.2}", figures.hitless_per_pod_over_raw_per_pod);
    println!("API writes per pod with hitless: {:?}", figures.hitless_writes_per_pod);
    Ok(())
}

fn row(name: &str, one: &Measured) -> String {
    format!(
        "{name} {:6.2} s, requests {}, failed fresh {}, keep-alive {} (unretried {}), pods made anew {}",
        one.seconds,
        one.requests,
        one.failed_fresh,
        one.failed_keepalive,
        one.failed_keepalive_unretried,
        one.pods_recreated
    )
}
