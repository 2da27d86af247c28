//! `cargo xtask demo`: the main job, from nothing, for a person to watch.

mod view;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use hitless_cluster::{Cluster, UpOptions, missing_requirements};
use hitless_e2e::app::Shape;
use hitless_e2e::build::Programs;
use hitless_e2e::measure::{self, Rollout};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Watch};
use serde::Serialize;

use view::View;

/// Upgrades a Deployment in place under load on a real cluster, and natively beside it.
#[derive(Args)]
pub(crate) struct Demo {
    /// Print one JSON object as the last line, and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Leave the cluster up and say how to use it.
    #[arg(long)]
    keep: bool,
    /// Name of the cluster.
    #[arg(long, default_value = "demo")]
    name: String,
    /// Requests to send during the in-place upgrade, at least.
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Requests per second, half of them on fresh and half on kept-alive connections.
    #[arg(long, default_value_t = 600)]
    rate: u32,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Outcome {
    requests: u64,
    failed: u64,
    seconds: f64,
    pods_recreated: usize,
    /// Of hitless itself: agent and controller.
    writes_per_pod: f64,
    in_place: Rollout,
    native: Rollout,
    /// From the start of the command, builds included.
    total_seconds: f64,
}

pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let missing = missing_requirements();
    if !missing.is_empty() {
        eprintln!("The demo needs a real cluster on this machine, and that needs:");
        for what in &missing {
            eprintln!("  - {}: {}", what.what, what.why);
        }
        eprintln!(
            "What works without: `cargo xtask test` runs every test that needs no cluster and lists what it left out."
        );
        return Ok(ExitCode::FAILURE);
    }
    let say = |text: &str| eprintln!("[{:5.1} s] {text}", begin.elapsed().as_secs_f64());
    say("building hitless (static binaries, as shipped)");
    let programs = Programs::build()?;
    say("bringing up a Kubernetes of two nodes");
    let options_up = UpOptions { name: options.name.clone(), nodes: 2 };
    let cluster = Arc::new(Cluster::up(&options_up, &|line| say(line))?);
    let outcome = show(options, begin, &say, cluster, programs);
    if options.keep {
        keep_hint(&options.name);
    } else {
        say("taking the cluster down");
        Cluster::down(&options.name)?;
    }
    let outcome = outcome?;
    let good = outcome.failed == 0 && outcome.pods_recreated == 0;
    if options.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("{}", view::summary(&outcome.in_place, &outcome.native));
        if !options.keep {
            println!("\nNext:");
            println!(
                "  cargo xtask demo --keep                                  # leave the cluster up and play with it"
            );
            println!(
                "  cargo xtask cluster exec --name demo -- kubectl hitless status -A -w   # after that, in a second terminal"
            );
            println!("  cargo xtask test                                         # every test, on a real cluster too");
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(
    options: &Demo,
    begin: Instant,
    say: &dyn Fn(&str),
    cluster: Arc<Cluster>,
    programs: Programs,
) -> anyhow::Result<Outcome> {
    say("installing hitless: kubectl apply -k manifests");
    let stack = Stack::install_on(cluster, programs)?;
    let rate =
        Rate { fresh: options.rate / 2, keepalive: options.rate - options.rate / 2, connections: 20, delay_ms: 0 };
    let live = std::io::stderr().is_terminal();

    say("Deployment web: 3 replicas of a server that exits at once on SIGTERM, behind a Service; opted in by");
    say("  metadata.annotations: {hitless.dev/update: in-place}");
    let app = App::start(&stack.cluster, "demo", &Shape::default())?;
    say(&format!("load: {} requests/s on fresh and {} on kept-alive connections", rate.fresh, rate.keepalive));
    say("$ kubectl set image deployment/web web=…:v2");
    let transitions = Watch::start(&stack.system(), &["nodetransitions"])?;
    let mut view = View::new(live);
    let in_place = measure::rollout(&stack, &app, "v2", rate, options.requests, &mut |app, report| {
        view.show(app, Some(&transitions), report);
    })?;
    view.end();
    drop(app);

    say("the same without hitless: a Deployment that did not opt in, rolled by Kubernetes");
    let app = App::start(&stack.cluster, "demo-native", &Shape { update: None, gate: false, ..Shape::default() })?;
    say("$ kubectl set image deployment/web web=…:v2");
    let mut view = View::new(live);
    let native = measure::rollout(&stack, &app, "v2", rate, 0, &mut |app, report| {
        view.show(app, None, report);
    })?;
    view.end();
    let ours = ["hitless-agent", "hitless-controller"];
    let writes_per_pod = ours.iter().filter_map(|who| in_place.writes_per_pod.get(*who)).sum();
    Ok(Outcome {
        requests: in_place.requests,
        failed: in_place.failed,
        seconds: in_place.seconds,
        pods_recreated: in_place.pods_recreated,
        writes_per_pod,
        in_place,
        native,
        total_seconds: begin.elapsed().as_secs_f64(),
    })
}

fn keep_hint(name: &str) {
    eprintln!("\nThe cluster is up. Try:");
    eprintln!("  cargo xtask cluster exec --name {name} -- kubectl get pods -A");
    eprintln!(
        "  cargo xtask cluster exec --name {name} -- kubectl -n demo set image deployment/web web=hitless.test/echo:v3"
    );
    eprintln!("  cargo xtask cluster down --name {name}");
}
