//! `kubectl hitless plan`: what a new image would do. The controller's round decides again and again about a copy of what is
//! there, with an assumed time for each operation; nothing is written.

mod from_files;
mod helpers;
mod notes;
mod pace;
mod place;
mod report;
mod simulate;
mod target;
mod text;
pub(crate) mod world;

use jiff::Timestamp;
use kube::Client;

use crate::args::{Format, PlanArgs, TargetKind, workload_targets};
use crate::failure::Failure;
use crate::files;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::status::observe_all;
use report::{Ending, Report};
use simulate::Assumed;
use target::Way;

/// Namespace of objects from files that name none.
const DEFAULT_NAMESPACE: &str = "default";

pub(crate) async fn of_cluster(client: Client, namespace: String, arguments: &PlanArgs) -> Result<(), Failure> {
    let (mut snapshot, now) = (source::read(&client, &Scope::Namespace(namespace)).await?, Timestamp::now());
    let assumed = Assumed { operation_seconds: arguments.operation_seconds, from_files: false };
    let refused = helpers::refused(&client, &mut snapshot, arguments, now).await;
    let mut report = plan(&snapshot, arguments, &assumed, now)?;
    report.notes.extend(refused);
    show(&report, arguments.output)
}

pub(crate) fn of_files(namespace: Option<&str>, arguments: &PlanArgs) -> Result<(), Failure> {
    let (objects, unreadable) = files::read(&arguments.files, namespace.unwrap_or(DEFAULT_NAMESPACE));
    if let Some(first) = unreadable.first() {
        return Err(Failure::Failed(format!("{}:{}: {}", first.file, first.line, first.text)));
    }
    let namespace = place::namespace(&objects, namespace, &arguments.target)?;
    let (mut snapshot, notes) = from_files::snapshot(&objects, arguments.nodes)?;
    snapshot.namespace = Some(namespace);
    let assumed = Assumed { operation_seconds: arguments.operation_seconds, from_files: true };
    let mut report = plan(&snapshot, arguments, &assumed, Timestamp::now())?;
    report.notes.extend(notes);
    show(&report, arguments.output)
}

fn plan(snapshot: &Snapshot, arguments: &PlanArgs, assumed: &Assumed, now: Timestamp) -> Result<Report, Failure> {
    if arguments.target.kind == TargetKind::Pod {
        return Err(Failure::Usage(format!("an image is a workload's; write {}", workload_targets())));
    }
    let change = target::change(snapshot, &arguments.target, &arguments.images, &arguments.labels)?;
    let mut report = Report::new(&change, assumed, now);
    report.notes.extend(snapshot.notes());
    report.notes.extend(notes::of_rules(snapshot, &change.namespace));
    let all = observe_all(snapshot, &snapshot.explain(now, |_| false), now);
    report.notes.extend(all.only(Some(&arguments.target)).workloads.into_iter().filter_map(|workload| workload.reload));
    match &change.way {
        Way::InPlace(prepared) => {
            let asked = change.images.values().filter(|image| image.asks_registry);
            report.notes.extend(asked.map(|image| {
                format!(
                    "the registry is asked what {} means when the rollout begins (imagePullPolicy: Always); every pod gets that \
                     digest, which is named then by: kubectl hitless why -n {} {}",
                    image.to, change.namespace, change.target
                )
            }));
            if let Some(found) = prepared.find(&arguments.target) {
                let workload = found.workload.into_iter();
                report.notes.extend(workload.flat_map(|object| notes::once_per_pod(object, &found.pods)));
            }
            simulate::run(prepared, &arguments.target, assumed, &mut report);
        }
        Way::Native(why) => report.why.clone_from(why),
        Way::Nothing if snapshot.find(&arguments.target).is_some_and(|found| found.pods.is_empty()) => {
            "it has no pods".clone_into(&mut report.why);
        }
        Way::Nothing if change.is_none() => {
            "all pods have this already".clone_into(&mut report.why);
        }
        Way::Nothing => {
            "no pod would get them: its update strategy leaves all out (partition)".clone_into(&mut report.why);
        }
    }
    Ok(report)
}

fn show(report: &Report, output: Format) -> Result<(), Failure> {
    crate::output::show(report, output, || text::render(report))?;
    match report.ending() {
        Ending::Complete => Ok(()),
        Ending::Stuck(held) => {
            let what = if held.is_rule { "rule " } else { "" };
            Err(Failure::Blocked(format!("{what}{} would stop the rollout", crate::output::one_line(&held.rule))))
        }
        Ending::LeftOut(pod) => Err(Failure::Failed(format!("pod {pod} would not be operated"))),
    }
}

#[cfg(test)]
mod tests;
