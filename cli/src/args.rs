//! The command line.

mod image;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod reference;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::SignedDuration;

use crate::select::Labels;
pub(crate) use target::{ImageArg, LabelArg, Named, Target, TargetKind, target_words, workload_targets};

/// Watches and asks for hitless operations: pods that get a new image or a restart without losing a request.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-hitless",
    bin_name = "kubectl hitless",
    version = crate::version::own(),
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 blocked by a rule, 4 timed out."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which cluster and namespace, as for kubectl itself.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Namespace [default: the context's]
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
    /// Path of the kubeconfig [default: $KUBECONFIG, else the one in the home directory]
    #[arg(long, global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Act as this user, if you may impersonate
    #[arg(long = "as", value_name = "USER", global = true)]
    pub(crate) as_user: Option<String>,
    /// Act as a member of this group; may be given several times
    #[arg(long = "as-group", value_name = "GROUP", global = true, requires = "as_user")]
    pub(crate) as_groups: Vec<String>,
    /// How long the API server may take to answer a request, e.g. 5s, 1m; 0: as long as it takes
    #[arg(long, value_name = "TIME", value_parser = request_timeout, global = true)]
    pub(crate) request_timeout: Option<Duration>,
    /// Only try what would be written: the API server checks it, and keeps nothing
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) dry_run: DryRun,
}

impl ClusterArgs {
    /// Whether what is written is only tried.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run == DryRun::Server
    }
}

/// Who tries what would be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Nobody: it is written
    #[default]
    None,
    /// The API server
    Server,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows what runs, what waits and why
    Status(StatusArgs),
    /// Restarts the containers of pods in place, one after the other as the rules allow; with --new-pods has new pods made
    Restart(RestartArgs),
    /// Gives a workload other images, in one write, also while a rollout is under way
    Set(SetArgs),
    /// Stops rollouts and restarts of workloads: running operations finish, and no new one begins
    Pause(Selection),
    /// Lets operations begin again
    Resume(Selection),
    /// Rolls back a rollout that is in progress, and withdraws restarts that have not begun
    ///
    /// The way back is that of `undo`. It refuses where nothing is under way, so it never begins a rollout by mistake, and where the
    /// rollout under way leads to a version that was complete before, as after a first `cancel`.
    Cancel(TargetArgs),
    /// Waits until a rollout has ended, or can't succeed without you
    ///
    /// Exit code 0: it has ended well; 1: it has failed; 3: a pause, a rule that lets no pod go or the like is in the way, and somebody
    /// has to change that; 4: it was not over in time.
    Wait(WaitArgs),
    /// Rolls a workload back to the template that it had before, also while its rollout is held or halted
    ///
    /// It says to which revision the workload goes. While a way back is under way, a second `undo` without --to-revision changes
    /// nothing; after it has ended, it goes back to where the first one began.
    Undo(UndoArgs),
    /// Tries the version again that was judged bad and halted
    Retry(TargetArgs),
    /// Says why pods wait: each rule's answer, who holds the budget, and the smallest change that would unblock
    ///
    /// Exit code 0: nothing is in the way; 3: a rule or a pause is in the way of a pod; 1: something else is.
    Why(WhyArgs),
    /// Says what a reason means that hitless has given, and what to do; without one lists all
    Explain(ExplainArgs),
    /// Says what a new image would do: which pods would go when, and what would be in the way. Changes nothing
    ///
    /// Exit code 0: all pods would be updated; 3: a rule would stop it; 1: something else would.
    Plan(PlanArgs),
    /// Finds rules and budgets that can never pass, contradict each other, select nothing, or are misspelt
    ///
    /// Exit code 0: no errors; 1: errors were found.
    Lint(LintArgs),
    /// Says what hitless would do to a workload and what is in the way; with --yes opts it in
    ///
    /// Without a workload: each of the namespace. A workload with the annotation hitless.dev/update: native is left out.
    ///
    /// Exit code 0: nothing is in the way; 1: something is.
    Adopt(AdoptArgs),
    /// Checks the installation, and what in this cluster affects it
    ///
    /// Exit code 0: no errors; 1: errors were found.
    Doctor(DoctorArgs),
    /// Shows what hitless has left behind in workloads, Services and pods where no controller runs any more; with --yes puts it back
    ///
    /// Exit code 0: nothing is left; 1: something is.
    Cleanup(CleanupArgs),
    /// Prints the script that completes commands in a shell
    Completion(CompletionArgs),
    /// Prints the versions of this program and of what is in the cluster
    Version(VersionArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only this workload or pod, e.g. deployment/web, sts/db, pod/web-0
    pub(crate) workload: Option<Target>,
    /// Only workloads with these labels, e.g. app=web,tier!=test
    #[arg(short = 'l', long, conflicts_with = "workload")]
    pub(crate) selector: Option<Labels>,
    /// Leave the table's first line out
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "workload"])]
    pub(crate) all_namespaces: bool,
    /// Go on and show every change
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people
    #[default]
    Table,
    /// The same with each pod's images and whether it is Ready
    Wide,
    /// One JSON object, with --watch one a line
    Json,
    /// The same as YAML, with --watch one document for each change
    Yaml,
    /// Only what other commands take, e.g. deployment/web
    Name,
}

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy [default: each of the namespace that --namespace names]
    pub(crate) target: Option<Target>,
    /// Opt it in, if nothing is in the way
    #[arg(long)]
    pub(crate) yes: bool,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Before an installation: whether it would work here, and what to install
    #[arg(long)]
    pub(crate) pre: bool,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Put it back: what is held goes on natively
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only of this program; no cluster is asked
    #[arg(long)]
    pub(crate) client: bool,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, pod/web-0
    pub(crate) target: Target,
    /// Only this container; may be given several times
    #[arg(short, long = "container", value_name = "NAME", value_delimiter = ',')]
    pub(crate) containers: Vec<String>,
    /// By an OperationJob, which reports how far it is and ends by itself [default: for 10 pods and more, where the cluster has them]
    #[arg(long)]
    pub(crate) job: bool,
    /// New pods instead, made natively: also with what is done once for each pod, such as init containers, admission, volumes
    #[arg(long, conflicts_with_all = ["containers", "job", "wait"])]
    pub(crate) new_pods: bool,
    /// Wait until all of them have been restarted
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait, e.g. 90s, 10m
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy
    pub(crate) target: Target,
    /// How long to wait, e.g. 90s, 10m
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(subcommand)]
    pub(crate) what: SetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// Sets images of containers in the template
    Image(SetImageArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SetImageArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy
    pub(crate) target: Target,
    /// The new image; the container may be left out where there is only one
    #[arg(value_name = "[CONTAINER=]IMAGE", required = true)]
    pub(crate) images: Vec<ImageArg>,
}

