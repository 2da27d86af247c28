//! What 150,000 pods cost without a cluster: deciding, by the gate alone (`crates/gate/examples/bench.rs`), and knowing them
//! (`crates/api/examples/pods.rs`).

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use hitless_e2e::build::cargo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What one run of the measuring program prints.
#[derive(Deserialize, Serialize)]
struct Run {
    pods: u32,
    nodes: u32,
    rule_sets: u32,
    resident_bytes: u64,
    event_us: f64,
    decision_p50_ms: f64,
    decision_p99_ms: f64,
    full_evaluation_ms: f64,
    allowed: u64,
}

/// What a controller keeps of pods that run.
#[derive(Deserialize, Serialize)]
struct CacheSize {
    pods: u32,
    resident_bytes: u64,
}

#[derive(Serialize)]
struct Figures {
    /// Pods of Deployments: those of one share their labels.
    #[serde(flatten)]
    shared_labels: Run,
    /// Pods of StatefulSets: each has a label set of its own.
    own_labels: Run,
    known_of_deployments: CacheSize,
    known_of_stateful_sets: CacheSize,
}

pub(super) fn run(json: bool) -> anyhow::Result<()> {
    let figures = Figures {
        shared_labels: measure(GATE, &["shared"])?,
        own_labels: measure(GATE, &["own"])?,
        known_of_deployments: measure(PODS, &["shared"])?,
        known_of_stateful_sets: measure(PODS, &["own"])?,
    };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    let Run { pods, nodes, rule_sets, .. } = figures.shared_labels;
    println!("{pods} pods, {nodes} nodes, {rule_sets} PodTransitionRules");
    println!(
        "{:<14} {:>9} {:>9} {:>12} {:>12} {:>15}",
        "", "resident", "event", "decision p50", "p99", "full evaluation"
    );
    for (name, run) in [("Deployments", &figures.shared_labels), ("StatefulSets", &figures.own_labels)] {
        println!(
            "{name:<14} {:>5} MiB {:>6.2} us {:>9.3} ms {:>9.3} ms {:>12.0} ms",
            run.resident_bytes >> 20,
            run.event_us,
            run.decision_p50_ms,
            run.decision_p99_ms,
            run.full_evaluation_ms
        );
    }
    let known = [("Deployments", &figures.known_of_deployments), ("StatefulSets", &figures.known_of_stateful_sets)];
    println!("{:<14} {:>9} {:>12}", "pods as known", "resident", "each");
    for (name, CacheSize { pods, resident_bytes }) in known {
        println!("{name:<14} {:>5} MiB {:>6} bytes", resident_bytes >> 20, resident_bytes / u64::from(*pods));
    }
    Ok(())
}

/// Package and name of a measuring program.
type Program = (&'static str, &'static str);
const GATE: Program = ("hitless-gate", "bench");
const PODS: Program = ("hitless-api", "pods");

/// A process of its own for each, so that the memory is that of what is measured.
pub(super) fn measure<T: DeserializeOwned>((package, example): Program, arguments: &[&str]) -> anyhow::Result<T> {
    let mut cargo = cargo();
    cargo
        .args(["run", "--quiet", "--profile", "bench", "--package", package, "--example", example, "--"])
        .args(arguments);
    let output = cargo.stderr(Stdio::inherit()).output().context("starting cargo")?;
    ensure!(output.status.success(), "the measuring program ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("reading what the measuring program printed")
}
