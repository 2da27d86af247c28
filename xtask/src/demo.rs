//! `cargo xtask demo`: what hitless does, from nothing or on a cluster that somebody has, for a person to watch.

mod acts;
mod article;
mod bad_tag;
mod hints;
mod kruise;
mod progress;
mod say;
mod summary;
mod tutorial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_cluster::{Cluster, Options, UpOptions, missing_requirements};
use hitless_e2e::build::Programs;
use hitless_e2e::measure::Rollout;
use hitless_e2e::{Own, Site, Stack};
use serde::Serialize;

use acts::Told;
use bad_tag::BadTag;
use hints::Hints;
use say::Say;

/// Namespace of the Deployment that `--keep` keeps. The others' names begin with it.
const NAMESPACE: &str = "demo";

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Show {
    /// Deployments, in place and natively.
    Deployments,
    /// KusionStack's tutorial, with its own manifests.
    Tutorial,
    /// What the figures of Alibaba Cloud's article on downtime show, natively and with hitless.
    Article,
    /// The story of OpenKruise's announcement of `maxSurge`: CloneSets in place, with surge, and in phases by partition.
    Kruise,
}

/// Upgrades Deployments in place under load on a real cluster, and natively beside it.
#[derive(Args)]
pub(crate) struct Demo {
    /// What is shown.
    #[arg(value_enum, default_value = "deployments")]
    show: Show,
    /// Of the tutorial: how often its updates are carried out with the rule. Of Kruise's story: how often it is told.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Print one JSON object as the last line, and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Leave the Deployment, and the cluster if it was made for this, and say how to use them.
    #[arg(long)]
    keep: bool,
    /// Name of the cluster that is made.
    #[arg(long, default_value = "demo")]
    name: String,
    /// Requests to send to Deployments that hitless upgrades, at least, in all acts together.
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Requests per second, half of them on fresh and half on kept-alive connections.
    #[arg(long, default_value_t = 600)]
    rate: u32,
    /// Make no cluster, but use the one of this kubeconfig. hitless must be installed there.
    #[arg(long, value_name = "FILE", requires = "image", conflicts_with = "name")]
    kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: repository of the reference server's images, without a tag. You push v1, v2 and v3 there: for each
    /// `docker build --target echo --build-arg VERSION=v1 -t REPO:v1 .` and `docker push REPO:v1`.
    #[arg(long, value_name = "REPO", requires = "kubeconfig")]
    image: Option<String>,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Outcome {
    /// To Deployments that hitless upgraded, in all acts.
    requests: u64,
    /// Of these.
    failed: u64,
    /// Of these Deployments.
    pods_recreated: usize,
    /// Of the first rollout.
    seconds: f64,
    /// Of the first rollout, by hitless itself: agent and controller. Nothing where there is no audit log to read.
    writes_per_pod: Option<f64>,
    /// The first rollout of three replicas. It fetches the image and learns.
    in_place: Rollout,
    /// The second, to an image that the nodes do not have.
    second: Rollout,
    /// A later one, to an image that they have.
    later: Rollout,
    /// The same without hitless.
    native: Rollout,
    /// A single replica.
    single: Rollout,
    bad_tag: BadTag,
    /// From the start of the command, builds included.
    total_seconds: f64,
}

pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    let say = Say::new();
    ensure!(
        options.show == Show::Deployments || options.kubeconfig.is_none(),
        "tutorial, article and kruise bring their own images, so they run on a cluster that is made for them: leave --kubeconfig away"
    );
    if let (Some(kubeconfig), Some(image)) = (&options.kubeconfig, &options.image) {
        say.line("looking for hitless on the cluster, and building the plugin kubectl-hitless");
        let site = Own::attach(kubeconfig, image, &format!("{NAMESPACE}-load"))?;
        let hints = Hints::Own {
            kubeconfig: std::path::absolute(kubeconfig)?,
            image: image.clone(),
            plugin: site.cli.parent().map(Path::to_path_buf).unwrap_or_default(),
        };
        let outcome = show(options, &say, &site).with_context(|| {
            format!("v1, v2 and v3 of {image} must be there, and the nodes must be able to pull them")
        })?;
        return finish(options, &say, outcome, &hints);
    }
    let missing = missing_requirements();
    if !missing.is_empty() {
        eprintln!("The demo needs a real cluster on this machine, and that needs:");
        for what in &missing {
            eprintln!("  - {}: {}", what.what, what.why);
        }
        eprintln!(
            "What works without: `cargo xtask demo --kubeconfig FILE` uses a cluster that you have; `cargo xtask test` runs every test that needs no cluster and lists what it left out."
        );
        return Ok(ExitCode::FAILURE);
    }
    say.line("building hitless (static binaries, as shipped)");
    let programs = Programs::build()?;
    say.line("bringing up a Kubernetes of two nodes");
    let up = UpOptions { name: options.name.clone(), nodes: 2, options: Options::default() };
    let cluster = Arc::new(Cluster::up(&up, &|line| say.line(line))?);
    if let Some(play) = other_show(options) {
        let outcome = Stack::install_on(cluster, programs).and_then(|stack| play(options, &say, &stack));
        if !options.keep {
            Cluster::down(&options.name)?;
        }
        let (is_good, json) = outcome?;
        if options.json {
            println!("{json}");
        }
        return Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let outcome = install_and_show(options, &say, cluster, programs);
    let hints = Hints::Made { name: options.name.clone() };
    if !options.keep {
        say.line("taking the cluster down");
        Cluster::down(&options.name)?;
    } else if outcome.is_err() {
        hints.print_kept();
    }
    finish(options, &say, outcome?, &hints)
}

/// What shows something else than Deployments on a cluster of its own: whether it is as it should be, and the last line of `--json`.
type Play = fn(&Demo, &Say, &Stack) -> anyhow::Result<(bool, String)>;

fn other_show(options: &Demo) -> Option<Play> {
    match options.show {
        Show::Deployments => None,
        Show::Tutorial => Some(|options, say, stack| {
            let outcome = tutorial::play(say, stack, options.runs)?;
            Ok((outcome.is_good(), serde_json::to_string(&outcome)?))
        }),
        Show::Kruise => Some(|options, say, stack| {
            let outcome = kruise::play(say, stack, options.runs)?;
            Ok((outcome.is_good(), serde_json::to_string(&outcome)?))
        }),
        Show::Article => Some(|_, say, stack| {
            let outcome = article::play(say, stack)?;
            Ok((outcome.is_good(), serde_json::to_string(&outcome)?))
        }),
    }
}

fn install_and_show(options: &Demo, say: &Say, cluster: Arc<Cluster>, programs: Programs) -> anyhow::Result<Outcome> {
    say.line("installing hitless: kubectl apply -k manifests/crds, kubectl apply -k manifests");
    let stack = Stack::install_on(cluster, programs)?;
    show(options, say, &stack)
}

fn show(options: &Demo, say: &Say, site: &dyn Site) -> anyhow::Result<Outcome> {
    let Told { first, second, later, native, single, bad_tag } = acts::play(options, say, site)?;
    let ours = [&first, &second, &later, &single];
    Ok(Outcome {
        requests: ours.iter().map(|act| act.requests).sum::<u64>() + bad_tag.requests,
        failed: ours.iter().map(|act| act.failed).sum::<u64>() + bad_tag.failed,
        pods_recreated: ours.iter().map(|act| act.pods_recreated).sum::<usize>() + bad_tag.pods_recreated,
        seconds: first.seconds,
        writes_per_pod: first.own_writes_per_pod(),
        in_place: first,
        second,
        later,
        native,
        single,
        bad_tag,
        total_seconds: say.seconds(),
    })
}

fn finish(options: &Demo, say: &Say, outcome: Outcome, hints: &Hints) -> anyhow::Result<ExitCode> {
    let outcome = Outcome { total_seconds: say.seconds(), ..outcome };
    if options.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("\n{}", summary::text(&outcome));
    }
    if options.keep {
        hints.print_kept();
    } else if !options.json {
        hints.print_next();
    }
    let good = outcome.failed == 0 && outcome.pods_recreated == 0 && outcome.bad_tag.pods_out_of_service == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
