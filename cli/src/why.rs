//! `kubectl hitless why`: what every rule says of a pod, and what else is in the way.

mod answer;
mod text;

use jiff::Timestamp;
use kube::Client;

use crate::args::{Named, Target, TargetKind, WhyArgs};
use crate::failure::Failure;
use crate::output::show;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
pub(crate) use answer::{Answer, PodAnswer};
pub(crate) use text::render;

use answer::{Blocked, Stopped};

pub(crate) async fn run(client: Client, namespace: String, arguments: &WhyArgs) -> Result<(), Failure> {
    let snapshot = source::read(&client, &Scope::Namespace(namespace)).await?;
    let answer = explain(&snapshot, &arguments.target, Timestamp::now())?;
    show(&answer, arguments.output, || text::render(&answer))?;
    verdict(answer.blocked())
}

/// How the command ends (docs/contract.md#units-and-exit-codes).
pub(crate) fn verdict(blocked: Blocked<'_>) -> Result<(), Failure> {
    match blocked {
        Blocked::No => Ok(()),
        Blocked::ByRule(pod) => {
            Err(Failure::Blocked(format!("a rule is in the way of pod {pod}, and waiting alone does not help")))
        }
        Blocked::ByPause(pod) => Err(Failure::Blocked(format!("the workload of pod {pod} is paused"))),
        Blocked::ByChange(pod) => Err(Failure::Blocked(format!(
            "what is in the way of pod {pod} stays until it is changed, and waiting alone does not help"
        ))),
        Blocked::Stopped(Stopped::Refused(workload)) => {
            Err(Failure::Blocked(format!("the change of {workload} is refused")))
        }
        Blocked::Stopped(Stopped::Overdue(workload)) => {
            Err(Failure::Failed(format!("the native rollout of {workload} has not got on in time")))
        }
        Blocked::Stopped(Stopped::Halted(workload)) => Err(Failure::Failed(format!("{workload} is halted"))),
        Blocked::Otherwise(pod) => Err(Failure::Failed(format!("something is in the way of pod {pod}"))),
    }
}

pub(crate) fn explain(snapshot: &Snapshot, named: &Named, now: Timestamp) -> Result<Answer, Failure> {
    let Named { kind, name } = named;
    let kinds = kind.clone().map_or_else(|| vec![TargetKind::default_workload(), TargetKind::Pod], |kind| vec![kind]);
    let mut targets = kinds.into_iter().map(|kind| Target { kind, name: name.clone() });
    let Some(target) = targets.find(|target| snapshot.find(target).is_some()) else {
        return Err(snapshot.missing(&match kind {
            None => format!("neither deployment/{name} nor pod/{name} exists"),
            Some(kind) => format!("{} does not exist", Target { kind: kind.clone(), name: name.clone() }),
        }));
    };
    Ok(Answer::of(snapshot, &target, now))
}

#[cfg(test)]
mod same_as_controller;
#[cfg(test)]
mod tests;
