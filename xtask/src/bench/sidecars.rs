//! What SidecarSets cost a pod that is made: the API server's own time for a pod, with none and with many of them, of which one selects it.

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_e2e::app::PATIENCE;
use hitless_e2e::{Kubectl, Stack, Watch};
use serde::Serialize;
use serde_json::{Value, json};

const RESOURCE: &str = "sidecarsets.apps.kruise.io";
const NAMESPACE: &str = "bench-sidecars";
/// So many SidecarSets, of which the first one selects the pods.
const COUNTS: [usize; 4] = [0, 1, 50, 200];
/// The label by which it does.
const APP: &str = "web";

#[derive(Args)]
pub(super) struct Sidecars {
    /// Pods that are made, as dry runs, for each number of SidecarSets.
    #[arg(long, default_value_t = 300)]
    pods: usize,
    /// How often each number is measured, in turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// How long the API server took for one pod.
#[derive(Serialize)]
struct Row {
    sidecar_sets: usize,
    /// Milliseconds, the mean of each round.
    milliseconds: Vec<f64>,
    median_milliseconds: f64,
    /// Beside no SidecarSet at all.
    ratio: f64,
}

/// A SidecarSet as people have them: a container with some variables and a volume.
fn set(index: usize) -> Value {
    let app = if index == 0 { APP.to_owned() } else { format!("other-{index}") };
    let env: Vec<Value> =
        (0..10).map(|number| json!({"name": format!("V{number}"), "value": "some text of a variable"})).collect();
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": format!("bench-{index:03}")},
        "spec": {"selector": {"matchLabels": {"app": app}}, "volumes": [{"name": "logs", "emptyDir": {}}],
            "containers": [{"name": format!("log-{index:03}"), "image": "example.com/log:1", "env": env,
                "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}, "volumeMounts": [{"name": "logs", "mountPath": "/logs"}]}]}})
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Seconds and number of the dry runs of pods that the API server has answered.
fn spent(kubectl: &Kubectl) -> anyhow::Result<(f64, f64)> {
    let metrics = kubectl.run(&["get", "--raw", "/metrics"])?;
    let of = |name: &str| {
        let lines =
            metrics.lines().filter(|line| line.starts_with(&format!("apiserver_request_duration_seconds_{name}{{")));
        let meant = lines.filter(|line| {
            ["dry_run=\"All\"", "resource=\"pods\"", "verb=\"POST\""].iter().all(|label| line.contains(label))
        });
        meant.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    Ok((of("sum"), of("count")))
}

/// Milliseconds for a pod.
fn measure(kubectl: &Kubectl, pods: usize, is_injected: bool) -> anyhow::Result<f64> {
    let pod = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}"), "labels": {"app": APP}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}})
    };
    let pods: Vec<Value> = (0..pods).map(pod).collect();
    let before = spent(kubectl)?;
    let made = kubectl.feed(&["create", "--dry-run=server", "--output=json"], &list(&pods))?;
    let after = spent(kubectl)?;
    ensure!(made.contains("\"log-000\"") == is_injected, "the pods have not got what they were to get");
    Ok((after.0 - before.0) / (after.1 - before.1) * 1000.0)
}

fn clear(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.run(&["delete", RESOURCE, "--all"])?;
    let injections = Watch::start(kubectl, &["sidecarinjections.hitless.dev"])?;
    injections.wait("nothing to be injected", PATIENCE, |all| {
        all.values().all(|each| each["spec"]["sets"].as_array().is_none_or(Vec::is_empty)).then_some(())
    })
}

fn prepare(kubectl: &Kubectl, count: usize) -> anyhow::Result<()> {
    if count == 0 {
        return Ok(());
    }
    let sets: Vec<Value> = (0..count).map(set).collect();
    kubectl.feed(&["apply", "--server-side"], &list(&sets))?;
    let injections = Watch::start(kubectl, &["sidecarinjections.hitless.dev"])?;
    injections.wait(&format!("{count} SidecarSets to be in force"), PATIENCE, |all| {
        let injected = all.get("sidecarsets")?["spec"]["sets"].as_array()?.len();
        (injected == count).then_some(())
    })
}

pub(super) fn run(options: &Sidecars, stack: &Stack, as_json: bool) -> anyhow::Result<()> {
    let kubectl = Kubectl::new(stack.cluster.clone(), NAMESPACE);
    kubectl.run(&["create", "namespace", NAMESPACE])?;
    let mut rows: Vec<Row> = Vec::new();
    for count in COUNTS {
        prepare(&kubectl, count)?;
        let rounds = (0..options.rounds).map(|_| measure(&kubectl, options.pods, count > 0));
        let milliseconds = rounds.collect::<anyhow::Result<Vec<f64>>>()?;
        let mut sorted = milliseconds.clone();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2).context("--rounds: at least 1")?;
        let ratio = rows.first().map_or(1.0, |none| median / none.median_milliseconds);
        eprintln!("{count:>3} SidecarSets: {median:.2} ms for a pod, {ratio:.2} x");
        rows.push(Row { sidecar_sets: count, milliseconds, median_milliseconds: median, ratio });
        clear(&kubectl)?;
    }
    if as_json {
        println!("{}", json!({"sidecars": rows}));
    }
    Ok(())
}
