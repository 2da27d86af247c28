//! `kubectl hitless plan`: what a new image would do. The controller's planner and gate are asked again and again about a copy
//! of what is there, with an assumed time for each operation; nothing is written.

mod from_files;
mod report;
mod simulate;
mod target;
mod text;

use jiff::Timestamp;
use kube::Client;

use crate::args::{Format, PlanArgs, TargetKind};
use crate::failure::Failure;
use crate::files;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use report::{Ending, Report};
use simulate::Assumed;
use target::Way;

/// Namespace of objects from files that name none.
const DEFAULT_NAMESPACE: &str = "default";

pub(crate) async fn of_cluster(client: Client, namespace: String, arguments: &PlanArgs) -> Result<(), Failure> {
    let snapshot = source::read_with_modes(&client, &Scope::Namespace(namespace.clone())).await?;
    let assumed = Assumed { operation_seconds: arguments.operation_seconds, from_files: false };
    show(&plan(&snapshot, &namespace, arguments, &assumed, Timestamp::now())?, arguments.output)
}

pub(crate) fn of_files(namespace: Option<&str>, arguments: &PlanArgs) -> Result<(), Failure> {
    let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
    let (objects, unreadable) = files::read(&arguments.files, namespace)?;
    if let Some(first) = unreadable.first() {
        return Err(Failure::Failed(format!("{}:{}: {}", first.file, first.line, first.text)));
    }
    let (snapshot, notes) = from_files::snapshot(&objects, arguments.nodes)?;
    let assumed = Assumed { operation_seconds: arguments.operation_seconds, from_files: true };
    let mut report = plan(&snapshot, namespace, arguments, &assumed, Timestamp::now())?;
    report.notes.extend(notes);
    show(&report, arguments.output)
}

fn plan(
    snapshot: &Snapshot,
    namespace: &str,
    arguments: &PlanArgs,
    assumed: &Assumed,
    now: Timestamp,
) -> Result<Report, Failure> {
    if arguments.target.kind == TargetKind::Pod {
        return Err(Failure::Usage("an image is a workload's; write deployment/NAME".to_owned()));
    }
    let change = target::change(snapshot, namespace, &arguments.target.name, &arguments.images)?;
    let mut report = Report::new(&change, assumed, now);
    report.notes.extend(snapshot.notes());
    match &change.way {
        Way::InPlace(prepared) => simulate::run(prepared, &change.name, namespace, assumed, &mut report),
        Way::Native(why) => report.why.clone_from(why),
        Way::Nothing => "all pods have these images already".clone_into(&mut report.why),
    }
    Ok(report)
}

fn show(report: &Report, output: Format) -> Result<(), Failure> {
    match output {
        Format::Text => say(text::render(report).trim_end())?,
        Format::Json => say(&serde_json::to_string_pretty(report).map_err(std::io::Error::from)?)?,
    }
    match report.ending() {
        Ending::Complete => Ok(()),
        Ending::Stuck(rule) => Err(Failure::Blocked(format!("rule {rule} would stop the rollout"))),
        Ending::LeftOut(pod) => Err(Failure::Failed(format!("pod {pod} would not be operated"))),
    }
}

#[cfg(test)]
mod tests;
