//! The end-to-end tests: a cluster, hitless on it, and the test binaries in five phases.

mod state;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use hitless_cluster::{Cluster, IpFamily, Options, Place, UpOptions};
use hitless_e2e::Stack;
use hitless_e2e::build::{Programs, workspace};
use hitless_e2e::stack::{CLUSTER, TIMES};

use super::binaries::{Binary, Job, run_all};
use super::minutes::Minutes;
use super::space::Space;
use super::{Test, again};
use state::History;

/// Tests that look at nothing but namespaces and nodes' answers of their own, so any others may run beside them; the longest
/// first. `gate` has a budget of the whole cluster, but for pods with a label that only its own have.
///
/// All others but those of [`CALM`] run alone: `faults` and `hold_faults` kill agents and controllers or take them away, `traffic`
/// kills controllers, `kuperator` switches kinds off, `hooks` gives the agents other rights, which restarts them, `policies` stops
/// the controller, `refusing` replaces the guard's policies, `uninstall` removes everything. A new file runs alone until somebody has looked.
const SHARING: [&str; 18] = [
    "rollout",
    "colla_set",
    "restart_annotations",
    "gate",
    "stateful_set",
    "rules",
    "blips",
    "sidecars",
    "hold",
    "reload",
    "endpoint",
    "colla_set_claims",
    "clone_set",
    "clocks",
    "daemon_set",
    "streams",
    "pod_ops_lifecycle",
    "families",
];
/// These share the cluster, too, but not the machine with much else. In `servers` a real server has to be back from a Hold before
/// its clients' time is up; beside `rollout` on a busy machine some were not. The others wait for a registry or for another test's
/// pulls most of the time: a node's kubelet pulls one image at a time.
const CALM: [&str; 6] = ["servers", "images", "companion", "operation_job", "docs", "mesh"];
/// How many test binaries run at a time, and how many tests of each. Six at most: they wait most of the time. Those that disturb the
/// installation take turns by themselves.
#[derive(Clone, Copy)]
struct AtATime {
    binaries: usize,
    tests: usize,
}

impl AtATime {
    /// Most of these files have one or two tests.
    const SHARING: Self = Self { binaries: 3, tests: 2 };
    const CALM: Self = Self { binaries: 2, tests: 3 };
    const ALONE: Self = Self { binaries: 1, tests: 3 };
}

/// The cluster that most tests run on.
const DEFAULT: &str = "e2e";

/// It leaves other policies for a moment, and an installation that is minutes younger: after all others. Where the API server has no
/// mutating admission policies it runs alone: all others need a workload to be held.
const LATE: &str = "refusing";
/// The end of an installation.
const LAST: &str = "uninstall";
/// The chart in place of the installation, which is made anew several times: behind what needs policies that were not (manifests/README.md,
/// "Installed again").
pub(super) const HELM: &str = "helm";

/// Where everything is run, this file has a cluster of its own, whose pods have addresses of both families.
const DUAL_STACK: &str = "families";

/// Runs them. `alone` waits until what keeps processors busy beside them has ended.
pub(super) fn run(
    options: &Test,
    minutes: &Minutes,
    programs: Programs,
    binaries: &[Binary],
    alone: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (file, filter) = chosen(options, binaries);
    let made = options.made.options();
    let all = || binaries.iter().filter(|binary| binary.is_end_to_end());
    let kubernetes = made.kubernetes;
    let can_run = |binary: &Binary| kubernetes.has_mutating_policies() || binary.name == LATE;
    let wanted = |binary: &&Binary| file.is_none_or(|file| binary.name == file) && can_run(binary);
    ensure!(
        all().any(|binary| wanted(&binary)),
        "Kubernetes {kubernetes} as it is has no mutating admission policies: there {LATE} runs alone"
    );
    let (dual_stack, others): (Vec<&Binary>, Vec<&Binary>) =
        all().filter(wanted).partition(|binary| is_everything(options) && binary.name == DUAL_STACK);
    Space::left()?.ensure_enough()?;
    on_cluster(options, (DEFAULT, made), minutes, programs.clone(), (&others, filter), alone)?;
    if !dual_stack.is_empty() {
        let dual = Options { ip_family: IpFamily::Dual, ..made };
        on_cluster(options, ("e2e-dual", dual), minutes, programs, (&dual_stack, filter), alone)?;
    }
    Ok(())
}

fn is_everything(options: &Test) -> bool {
    options.filter.is_none() && options.made.options() == Options::default()
}

/// Test binaries, and a part of the names of the tests that are to run.
type Tests<'t> = (&'t [&'t Binary], Option<&'t str>);

fn on_cluster(
    options: &Test,
    (name, made): (&str, Options),
    minutes: &Minutes,
    programs: Programs,
    tests: Tests<'_>,
    alone: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let say = |line: &str| minutes.say(line);
    let up = UpOptions { name: name.to_owned(), nodes: options.made.nodes(), options: made };
    let up = || Ok(Cluster::up(&up, &say)?);
    let cluster = Arc::new(minutes.work(&format!("bring up cluster {name}"), up)?);
    let outcome = install_and_test(options, minutes, &cluster, programs, tests, alone);
    if options.keep {
        minutes.say(&format!(
            "The cluster {name} is left up: `cargo xtask cluster exec --name {name} -- kubectl get pods -A`"
        ));
    } else {
        minutes.work(&format!("take down cluster {name}"), || Ok(Cluster::down(name)?))?;
    }
    outcome
}

