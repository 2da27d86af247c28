//! `cargo xtask cluster …`: thin words around the library `hitless-cluster`.

mod report;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use hitless_cluster::image::ImageSpec;
use hitless_cluster::{Cluster as Up, Place, Tools, UpOptions};
use jiff::Timestamp;

use crate::options::Made;

/// The arguments of `cargo xtask cluster`.
#[derive(Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build Kubernetes, etcd, containerd, runc, CNI plugins and a registry from their pinned Go modules.
    Build(Made),
    /// Build Helm 3 and Helm 4 from their pinned Go module, for the tests of the chart.
    BuildHelm,
    /// Bring a cluster up. What an interrupted `up` has left is removed first.
    Up {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        made: Made,
    },
    /// Remove a cluster: processes, mounts, namespaces, cgroups, files.
    Down(Name),
    /// Show the clusters of this checkout, and which parts of them have died.
    List {
        /// One JSON list.
        #[arg(long)]
        json: bool,
    },
    /// Run a command inside a cluster, with KUBECONFIG set and the cluster's kubectl on PATH; `kubectl hitless` too, where this
    /// repository has installed hitless.
    Exec {
        #[command(flatten)]
        name: Name,
        /// On which node (1, 2, …; or n1, n2, …); without it in the control plane's network namespace.
        #[arg(long, value_parser = node)]
        node: Option<u8>,
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Make an image of a static binary or a directory, and push it into a cluster's registry.
    Image {
        /// NAME:TAG; pods use the same.
        image: String,
        /// The binary (it becomes the entrypoint) or the directory.
        #[arg(long)]
        from: PathBuf,
        /// An environment variable of the image, as KEY=VALUE. May be repeated.
        #[arg(long, value_parser = variable)]
        env: Vec<(String, String)>,
        #[command(flatten)]
        name: Name,
    },
    /// Count the API writes since a moment, by user, verb, resource and HTTP code.
    Writes {
        /// A duration before now (60s, 5m) or an RFC 3339 time.
        #[arg(long)]
        since: String,
        /// One JSON list.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        name: Name,
    },
}

#[derive(Args)]
struct Name {
    /// The cluster's name.
    #[arg(long, default_value = "dev")]
    name: String,
}

/// Runs one of the verbs.
pub(crate) fn run(arguments: Cluster) -> Result<ExitCode> {
    match arguments.verb {
        Verb::Build(made) => {
            let tools = Tools::ensure(made.options(), &progress)?;
            println!("all built; kubectl is {}", tools.path("kubectl")?.display());
        }
        Verb::BuildHelm => {
            let [helm_3, helm_4] = hitless_cluster::helm(&progress)?;
            println!("built: {} and {}", helm_3.display(), helm_4.display());
        }
        Verb::Up { name: Name { name }, made } => up(&made.named(&name))?,
        Verb::Down(Name { name }) => {
            Up::down(&name)?;
            println!("cluster {name} is removed");
        }
        Verb::List { json } => report::clusters(&Up::list()?, json)?,
        Verb::Exec { name: Name { name }, node, command } => return exec(&name, node, &command),
        Verb::Image { image, from, env, name: Name { name } } => push(&name, &image, &from, &env)?,
        Verb::Writes { since, json, name: Name { name } } => {
            let since = hitless_cluster::parse_since(&since, Timestamp::now())?;
            let writes = Up::open(&name)?.writes(since)?;
            report::writes(&hitless_cluster::count_writes(&writes), json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn up(options: &UpOptions) -> Result<()> {
    let begin = Instant::now();
    let cluster = Up::up(options, &progress)?;
    let (name, seconds) = (cluster.name(), begin.elapsed().as_secs_f64());
    println!("cluster {name} is up with {} after {seconds:.1} s", cluster.node_names().join(", "));
    println!("  {}", cluster.options());
    println!("  cargo xtask cluster exec --name {name} -- kubectl get nodes");
    Ok(())
}

/// Becomes the command, so that its signals, terminal and exit code are as if it had been typed.
fn exec(name: &str, node: Option<u8>, words: &[String]) -> Result<ExitCode> {
    let [program, arguments @ ..] = words else { bail!("there is no command to run") };
    let place = node.map_or(Place::ControlPlane, Place::Node);
    let mut command = Up::open(name)?.command(place, program)?;
    Err(command.args(arguments).exec()).context("cannot run nsenter (Debian package util-linux)")
}

fn push(name: &str, image: &str, from: &std::path::Path, env: &[(String, String)]) -> Result<()> {
    let spec = if from.is_dir() { ImageSpec::from_directory(from) } else { ImageSpec::from_binary(from) }?;
    let spec = env.iter().fold(spec, |spec, (key, value)| spec.with_env(key, value));
    let reference = Up::open(name)?.push_image(image, &spec.build()?)?;
    println!("{reference}");
    Ok(())
}

fn node(text: &str) -> Result<u8, String> {
    let number = text.strip_prefix('n').unwrap_or(text).parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "use the number of a node, from 1, or its name: n1".into())
}

fn variable(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "use KEY=VALUE".into())
}

fn progress(line: &str) {
    eprintln!("{line}");
}
