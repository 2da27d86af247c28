//! What hitless costs when nothing happens, and while many pods are held.

mod crowd;
mod holding;
mod hostile;
mod many;

use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use hitless_e2e::app::Shape;
use hitless_e2e::{App, Stack};
use serde::Serialize;
use serde_json::Value;

use super::process::{cpu_time, memory_mib};
use crowd::Crowd;
use holding::Holding;
use hostile::{Hosted, Needs};
use many::{Many, What};

#[derive(Args)]
pub(super) struct Footprint {
    /// Pods of an opted-in Deployment on the two nodes together.
    #[arg(long, default_value_t = 60)]
    pods: u32,
    /// How long CPU time is measured, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Single-replica pods of one node that are changed at once.
    #[arg(long, default_value_t = 50)]
    holds: usize,
    /// ReplicaSets of about 25 KiB that have not opted in. 0: that is left out.
    #[arg(long, default_value_t = 20_000)]
    replica_sets: usize,
    /// Pods that have not opted in, on no node. 0: that is left out.
    #[arg(long, default_value_t = 150_000)]
    other_pods: usize,
    /// Connections of one pod that nobody uses; full tens of thousands. 0: that is left out.
    #[arg(long, default_value_t = 200_000)]
    connections: u32,
    /// Only what controllers and an agent need beside objects that are made to take much memory.
    #[arg(long)]
    hostile_only: bool,
}

#[derive(Serialize)]
struct Process {
    name: String,
    node: String,
    rss_mib: f64,
    /// Thousandths of a core.
    cpu_millicores: f64,
}

#[derive(Serialize)]
struct Figures {
    pods: u32,
    processes: Vec<Process>,
    holding: Holding,
    replica_sets: Option<Many>,
    other_pods: Option<Many>,
    crowd: Option<Crowd>,
    hostile: Hosted,
    binary_mib: Vec<(String, f64)>,
}

pub(super) fn run(options: &Footprint, stack: &Stack, json: bool) -> anyhow::Result<()> {
    if options.hostile_only {
        let hostile = hostile::measure(stack)?;
        if json {
            println!("{}", serde_json::json!({"hostile": hostile}));
        } else {
            print_hostile(&hostile);
        }
        return Ok(());
    }
    let shape = Shape { replicas: options.pods, ..Shape::default() };
    let app = App::start(&stack.cluster, "bench-idle", &shape)?;
    let pods = stack.system().list(&["pods"])?;
    let processes =
        pods.iter().map(|pod| Ok((pod, hitless_e2e::stack::main_process(pod)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let before = processes.iter().map(|(_, pid)| cpu_time(*pid)).collect::<anyhow::Result<Vec<_>>>()?;
    // What is measured is the passing of this time, so there is no event to wait for.
    std::thread::sleep(Duration::from_secs(options.seconds));
    let mut rows = Vec::new();
    for ((pod, pid), before) in processes.iter().zip(before) {
        let used = cpu_time(*pid)?.saturating_sub(before);
        rows.push(Process {
            name: text(&pod["metadata"]["labels"]["app.kubernetes.io/name"]),
            node: text(&pod["spec"]["nodeName"]),
            rss_mib: memory_mib(*pid, "VmRSS:")?,
            cpu_millicores: used.as_secs_f64() * 1000.0 / Duration::from_secs(options.seconds).as_secs_f64(),
        });
    }
    let programs = [("hitless-agent", &stack.programs.agent), ("hitless-controller", &stack.programs.controller)];
    let binary_mib =
        programs.iter().map(|(name, path)| Ok(((*name).to_owned(), file_mib(path)?))).collect::<anyhow::Result<_>>()?;
    drop(app);
    said("processes", &rows)?;
    let holding = holding::measure(stack, options.holds)?;
    said("holding", &holding)?;
    let many = |what: What, count: usize| {
        let count = Some(count).filter(|count| *count > 0);
        count.map(|count| many::measure(stack, what, count)).transpose()
    };
    let hostile = hostile::measure(stack)?;
    said("hostile", &hostile)?;
    let replica_sets = many(What::ReplicaSets, options.replica_sets)?;
    said("replica_sets", &replica_sets)?;
    let crowd = Some(options.connections).filter(|count| *count > 0).map(crowd::measure).transpose()?;
    said("crowd", &crowd)?;
    let other_pods = many(What::Pods, options.other_pods)?;
    let figures =
        Figures { pods: options.pods, processes: rows, holding, replica_sets, other_pods, crowd, hostile, binary_mib };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    println!("{} pods on 2 nodes, idle for {} s", figures.pods, options.seconds);
    for process in &figures.processes {
        println!(
            "{:<20} {:<4} {:6.1} MiB RSS  {:5.2} mCPU",
            process.name, process.node, process.rss_mib, process.cpu_millicores
        );
    }
    let Holding { pods, at_once, rss_mib, most_mib, after_mib } = &figures.holding;
    println!("{pods} single replicas of one node changed at once: {at_once} in a Hold at the same moment");
    println!("their agent: {rss_mib:.1} MiB RSS then, {most_mib:.1} at most, {after_mib:.1} afterwards");
    print_hostile(&figures.hostile);
    for (name, many) in [("ReplicaSets", &figures.replica_sets), ("pods", &figures.other_pods)] {
        if let Some(Many { count, kib_each, rss_mib, most_mib }) = many {
            println!(
                "controllers beside {count} {name} of {kib_each} KiB that have not opted in: {rss_mib:.1?} MiB RSS, {most_mib:.1?} at most"
            );
        }
    }
    if let Some(Crowd { connections, before_kib, grown_kib, closing_seconds }) = &figures.crowd {
        println!(
            "{connections} connections of one pod: {grown_kib} KiB more than the {before_kib} KiB before; closed in {closing_seconds:.0} s"
        );
    }
    for (name, size) in &figures.binary_mib {
        println!("{name:<20} {size:6.1} MiB binary");
    }
    Ok(())
}

/// What has been measured is said at once: half an hour of it would be lost if what follows failed.
fn said(name: &str, figures: &impl Serialize) -> anyhow::Result<()> {
    eprintln!("{name}: {}", serde_json::to_string(figures)?);
    Ok(())
}

fn print_hostile(hostile: &Hosted) {
    let Hosted { deployments, pods_of_a_node, controllers, agent } = hostile;
    let controllers = controllers.iter().map(|each| ("controller", each));
    println!("beside {deployments} Deployments and {pods_of_a_node} pods of a node that are made to take much memory:");
    for (name, Needs { rss_mib, most_mib, restarts }) in controllers.chain([("agent", agent)]) {
        println!("{name:<20} {rss_mib:6.1} MiB RSS, {most_mib:.1} at most, {restarts} restarts");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn file_mib(path: &Path) -> anyhow::Result<f64> {
    let bytes = u32::try_from(fs::metadata(path)?.len())?;
    Ok(f64::from(bytes) / 1024.0 / 1024.0)
}