fn install_and_test(
    options: &Test,
    minutes: &Minutes,
    cluster: &Arc<Cluster>,
    programs: Programs,
    (binaries, filter): Tests<'_>,
    alone: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stack = minutes
        .work(&format!("install hitless on {}", cluster.name()), || Stack::install_on(Arc::clone(cluster), programs))?;
    let times = workspace().join(".cache/e2e-times");
    fs::write(&times, "")?;
    let phases = phases(binaries.iter().copied());
    let mut history = History::default();
    let mut run = |binaries: &[&Binary], at_a_time: AtATime| -> anyhow::Result<()> {
        let jobs = binaries.iter().map(|binary| job(filter, &stack, &times, (binary, at_a_time)));
        let jobs = jobs.collect::<anyhow::Result<VecDeque<Job>>>()?;
        let before = minutes.failed().len();
        history.during(&stack, || run_all(minutes, jobs, at_a_time.binaries));
        let failed = &minutes.failed()[before..];
        if !failed.is_empty() {
            minutes.note(format!("The installation until {} had failed:{}", failed.join(", "), history.text()));
        }
        Ok(())
    };
    run(&phases.sharing, AtATime::SHARING)?;
    // What needs processors, below all of this, has ended by the time that those are done.
    run(&phases.alone, AtATime::ALONE)?;
    run(&phases.calm, AtATime::CALM)?;
    run(&phases.late, AtATime::ALONE)?;
    // An uninstall is the end of this installation, so it can't run twice.
    let twice = [&phases.sharing, &phases.alone, &phases.calm, &phases.late];
    let twice: Vec<&Binary> = twice.into_iter().flatten().copied().collect();
    again::run(minutes, &twice, alone, |binary| job(filter, &stack, &times, (binary, AtATime::ALONE)))?;
    run(&phases.last, AtATime::ALONE)?;
    let mut rows: Vec<String> = fs::read_to_string(&times)?.lines().map(str::to_owned).collect();
    rows.sort();
    minutes.say(&format!("\nSeconds of each end-to-end test:\n{}", rows.join("\n")));
    ensure!(!rows.is_empty() || options.filter.is_some(), "no end-to-end test has run");
    Ok(())
}

/// What the user wants to run: a file, or tests by a part of their names; all if neither is there.
fn chosen<'o>(options: &'o Test, binaries: &[Binary]) -> (Option<&'o str>, Option<&'o str>) {
    let filter = options.filter.as_deref();
    let file = filter.filter(|name| binaries.iter().any(|binary| binary.is_end_to_end() && binary.name == **name));
    (file, filter.filter(|_| file.is_none()))
}

/// The test binaries in the order of their phases.
#[derive(Default)]
struct Phases<'b> {
    sharing: Vec<&'b Binary>,
    alone: Vec<&'b Binary>,
    calm: Vec<&'b Binary>,
    late: Vec<&'b Binary>,
    last: Vec<&'b Binary>,
}

fn phases<'b>(all: impl Iterator<Item = &'b Binary>) -> Phases<'b> {
    let mut phases = Phases::default();
    for binary in all {
        let name = binary.name.as_str();
        let phase = match name {
            LAST | HELM => &mut phases.last,
            LATE => &mut phases.late,
            _ if SHARING.contains(&name) => &mut phases.sharing,
            _ if CALM.contains(&name) => &mut phases.calm,
            _ => &mut phases.alone,
        };
        phase.push(binary);
    }
    let place = |list: &[&str], binary: &Binary| list.iter().position(|name| *name == binary.name);
    phases.sharing.sort_by_key(|binary| place(&SHARING, binary));
    phases.calm.sort_by_key(|binary| place(&CALM, binary));
    phases.last.sort_by_key(|binary| place(&[LAST, HELM], binary));
    phases
}

/// The tests talk to the API server themselves, so they run in the control plane's network namespace.
fn job(
    filter: Option<&str>,
    stack: &Stack,
    times: &Path,
    (binary, at_a_time): (&Binary, AtATime),
) -> anyhow::Result<Job> {
    let mut command = binary.command(|program| Ok(stack.cluster.command(Place::ControlPlane, program)?))?;
    command.args(["--test-threads", &at_a_time.tests.to_string()]).args(filter);
    command.env(CLUSTER, stack.cluster.name()).env(TIMES, times);
    let title = match stack.cluster.name() {
        DEFAULT => binary.title(),
        other => format!("{} on {other}", binary.title()),
    };
    Ok((title, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_the_cluster_is_there_and_uninstall_comes_last() {
        for name in SHARING.into_iter().chain(CALM).chain([LATE, LAST, HELM, DUAL_STACK]) {
            let folder = workspace().join("tests/e2e/tests");
            let (file, of_folder) = (folder.join(format!("{name}.rs")), folder.join(name).join("main.rs"));
            assert!(file.is_file() || of_folder.is_file(), "{}", file.display());
        }
    }
}