/// Workloads by name or by their labels.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Selection {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy; several are possible
    #[arg(value_name = "WORKLOAD")]
    pub(crate) targets: Vec<Target>,
    /// Workloads with these labels, e.g. app=web,tier!=test
    #[arg(short = 'l', long, conflicts_with = "targets")]
    pub(crate) selector: Option<Labels>,
    /// All workloads of the namespace
    #[arg(long, conflicts_with_all = ["targets", "selector"])]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy
    pub(crate) target: Target,
    /// Number of the revision, as `kubectl rollout history` counts [default: the last good one]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) to_revision: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// KIND/NAME, e.g. pod/web-0, deployment/web, statefulset/db, or a name alone
    #[arg(value_name = "POD|WORKLOAD")]
    pub(crate) target: Named,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// As it is printed, e.g. ImageNotFetched, Failed/NotReplaced
    pub(crate) reason: Option<String>,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// KIND/NAME, e.g. deployment/web, statefulset/db, daemonset/proxy
    #[arg(value_name = "WORKLOAD")]
    pub(crate) target: Target,
    /// The new image; the container may be left out where there is only one. May be given several times
    #[arg(long = "image", value_name = "[CONTAINER=]IMAGE", required_unless_present = "labels")]
    pub(crate) images: Vec<ImageArg>,
    /// A label of the template and its new value; KEY- takes it away. May be given several times
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<LabelArg>,
    /// Read the objects from this file, directory or - (standard input) instead of the cluster; may be given several times
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How many nodes there are, for workloads from files whose pods are not in them
    #[arg(long, value_name = "N", requires = "files")]
    pub(crate) nodes: Option<u32>,
    /// Seconds that one operation is assumed to take, from leaving service to being back
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) operation_seconds: u32,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// YAML or JSON files, directories, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Also look which pods of the cluster are selected
    #[arg(long)]
    pub(crate) live: bool,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// How an answer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
    /// The same as YAML
    Yaml,
}

/// As kubectl reads it, where 0 has no unit.
fn request_timeout(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { duration(text) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|_| "write for example 90s, 10m or 1h".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a time can't be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn targets_and_times_parse_or_say_what_to_write() {
        let target = |text: &str| text.parse::<Target>();
        assert_eq!(target("web"), Ok(Target { kind: TargetKind::default_workload(), name: "web".into() }));
        assert_eq!(target("po/a"), Ok(Target { kind: TargetKind::Pod, name: "a".into() }));
        assert_eq!(target("sts/a").unwrap().to_string(), "statefulset/a");
        assert_eq!(target("daemonset.apps/a").unwrap().to_string(), "daemonset/a");
        assert!(target("statefulset.apps.kruise.io/a").unwrap_err().contains("deployment/NAME, statefulset/NAME"));
        assert!(target("deploy/").is_err());
        assert_eq!(duration("10m"), Ok(Duration::from_mins(10)));
        assert!(duration("-1s").is_err() && duration("soon").is_err());
    }

    #[test]
    fn flags_may_stand_before_or_behind_the_command() {
        for line in [["kubectl-hitless", "-n", "team", "status"], ["kubectl-hitless", "status", "-n", "team"]] {
            assert_eq!(Cli::try_parse_from(line).unwrap().cluster.namespace.as_deref(), Some("team"));
        }
        assert!(Cli::try_parse_from(["kubectl-hitless", "status", "-A", "-n", "team"]).is_err());
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let parse = |line: &[&str]| Cli::try_parse_from(["kubectl-hitless"].iter().chain(line));
        let cli = parse(&["pause", "-l", "app=web", "--as", "jane", "--as-group", "dev", "--as-group=ops"]).unwrap();
        assert_eq!((cli.cluster.as_user.as_deref(), cli.cluster.as_groups.len()), (Some("jane"), 2));
        for wrong in [
            ["pause", "deployment/web", "--all"].as_slice(),
            &["pause", "-l", "app=web", "deployment/web"],
            &["status", "-l", "app=web", "sts/db"],
            &["status", "--as-group", "dev"],
            &["set", "image", "deployment/web"],
            &["pause"],
            &["resume", "-n", "team"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let parsed = parse(&["status", "sts/db", "-o", "wide", "--no-headers"]).unwrap();
        let Command::Status(status) = parsed.command else { panic!("another command") };
        assert_eq!(
            (status.workload.unwrap().to_string(), status.output, status.no_headers),
            ("statefulset/db".to_owned(), Output::Wide, true)
        );
    }
}
